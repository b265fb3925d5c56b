"""SQLite."""

from django.db import DatabaseError

from .base import Dialect

BUSY, LOCKED = 5, 6
# I/O error, corrupt, disk full, cannot open, read-only.
OUTAGE = {10, 13, 14, 8}


class SQLite(Dialect):
    name = "sqlite"
    counts_commits = True
    instant_type = "datetime"
    clock_sql = "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')"

    def is_moment(self, column: str) -> str:
        # The column keeps any text; asked to add, datetime() makes a 1st of May of a 31st of April.
        seconds = f"substr({column}, 1, 19)"
        return (
            f"(typeof({column}) = 'text' AND length({column}) = 26 "
            f"AND datetime({seconds}, '+0 days') = {seconds} "
            f"AND {column} GLOB '*.{'[0-9]' * 6}' "
            f"AND {column} >= '0001-01-01')"
        )

    def append(self, column: str) -> str:
        return f"COALESCE({column}, '') || %s"

    def is_contention(self, error: DatabaseError) -> bool:
        return _primary_code(error) in (BUSY, LOCKED)

    def is_outage(self, error: Exception) -> bool:
        return super().is_outage(error) or _primary_code(error) in OUTAGE


def _primary_code(error: Exception) -> int:
    cause = error.__cause__ if error.__cause__ is not None else error
    code: int = getattr(cause, "sqlite_errorcode", 0)
    return code & 0xFF
