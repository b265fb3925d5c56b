"""What is somebody else's lock, what is an outage, and what is neither: by real errors."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, Error, IntegrityError, transaction

from skipper_django.core.outcome import Succeeded
from skipper_django.core.states import TaskState
from skipper_django.store.claim import claim
from skipper_django.store.database import CONTENTION_TRIES, Database
from skipper_django.store.settle import settle
from tests.store.support import (
    NOW,
    Running,
    await_blocked,
    claimant,
    default_connection,
    leases,
    row,
    save,
    second_connection,
    side_by_side,
    states,
)

pytestmark = pytest.mark.django_db(transaction=True)

# Options under which a statement gives up at once on a lock that somebody else holds.
IMPATIENT: dict[str, dict[str, Any]] = {
    "sqlite": {"timeout": 0},
    "mysql": {"init_command": "SET SESSION innodb_lock_wait_timeout = 1"},
    "postgresql": {"options": "-c lock_timeout=50ms"},
}


def options_of(database: Database) -> dict[str, Any]:
    return IMPATIENT[database.connection.vendor]


def error_of(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Error) as caught:
        call()
    return caught.value


def touch(database: Database) -> int:
    return database.execute(f"UPDATE {database.tasks} SET attempts = attempts + 1")  # noqa: S608


def skip_sqlite(database: Database, why: str) -> None:
    if database.connection.vendor == "sqlite":
        pytest.skip(why)


def test_a_row_that_others_hold_is_contention(database: Database) -> None:
    save(database, row())
    with transaction.atomic(database.alias):
        touch(database)

        with Held(database) as impatient:
            error = error_of(lambda: touch(impatient))

    assert isinstance(error, DatabaseError)
    assert database.dialect.is_contention(error)
    assert not database.dialect.is_outage(error)
    assert database.is_transient(error)


class Held:
    """The alias in another connection of this thread, which gives up on locks at once."""

    def __init__(self, database: Database) -> None:
        self._context = second_connection(database.alias, options_of(database))
        self._alias = database.alias

    def __enter__(self) -> Database:
        connection = self._context.__enter__()
        impatient = Database(self._alias)
        impatient.__class__ = type("Impatient", (Database,), {"connection": connection})
        return impatient

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)


@pytest.mark.case("R8")
def test_a_deadlock_is_contention(database: Database) -> None:
    skip_sqlite(database, "one writer, no deadlocks of rows")
    save(database, row("one"), row("two"))
    errors: list[Exception] = []

    def in_transaction(first: str, then: str, meet: Callable[[], None]) -> None:
        mine = Database(database.alias)
        sql = f"UPDATE {database.tasks} SET attempts = 1 WHERE task_id = %s"  # noqa: S608
        try:
            with transaction.atomic(database.alias):
                mine.execute(sql, [first])
                meet()
                mine.execute(sql, [then])
        except DatabaseError as error:
            errors.append(error)

    both = threading.Barrier(2)
    side_by_side(
        lambda: in_transaction("one", "two", lambda: _pass(both)),
        lambda: in_transaction("two", "one", lambda: _pass(both)),
    )

    (error,) = errors
    assert isinstance(error, DatabaseError)
    assert database.dialect.is_contention(error)


def _pass(barrier: threading.Barrier) -> None:
    barrier.wait(30)


@pytest.mark.case("R8")
def test_a_statement_that_meets_a_lock_is_repeated_until_it_is_free(database: Database) -> None:
    save(database, row())
    tries = []
    with default_connection(database.alias, options_of(database)) as impatient:
        holder = second_connection(database.alias)
        other = holder.__enter__()
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute(f"UPDATE {database.tasks} SET attempts = 7")  # noqa: S608

        def attempt() -> int:
            tries.append(1)
            if len(tries) == 3:
                other.commit()
            return touch(impatient)

        matched = impatient.through_contention(attempt)

        other.set_autocommit(True)
        holder.__exit__(None, None, None)
        assert (matched, len(tries)) == (1, 3)


@pytest.mark.case("R8")
def test_a_lock_that_is_never_freed_is_raised_after_a_few_tries(database: Database) -> None:
    if database.connection.vendor == "mysql":
        pytest.skip("a second for each try: the others show it")
    save(database, row())
    tries = []
    with (
        default_connection(database.alias, options_of(database)) as impatient,
        second_connection(database.alias) as other,
        other.cursor() as cursor,
    ):
        other.set_autocommit(False)
        cursor.execute(f"UPDATE {database.tasks} SET attempts = 7")  # noqa: S608

        def attempt() -> int:
            tries.append(1)
            return touch(impatient)

        error = error_of(lambda: impatient.through_contention(attempt))
        other.rollback()
        other.set_autocommit(True)

    assert len(tries) == CONTENTION_TRIES
    assert isinstance(error, DatabaseError)
    assert database.dialect.is_contention(error)


def test_a_statement_of_the_callers_transaction_is_not_repeated(database: Database) -> None:
    save(database, row())
    tries = []
    with (
        default_connection(database.alias, options_of(database)) as impatient,
        second_connection(database.alias) as other,
        other.cursor() as cursor,
    ):
        if database.connection.vendor == "sqlite":
            impatient.connection.ensure_connection()
            impatient.connection.transaction_mode = None  # type: ignore[attr-defined]
        other.set_autocommit(False)
        cursor.execute(f"UPDATE {database.tasks} SET attempts = 7")  # noqa: S608

        def attempt() -> int:
            tries.append(1)
            return touch(impatient)

        def in_transaction() -> None:
            with transaction.atomic(database.alias):
                impatient.through_contention(attempt)

        error_of(in_transaction)
        other.rollback()
        other.set_autocommit(True)

    assert len(tries) == 1


def test_other_errors_are_raised_at_once_and_are_not_transient(database: Database) -> None:
    tries = []

    def attempt() -> int:
        tries.append(1)
        return database.execute("SELECT nonsense FROM nowhere")

    error = error_of(lambda: database.through_contention(attempt))

    assert len(tries) == 1
    assert not database.is_transient(error)


def test_a_violated_rule_is_not_transient(database: Database) -> None:
    save(database, row("mine"))

    with pytest.raises(IntegrityError) as caught:
        save(database, row("mine"))

    assert not database.is_transient(caught.value)


@pytest.mark.parametrize("error", [ValueError("x"), OSError("x"), KeyError(), Exception()])
def test_errors_that_are_not_the_databases_are_not_transient(
    database: Database, error: Exception
) -> None:
    assert not database.is_transient(error)


def test_a_killed_session_is_an_outage_and_the_next_statement_goes_through(
    database: Database,
) -> None:
    skip_sqlite(database, "a file has no sessions to end")
    ask, kill = {
        "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"),
        "mysql": ("SELECT CONNECTION_ID()", "KILL {}"),
    }[database.connection.vendor]
    held = leases(database, 1)
    with default_connection(database.alias) as fresh:
        ((session,),) = fresh.rows(ask)
        with second_connection(database.alias) as other, other.cursor() as cursor:
            cursor.execute(kill.format(session))

        error = error_of(lambda: settle(fresh, [(held[0], Succeeded(None))], NOW))

        assert fresh.is_transient(error)
        assert fresh.dialect.is_outage(error)
        fresh.close()
        assert settle(fresh, [(held[0], Succeeded(None))], NOW) == []
    assert states(database) == [TaskState.SUCCESSFUL]


def test_a_statement_killed_under_way_is_transient(database: Database) -> None:
    skip_sqlite(database, "a file has no sessions to end")
    save(database, row())
    vendor = database.connection.vendor
    with transaction.atomic(database.alias):
        touch(database)
        sessions: list[int] = []

        def wait() -> int:
            mine = Database(database.alias)
            ask = "SELECT pg_backend_pid()" if vendor == "postgresql" else "SELECT CONNECTION_ID()"
            sessions.append(mine.rows(ask)[0][0])
            return touch(mine)

        running = Running(wait)
        await_blocked(database, running)
        kill = "SELECT pg_cancel_backend({})" if vendor == "postgresql" else "KILL QUERY {}"
        database.rows(kill.format(sessions[0]))
        error = error_of(running.result)

    assert database.is_transient(error)


def test_a_statement_that_ran_into_the_servers_time_limit_is_transient(
    database: Database,
) -> None:
    vendor, mariadb = database.connection.vendor, getattr(database.dialect, "is_mariadb", False)
    skip_sqlite(database, "no such limit")
    if vendor == "mysql" and not mariadb:
        pytest.skip("MySQL limits only plain SELECTs")
    limit = (
        {"options": "-c statement_timeout=100ms"}
        if vendor == "postgresql"
        else {"init_command": "SET SESSION max_statement_time = 0.1"}
    )
    save(database, row())
    with transaction.atomic(database.alias):
        touch(database)

        def touch_in_time() -> int:
            with default_connection(database.alias, limit) as limited:
                return touch(limited)

        error = error_of(Running(touch_in_time).result)

    assert database.is_transient(error)


def test_a_server_that_cannot_be_reached_is_an_outage(database: Database) -> None:
    settings: dict[str, Any] = (
        {"NAME": "/nonexistent/directory/db.sqlite3"}
        if database.connection.vendor == "sqlite"
        else {"PORT": "1", "HOST": "127.0.0.1"}
    )
    with default_connection(database.alias, **settings) as away:
        error = error_of(lambda: away.rows("SELECT 1"))

        assert away.is_transient(error)
        assert away.dialect.is_outage(error)


def test_a_read_only_database_is_an_outage(database: Database) -> None:
    save(database, row())
    statement = {
        "sqlite": "PRAGMA query_only = 1",
        "postgresql": "SET default_transaction_read_only = on",
        "mysql": "SET SESSION TRANSACTION READ ONLY",
    }[database.connection.vendor]
    with default_connection(database.alias) as reading:
        reading.execute(statement)

        error = error_of(lambda: touch(reading))

    assert database.dialect.is_outage(error)


def test_a_closed_connection_is_opened_again(database: Database) -> None:
    save(database, row())
    database.close()

    assert len(claim(database, claimant(), 1, NOW)) == 1


@pytest.mark.case("R9")
def test_a_writer_elsewhere_is_waited_for_on_sqlite(database: Database) -> None:
    if database.connection.vendor != "sqlite":
        pytest.skip("SQLite has one writer for the whole file")
    save(database, row())
    other = sqlite3.connect(database.connection.settings_dict["NAME"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    claiming = Running(lambda: claim(Database(database.alias), claimant(), 1, NOW))
    other.execute("COMMIT")
    other.close()

    assert len(claiming.result()) == 1
