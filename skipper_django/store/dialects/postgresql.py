"""PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db import DatabaseError, OperationalError

from .base import Dialect, Part

CONTENTION = {"40001", "40P01", "55P03"}  # serialization, deadlock, lock not available
# Shut down, crashed, starting up, idle too long, cancelled or timed out, out of connections,
# read-only, disk full, out of memory.
OUTAGE = {
    *("57P01", "57P02", "57P03", "57P05", "57014", "53300", "25006", "53100", "53200"),
}


class PostgreSQL(Dialect):
    name = "postgresql"
    instant_type = "timestamp with time zone"
    instant_parameter = "CAST(%s AS timestamp with time zone)"
    # As text: a timestamp would be read in the zone that Django believes the session to have.
    clock_sql = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
    notifies = True
    max_parts = 10_000
    inserts_from_json = True

    @property
    def has_copy(self) -> bool:  # type: ignore[override]
        from django.db.backends.postgresql.psycopg_any import is_psycopg3

        return bool(is_psycopg3)  # the other driver has another way

    def to_db(self, moment: datetime) -> Any:
        return moment

    def from_db(self, value: Any) -> datetime | None:
        # Under USE_TZ=False Django strips the zone of the session from what it reads.
        if isinstance(value, datetime) and value.tzinfo is None:
            value = value.replace(tzinfo=ZoneInfo(self.connection.timezone_name))
        return super().from_db(value)

    def is_moment(self, column: str) -> str:
        # infinity, and years that Python does not have
        first, last = "0001-01-01 00:00:00+00", "10000-01-01 00:00:00+00"
        return f"({column} >= '{first}' AND {column} < '{last}')"

    def append(self, column: str) -> str:
        # CONCAT takes any type, so that a parameter bound by the server would have none.
        return f"COALESCE({column}, '') || %s"

    def is_contention(self, error: DatabaseError) -> bool:
        return _sqlstate(error) in CONTENTION

    def is_outage(self, error: Exception) -> bool:
        state = _sqlstate(error)
        if state is None:
            # A connection that breaks or cannot be made has no SQLSTATE.
            return super().is_outage(error) or isinstance(error, OperationalError)
        return state in OUTAGE or state.startswith("08")

    def occupied(self, table: str, lanes: Sequence[int], first: int, last: int) -> str:
        # One comparison of rows, not three of columns: without statistics, as after a queue had
        # run empty, three would look so rare that all of a new backlog were read and sorted.
        return " UNION ALL ".join(
            f"SELECT q{index}.lane, NULL AS slot FROM (SELECT t.lane, t.status, t.slot "  # noqa: S608
            f"FROM {table} AS t WHERE (t.lane, t.status, t.slot) >= ({lane}, 1, {first}) "
            f"ORDER BY t.lane, t.status, t.slot, t.ord, t.run_after, t.id LIMIT 1) AS q{index} "
            f"WHERE q{index}.lane = {lane} AND q{index}.status = 1 AND q{index}.slot <= {last}"
            for index, lane in enumerate(lanes)
        )

    def heads(
        self, table: str, parts: Sequence[Part], per_part: int, limit: int, status: int = 1
    ) -> str:
        # LATERAL plans in a thirtieth of the time of a UNION of as many parts.
        def array(values: Sequence[int], kind: str) -> str:
            return f"'{{{','.join(map(str, values))}}}'::{kind}[]"

        arrays = ", ".join(
            (
                array([part.lane for part in parts], "bigint"),
                array([part.slot for part in parts], "smallint"),
                array([part.start for part in parts], "smallint"),
                array([part.stop for part in parts], "smallint"),
            )
        )
        return (
            "SELECT h.id, h.lane, h.slot, h.ord, h.run_after "  # noqa: S608
            f"FROM unnest({arrays}) AS p(lane, slot, start, stop) CROSS JOIN LATERAL ("
            f"SELECT t.id, t.lane, t.slot, t.ord, t.run_after FROM {table} AS t "
            f"WHERE t.lane = p.lane AND t.status = {status} AND t.slot = p.slot "
            "AND t.bucket >= p.start AND t.bucket < p.stop "
            f"ORDER BY t.ord, t.run_after, t.id LIMIT {per_part}) AS h "
            f"ORDER BY h.ord, h.run_after, h.id LIMIT {limit}"
        )


def _sqlstate(error: Exception) -> str | None:
    cause = error.__cause__ if error.__cause__ is not None else error
    state: str | None = getattr(cause, "sqlstate", None)
    return state
