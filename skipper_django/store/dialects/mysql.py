"""MySQL and MariaDB."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import DatabaseError

from ...core.buckets import SLOTS
from .base import Dialect, Part, border, error_codes

# Deadlock, lock wait time-out, snapshot conflict, NOWAIT refused.
CONTENTION = {1213, 1205, 1020, 3572}
# Server gone, unreachable, shutting down, killed session, out of connections, read-only, disk full.
OUTAGE = {
    *(2002, 2003, 2005, 2006, 2012, 2013, 2026, 2055, 1053, 1077, 1078, 1079, 1927, 4031),
    *(1040, 1203, 1129, 1158, 1159, 1160, 1161, 1290, 1792, 1836, 1021, 1114, 1317, 3024, 1969),
}


UNION_LANES = 16  # more parts than that cost more than a loose index scan


class MySQL(Dialect):
    name = "mysql"
    reads_past_ends = True
    occupied_rows = SLOTS + 1
    long_text = "longtext"
    instant_type = "datetime(6)"
    clock_sql = "SELECT UTC_TIMESTAMP(6)"
    # A no-op update: INSERT IGNORE would also hide truncation. Not of the id: MySQL refuses that
    # (1869) for an id that stands twice in one statement.
    ignore_duplicates = " ON DUPLICATE KEY UPDATE tenant = tenant"
    # A repeatable-read snapshot would hide the row that the duplicate was found in.
    lock_row = " LOCK IN SHARE MODE"
    updates_return_rows = False

    @property
    def is_mariadb(self) -> bool:
        # Asked late: Django connects to find out, and a dialect is made also while nothing answers.
        return bool(getattr(self.connection, "mysql_is_mariadb", False))

    @property
    def exact_text(self) -> str:  # type: ignore[override]
        # NO PAD: under the other binary collations 'a' and 'a ' are one id.
        collation = "utf8mb4_nopad_bin" if self.is_mariadb else "utf8mb4_0900_bin"
        return f" CHARACTER SET utf8mb4 COLLATE {collation}"

    def moment(self, column: str) -> str:
        return f"CAST({column} AS CHAR)"  # the driver reads a datetime ten times as long as text

    def from_db(self, value: Any) -> datetime | None:
        try:
            return super().from_db(value)
        except ValueError:  # a zero date, which the driver would read as NULL
            return None

    def is_moment(self, column: str) -> str:
        # Zero dates, and dates with a zero in them: the driver reads them as NULL.
        return f"({column} >= '0001-01-01' AND DAYOFMONTH({column}) > 0)"

    def is_contention(self, error: DatabaseError) -> bool:
        return any(code in CONTENTION for code in error_codes(error))

    def is_outage(self, error: Exception) -> bool:
        return super().is_outage(error) or any(code in OUTAGE for code in error_codes(error))

    def occupied(self, table: str, lanes: Sequence[int], first: int, last: int) -> str:
        # Which slots hold the first few tasks: it spares the seeks of the empty ones.
        if len(lanes) <= UNION_LANES:
            return " UNION ALL ".join(
                f"(SELECT lane, slot FROM {table} WHERE lane = {lane} AND status = 1 "  # noqa: S608
                f"AND slot BETWEEN {first} AND {last} "
                f"ORDER BY slot, ord, run_after, id LIMIT {self.occupied_rows})"
                for lane in lanes
            )
        # A loose index scan, one seek an occupied slot, whatever the number of lanes. After a
        # bulk load it reads the whole backlog until InnoDB has counted again, ten seconds or so.
        listed = ", ".join(map(str, lanes))
        return (
            f"SELECT lane, slot, MIN(ord) FROM {table} WHERE lane IN ({listed}) "  # noqa: S608
            f"AND status = 1 AND slot BETWEEN {first} AND {last} GROUP BY lane, status, slot"
        )

    def heads(
        self, table: str, parts: Sequence[Part], per_part: int, limit: int, status: int = 1
    ) -> str:
        union = " UNION ALL ".join(
            f"(SELECT id, lane, slot, ord, {self.moment('run_after')} AS due FROM {table} "  # noqa: S608
            f"WHERE lane = {part.lane} AND status = {status} AND slot = {part.slot}{border(part)} "
            f"ORDER BY ord, run_after, id LIMIT {per_part})"
            for part in parts
        )
        return f"{union} ORDER BY ord, due, id LIMIT {limit}"
