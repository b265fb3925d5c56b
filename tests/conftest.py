"""Fixtures of all tests.

A test that takes `alias` runs once on each database, and only on that one: its `django_db` marker
(added where there is none) is narrowed to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import pytest_django
from django.db import connections

from tests import servers, servers_plugin

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

DATABASES = {"default": "sqlite"} | {alias: alias for alias in servers.ALIASES}


@pytest.fixture(params=list(DATABASES), ids=list(DATABASES.values()))
def alias(request: pytest.FixtureRequest) -> str:
    """The database alias under test."""
    return str(request.param)


@pytest.fixture
def queue(alias: str, settings: Settings) -> str:
    """The database under test holds the queue of the project; its alias."""
    settings.SKIPPER = {**settings.SKIPPER, "DATABASE": alias}
    return alias


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """Nothing: each process of a parallel run has servers of its own, and so the same names."""


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_setup: None, django_db_blocker: pytest_django.DjangoDbBlocker
) -> Iterator[None]:
    """As pytest-django has it; a session that a thread left open must not keep a database alive."""
    yield
    with django_db_blocker.unblock():
        for connection in connections.all(initialized_only=True):
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        callspec = getattr(item, "callspec", None)
        marker = item.get_closest_marker("django_db")
        if callspec is not None and "alias" in callspec.params:
            _narrow(item, [callspec.params["alias"]])
        elif marker is not None and isinstance(marker.kwargs.get("databases"), list):
            _narrow(item, marker.kwargs["databases"])


def _narrow(item: pytest.Item, aliases: list[str]) -> None:
    """Let the test use these databases; skip it, visibly, where one of them cannot be had."""
    names = {alias: DATABASES[alias] for alias in aliases}
    for name in names.values():
        if name in servers_plugin.missing:
            item.add_marker(pytest.mark.skip(reason=f"no {name}: {servers_plugin.missing[name]}"))
    marker = item.get_closest_marker("django_db")
    options = dict(marker.kwargs) if marker else {}
    # In front of the test's own marker, so that pytest-django sees this one; a database that is
    # missing has no entry in the settings to set up.
    there = [alias for alias, name in names.items() if name not in servers_plugin.missing]
    item.add_marker(pytest.mark.django_db(**{**options, "databases": there}), append=False)
