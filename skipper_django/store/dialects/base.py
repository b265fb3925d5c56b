"""The seam: what the statements of the store ask of a database."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import DatabaseError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper


class Part(NamedTuple):
    """The ready tasks of one lane in the buckets `start <= bucket < stop` of one slot."""

    lane: int
    slot: int
    start: int
    stop: int
    is_whole: bool


class Dialect:
    """Portable defaults; each database overrides what it does otherwise."""

    name = ""
    exact_text = ""  # follows a text type: compare bytes, fold nothing
    long_text = "text"
    instant_type = ""
    instant_parameter = "%s"  # a moment where the column does not tell the type
    clock_sql = ""  # the time of this moment, not of the transaction's start
    ignore_duplicates = " ON CONFLICT DO NOTHING"
    lock_row = ""  # follows a SELECT by key that must see what others have just committed
    updates_return_rows = True
    inserts_from_json = False
    has_copy = False
    occupied_rows: int | None = None  # rows of `occupied` a lane beyond which it tells no more
    notifies = False  # has LISTEN and NOTIFY
    reads_past_ends = False  # a seek that finds nothing reads on, through what is not committed
    counts_commits = False  # has PRAGMA data_version
    max_parts = 400  # parts of one UNION
    max_parameters = 30_000

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self.connection = connection

    # Times

    def to_db(self, moment: datetime) -> Any:
        # As text: drivers take their time to write a datetime out. Always six decimals: SQLite
        # compares times as text.
        naive = moment.astimezone(UTC).replace(tzinfo=None)
        return naive.isoformat(sep=" ", timespec="microseconds")

    def from_db(self, value: Any) -> datetime | None:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if value is None:
            return None
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

    def moment(self, column: str) -> str:
        """The column for a SELECT, as the driver reads it soonest; from_db() takes what comes."""
        return column

    def is_moment(self, column: str) -> str:
        """A condition: what the column holds can be read, and compares as the moment it is."""
        return f"{column} IS NOT NULL"

    # Errors

    def is_contention(self, error: DatabaseError) -> bool:
        """Others were at the same rows: the same statement may succeed at once (R8)."""
        raise NotImplementedError

    def is_outage(self, error: Exception) -> bool:
        """The database is away, full or read-only: reconnect and try again later."""
        return isinstance(error, InterfaceError)

    # SQL

    def append(self, column: str) -> str:
        """An expression that adds one text parameter at the end of a column that may be NULL."""
        return f"CONCAT(COALESCE({column}, ''), %s)"

    def occupied(self, table: str, lanes: Sequence[int], first: int, last: int) -> str:
        """Rows (lane, slot) that may hold ready tasks; slot is NULL for "some slot of the lane".

        At most one seek a lane. The ORDER BY names the whole index: without it PostgreSQL may
        walk through the finished rows instead. It says t.slot because a bare `slot` would be the
        NULL of the answer, so that the whole backlog would be read and sorted.
        """
        return " UNION ALL ".join(
            f"SELECT * FROM (SELECT t.lane, NULL AS slot FROM {table} AS t WHERE t.lane = {lane} "  # noqa: S608
            f"AND t.status = 1 AND t.slot BETWEEN {first} AND {last} "
            f"ORDER BY t.slot, t.ord, t.run_after, t.id LIMIT 1) AS q{index}"
            for index, lane in enumerate(lanes)
        )

    def heads(
        self, table: str, parts: Sequence[Part], per_part: int, limit: int, status: int = 1
    ) -> str:
        """The first `per_part` ready rows (id, lane, slot, ord, run_after) of each part, merged.

        Of another status where one is named.
        One seek a part: the heads of the slots are in order within the index, so nothing is sorted
        but what is returned.
        """
        union = " UNION ALL ".join(
            f"SELECT * FROM (SELECT id, lane, slot, ord, run_after FROM {table} "  # noqa: S608
            f"WHERE lane = {part.lane} AND status = {status} AND slot = {part.slot}{border(part)} "
            f"ORDER BY ord, run_after, id LIMIT {per_part}) AS p{index}"
            for index, part in enumerate(parts)
        )
        return f"{union} ORDER BY ord, run_after, id LIMIT {limit}"


def still(status: int) -> str:
    """The condition, beside keys, that a row is in this state yet.

    Not a plain comparison: PostgreSQL, without statistics, would read all rows of that state.
    """
    return f"status + 0 = {status}"


def border(part: Part) -> str:
    return "" if part.is_whole else f" AND bucket >= {part.start} AND bucket < {part.stop}"


def error_codes(error: Exception) -> Iterable[Any]:
    """What the driver says: the wrapped error and its cause may carry the code."""
    for candidate in (error, error.__cause__):
        if candidate is not None and candidate.args:
            yield candidate.args[0]
