"""The time of the queue's database, asked rarely, carried on by the process's monotonic clock.

Statements take `now` as an argument, so one reading serves many statements, costs none of them a
round trip, and a test can move it. Hosts with wrong clocks agree all the same: only the database's
clock is ever read.
"""

import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

from django.db import connections

from ..core.clock import Clock, monotonic
from .dialects import dialect_of

READ_EVERY_SECONDS = 10.0
# A step back of the database's clock up to this much is smoothed, so that tasks keep their order.
SMOOTHED = timedelta(seconds=1)


class DatabaseClock:
    """Safe to share between threads; each reads through its own connection."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._lock = threading.Lock()
        self._read_at = monotonic() - READ_EVERY_SECONDS
        self._time = datetime(1970, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        if monotonic() - self._read_at >= READ_EVERY_SECONDS:
            self._read()
        return self.estimate()

    def estimate(self) -> datetime:
        with self._lock:
            return self._time + timedelta(seconds=monotonic() - self._read_at)

    def monotonic(self) -> float:
        return monotonic()

    def _read(self) -> None:
        connection = connections[self.alias]
        connection.ensure_connection()
        dialect = dialect_of(connection)
        # Below Django's cursor wrappers: a reading that falls due inside somebody's
        # assertNumQueries() must not be counted as theirs.
        with connection.wrap_database_errors, closing(connection.create_cursor()) as cursor:
            cursor.execute(dialect.clock_sql)
            (value,) = cursor.fetchone()
        time = dialect.from_db(value)
        assert time is not None  # noqa: S101  (a SELECT of the time)
        with self._lock:
            expected = self._time + timedelta(seconds=monotonic() - self._read_at)
            self._time = expected if time < expected < time + SMOOTHED else time
            self._read_at = monotonic()


_clocks: dict[str, Clock] = {}


def clock_of(alias: str) -> Clock:
    """The clock of an alias, one for the whole process."""
    clock = _clocks.get(alias)
    if clock is None:
        clock = _clocks.setdefault(alias, DatabaseClock(alias))
    return clock


def use_clock(alias: str, clock: Clock | None) -> Clock | None:
    """Replace the clock of an alias, for tests; None forgets it. Returns the one before."""
    before = _clocks.pop(alias, None)
    if clock is not None:
        _clocks[alias] = clock
    return before


def host_skew(alias: str) -> float:
    """Seconds by which this host's clock is ahead of the database's; accurate to a round trip."""
    clock = DatabaseClock(alias)
    before = datetime.now(UTC)
    theirs = clock.now()
    ours = before + (datetime.now(UTC) - before) / 2
    return (ours - theirs).total_seconds()
