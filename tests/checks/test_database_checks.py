"""The databases that hold a queue: options that would hurt are named before they do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.core import checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connections

from skipper_django.models import Task
from tests.contract import tasks
from tests.databases import sqlite_database

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django import DjangoDbBlocker
    from pytest_django.fixtures import Settings

OURS = "skipper_django.backend.SkipperBackend"
DUMMY = tasks.framework.__name__ + ".backends.dummy.DummyBackend"


def problems(*aliases: str) -> list[str]:
    """The ids of our messages, with those of live databases if any are named."""
    return sorted(
        str(m.id)
        for m in checks.run_checks(databases=list(aliases) or None)
        if str(m.id).startswith("skipper")
    )


def text_of(check_id: str, *aliases: str) -> str:
    (message,) = (m for m in checks.run_checks(databases=list(aliases) or None) if m.id == check_id)
    return f"{message.msg} {message.hint}"


@contextmanager
def options(alias: str, **values: Any) -> Iterator[None]:
    """The alias with other OPTIONS."""
    settings_dict = connections[alias].settings_dict
    before = settings_dict["OPTIONS"]
    settings_dict["OPTIONS"] = {**before, **values}
    try:
        yield
    finally:
        settings_dict["OPTIONS"] = before


@pytest.mark.case("R44")
@pytest.mark.parametrize("place", ["SKIPPER", "OPTIONS"])
def test_an_alias_that_is_not_there_is_an_error(settings: Settings, place: str) -> None:
    if place == "SKIPPER":
        settings.SKIPPER = {"DATABASE": "defualt"}
    else:
        settings.TASKS = {"default": {"BACKEND": OURS, "OPTIONS": {"DATABASE": "defualt"}}}

    assert problems() == ["skipper.E003"]
    assert "'defualt'" in text_of("skipper.E003")
    assert "default" in text_of("skipper.E003")


def test_the_options_of_another_backend_are_its_own(settings: Settings) -> None:
    settings.TASKS = {"default": {"BACKEND": DUMMY, "OPTIONS": {"DATABASE": "elsewhere"}}}

    assert problems() == []


class Forbidding:
    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if app_label == "skipper_django" else None


class Parting:
    """Tasks here, members elsewhere."""

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return False if hints.get("model_name") == "member" else None


class Allowing:
    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return True


@pytest.mark.case("R44")
def test_a_router_that_contradicts_the_settings_is_an_error(settings: Settings) -> None:
    settings.DATABASE_ROUTERS = [f"{__name__}.Forbidding"]
    assert problems() == ["skipper.E005"]

    settings.DATABASE_ROUTERS = [f"{__name__}.Allowing"]
    assert problems() == []


def test_tasks_and_members_in_different_databases_are_refused_by_check_and_worker(
    settings: Settings,
) -> None:
    settings.DATABASE_ROUTERS = [f"{__name__}.Parting"]

    assert problems() == ["skipper.E005"]
    with pytest.raises(SystemCheckError, match="forbids member"):
        # As from the command line: call_command() alone skips the checks.
        call_command("skipper_worker", "--drain", skip_checks=False)


def test_an_engine_that_we_do_not_speak_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections["default"], "vendor", "oracle")

    assert "skipper.E004" in problems()
    assert "PostgreSQL" in text_of("skipper.E004")


@pytest.mark.django_db
def test_an_engine_that_we_do_not_speak_is_reported_live_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections["default"], "vendor", "oracle")

    assert problems("default").count("skipper.E004") == 1


@pytest.mark.case("R2")
def test_a_queue_beside_the_business_data_is_a_warning(
    settings: Settings, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> None:
    with django_db_blocker.unblock(), sqlite_database("queue", str(tmp_path / "q")) as alias:
        settings.SKIPPER = {"DATABASE": alias}

        assert problems() == ["skipper.W001"]
        assert "on_commit" in text_of("skipper.W001")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, []),
        ({"timeout": 4.9}, ["skipper.W003"]),
        ({"timeout": 5}, []),
        ({"transaction_mode": None}, ["skipper.W004"]),
        ({"transaction_mode": "deferred"}, ["skipper.W004"]),
        ({"transaction_mode": "exclusive"}, []),
    ],
    ids=str,
)
def test_sqlite_that_would_lock_is_a_warning(values: dict[str, Any], expected: list[str]) -> None:
    with options("default", **values):
        assert problems() == expected


@pytest.mark.django_db
def test_the_live_databases_of_the_tests_are_clean(queue: str) -> None:
    assert problems(queue) == ([] if queue == "default" else ["skipper.W001"])


def test_sqlite_without_a_write_ahead_log_is_a_warning(
    settings: Settings, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> None:
    with django_db_blocker.unblock(), sqlite_database("other", str(tmp_path / "o")) as alias:
        settings.SKIPPER = {"DATABASE": alias}
        with options(alias, init_command="PRAGMA journal_mode=DELETE"):
            assert problems(alias) == ["skipper.W001", "skipper.W006"]


HARMFUL = ["repeatable read", "serializable"]
LEVELS: dict[str, list[Any]] = {
    "mysql": HARMFUL,
    "mariadb": ["REPEATABLE READ", "Serializable"],
    "postgresql": [3, 4],
}


@pytest.mark.parametrize("place", [0, 1])
def test_an_isolation_level_in_the_options_is_a_warning(queue: str, place: int) -> None:
    if queue not in LEVELS:
        pytest.skip("no such option here")
    with options(queue, isolation_level=LEVELS[queue][place]):
        assert "skipper.W002" in problems()
        assert HARMFUL[place] in text_of("skipper.W002")


@pytest.mark.parametrize("place", [0, 1])
def test_a_lower_isolation_level_in_the_options_is_clean(queue: str, place: int) -> None:
    if queue not in LEVELS:
        pytest.skip("no such option here")
    level = (1, 2) if queue == "postgresql" else ("read uncommitted", "read committed")
    with options(queue, isolation_level=level[place]):
        assert "skipper.W002" not in problems()


@pytest.mark.parametrize("level", HARMFUL)
def test_the_isolation_level_of_a_live_session_is_a_warning(queue: str, level: str) -> None:
    if queue not in LEVELS:
        pytest.skip("no such level here")
    if queue == "postgresql":
        change = f"SET default_transaction_isolation = '{level}'"
        back = "RESET default_transaction_isolation"
    else:
        change = f"SET SESSION TRANSACTION ISOLATION LEVEL {level}"
        back = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
    with connections[queue].cursor() as cursor:
        cursor.execute(change)
        try:
            assert "skipper.W002" in problems(queue)
            assert level in text_of("skipper.W002", queue)
        finally:
            cursor.execute(back)
    assert "skipper.W002" not in problems(queue)


@pytest.mark.case("R5")
def test_a_server_that_cuts_values_is_a_warning(queue: str) -> None:
    if connections[queue].vendor != "mysql":
        pytest.skip("no such mode here")
    with connections[queue].cursor() as cursor:
        cursor.execute("SELECT @@SESSION.sql_mode")
        (before,) = cursor.fetchone()
        cursor.execute("SET SESSION sql_mode = ''")
        try:
            assert "skipper.W005" in problems(queue)
            for mode in ("STRICT_ALL_TABLES", "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE"):
                cursor.execute("SET SESSION sql_mode = %s", [mode])
                assert "skipper.W005" not in problems(queue)
        finally:
            cursor.execute("SET SESSION sql_mode = %s", [before])


@pytest.mark.case("R42")
@pytest.mark.django_db(transaction=True)
def test_a_converted_column_is_an_error(queue: str) -> None:
    if connections[queue].vendor != "mysql":
        pytest.skip("no such conversion here")
    table = Task._meta.db_table
    with connections[queue].cursor() as cursor:
        cursor.execute(f"SHOW FULL COLUMNS FROM {table} LIKE 'task_id'")
        collation = cursor.fetchone()[2]
        change = f"ALTER TABLE {table} MODIFY task_id varchar(255) CHARACTER SET utf8mb4 COLLATE"
        cursor.execute(f"{change} utf8mb4_general_ci NOT NULL")
        try:
            assert "skipper.E006" in problems(queue)
            assert "utf8mb4_general_ci" in text_of("skipper.E006", queue)
        finally:
            cursor.execute(f"{change} {collation} NOT NULL")
    assert "skipper.E006" not in problems(queue)
