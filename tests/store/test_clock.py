"""The one clock: the database's, in UTC, whatever the session, the settings or the host say."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import Error, connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from skipper_django.store.clock import SMOOTHED, DatabaseClock, clock_of, use_clock
from skipper_django.store.database import Database
from tests.store.support import default_connection, second_connection, side_by_side

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
EPOCH_SQL = {
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "SELECT extract(epoch from clock_timestamp())",
    "mysql": "SELECT UNIX_TIMESTAMP(NOW(6))",
}
SESSION_ZONE_SQL = {
    "postgresql": "SET TIME ZONE 'Pacific/Kiritimati'",
    "mysql": "SET time_zone = '+12:30'",
}


def server_time(database: Database) -> datetime:
    ((seconds,),) = database.rows(EPOCH_SQL[database.connection.vendor])
    return datetime.fromtimestamp(float(seconds), UTC)


def agrees(database: Database) -> bool:
    before = server_time(database)
    read = DatabaseClock(database.alias).now()
    after = server_time(database)
    return before - SECOND <= read <= after + SECOND and read.utcoffset() == timedelta(0)


def test_the_clock_is_the_servers_own_time_in_utc(database: Database) -> None:
    assert agrees(database)


def test_the_clock_reads_this_moment_and_not_the_start_of_the_transaction(
    database: Database,
) -> None:
    with second_connection(database.alias) as other, other.cursor() as cursor:
        other.set_autocommit(False)
        cursor.execute("SELECT 1")
        connections[database.alias], usual = other, connections[database.alias]
        try:
            start = DatabaseClock(database.alias).now()
            threading.Event().wait(0.05)
            later = DatabaseClock(database.alias).now()
        finally:
            connections[database.alias] = usual
        other.rollback()
        other.set_autocommit(True)

    assert later - start >= timedelta(seconds=0.04)


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns", "Pacific/Kiritimati"])
def test_the_settings_do_not_move_the_clock(database: Database, use_tz: bool, zone: str) -> None:
    with (
        override_settings(USE_TZ=use_tz, TIME_ZONE=zone),
        default_connection(database.alias) as fresh,
    ):
        assert agrees(fresh)


def test_the_time_zone_of_the_connection_does_not_move_the_clock(database: Database) -> None:
    with default_connection(database.alias, TIME_ZONE="Asia/Kathmandu") as fresh:
        assert agrees(fresh)


@pytest.mark.parametrize("use_tz", [True, False])
def test_a_session_zone_that_django_does_not_know_of_does_not_move_the_clock(
    database: Database, use_tz: bool
) -> None:
    statement = SESSION_ZONE_SQL.get(database.connection.vendor)
    if statement is None:
        pytest.skip("SQLite has no time zones")

    with override_settings(USE_TZ=use_tz), default_connection(database.alias) as fresh:
        fresh.execute(statement)

        assert agrees(fresh)


def test_readings_never_go_back(database: Database) -> None:
    clock = DatabaseClock(database.alias)
    readings = []

    for number in range(300):
        if number % 10 == 0:
            clock._read()
        readings.append(clock.now())

    assert readings == sorted(readings)


def test_readings_of_several_threads_agree(database: Database) -> None:
    clock = DatabaseClock(database.alias)

    readings = side_by_side(*[clock.now] * 4)

    assert max(readings) - min(readings) < SECOND


def test_the_database_is_asked_again_only_after_a_while(database: Database) -> None:
    asked = []

    class Counting(DatabaseClock):
        def _read(self) -> None:
            asked.append(1)
            super()._read()

    clock = Counting(database.alias)
    for _ in range(100):
        clock.now()
        clock.estimate()

    assert len(asked) == 1


def test_an_estimate_never_asks(database: Database) -> None:
    class Never(DatabaseClock):
        def _read(self) -> None:
            raise AssertionError("asked")

    first = Never(database.alias).estimate()

    assert first.year == 1970


def test_a_small_step_back_of_the_server_is_smoothed_and_a_large_one_followed(
    database: Database,
) -> None:
    clock = DatabaseClock(database.alias)
    now = clock.now()

    clock._time += SMOOTHED / 2  # as if the server had been ahead when it was last asked
    clock._read()
    assert clock.estimate() - now >= SMOOTHED / 2

    clock._time += 10 * SMOOTHED
    clock._read()
    assert abs(clock.estimate() - server_time(database)) < SECOND + SMOOTHED


def test_a_reading_is_nobodys_query(database: Database) -> None:
    with CaptureQueriesContext(database.connection) as queries:
        DatabaseClock(database.alias).now()

    assert len(queries) == 0


def test_a_reading_opens_the_connection_where_there_is_none(database: Database) -> None:
    database.connection.close()

    assert agrees(database)


def test_a_reading_that_fails_raises_djangos_errors_as_an_outage(database: Database) -> None:
    if database.connection.vendor == "sqlite":
        pytest.skip("a file has no sessions to end")
    end = {
        "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"),
        "mysql": ("SELECT CONNECTION_ID()", "KILL {}"),
    }[database.connection.vendor]

    with default_connection(database.alias) as fresh:
        ((session,),) = fresh.rows(end[0])
        with second_connection(database.alias) as other, other.cursor() as cursor:
            cursor.execute(end[1].format(session))

        with pytest.raises(Error) as caught:
            DatabaseClock(database.alias).now()

        assert fresh.is_transient(caught.value)
        fresh.connection.close_if_unusable_or_obsolete()
        assert agrees(fresh)


def test_a_clock_can_be_replaced_and_forgotten(database: Database) -> None:
    replacement: Any = object()
    before = use_clock(database.alias, replacement)
    try:
        assert clock_of(database.alias) is replacement
    finally:
        use_clock(database.alias, before)

    assert clock_of(database.alias) is clock_of(database.alias) is not replacement
