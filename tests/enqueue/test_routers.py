"""Routers are for the project's models: the queue is on the alias that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connections
from django.test import Client

from skipper_django import enqueue_many
from skipper_django.models import Task
from skipper_django.testing import run_ready
from tests.contract import tasks
from tests.databases import sqlite_database

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker
    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.case("R44")


class Replica:
    """Sends reads of our model to a replica that is not there, and writes elsewhere."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "replica" if model._meta.app_label == "skipper_django" else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "primary" if model._meta.app_label == "skipper_django" else None


class AdminOn:
    """The models of the admin live beside the queue."""

    alias = "default"

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "replica" if model._meta.app_label == "skipper_django" else self.alias

    db_for_write = db_for_read


def test_no_statement_of_the_queue_asks_a_router(queue: str, settings: Settings) -> None:
    settings.DATABASE_ROUTERS = [f"{__name__}.Replica"]

    result = tasks.other.enqueue(1)
    again = tasks.other.using(task_id="own")
    enqueue_many([(again, [2]), (tasks.until_third, [])])
    again.enqueue(2)
    assert run_ready() == 3

    result.refresh()
    assert result.return_value == 1
    assert Task.objects.using(queue).count() == 3


def test_the_admin_reads_where_the_queue_is(
    queue: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AdminOn, "alias", queue)
    settings.DATABASE_ROUTERS = [f"{__name__}.AdminOn"]
    result = tasks.other.enqueue(1)
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    row = Task.objects.using(queue).get()

    for path in (
        "",
        f"?q={result.id}",
        "?status=1",
        f"?queue={row.lane}",
        f"{row.pk}/change/",
    ):
        page = client.get(f"/admin/skipper_django/task/{path}")
        assert page.status_code == 200
        assert result.id in page.content.decode()


class Elsewhere:
    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if app_label == "skipper_django" else None


def test_allow_migrate_keeps_the_tables_out(
    settings: Settings,
    tmp_path: Path,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
) -> None:
    settings.DATABASE_ROUTERS = [f"{__name__}.Elsewhere"]
    path = str(tmp_path / "other.sqlite3")
    with django_db_blocker.unblock(), sqlite_database("other", path) as other:
        call_command("migrate", "skipper_django", database=other, verbosity=0)
        tables = connections[other].introspection.table_names()

    assert Task._meta.db_table not in tables
