"""A look at the cluster on the database under test, and people with and without permission."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.http import HttpRequest
from django.test import Client, RequestFactory

from skipper_django import conf
from skipper_django.overview import Overview, look
from skipper_django.store.clock import clock_of

PAGE = "/admin/skipper_django/member/"
JSON = "/skipper/admin/cluster"


@pytest.fixture
def see(queue: str) -> Callable[..., Overview]:
    """The overview of the project's cluster, or of another tenant's."""

    def look_now(tenant: str = "default") -> Overview:
        return look(conf.load({"TENANT": tenant}), clock_of(queue))

    return look_now


@pytest.fixture
def as_superuser() -> Callable[..., HttpRequest]:
    """A request of somebody who may do everything and is in no database."""

    def request(path: str, method: str = "GET") -> HttpRequest:
        made = RequestFactory().generic(method, path)
        made.user = User(username="root", is_active=True, is_staff=True, is_superuser=True)
        return made

    return request


@pytest.fixture
def viewer(db: None) -> Client:
    """Staff who may look at members, and nothing else."""
    user = User.objects.create_user("viewer", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_member"))
    client = Client()
    client.force_login(user)
    return client
