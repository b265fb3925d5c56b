"""Counts and ages of a whole queue, for metrics: bounded, whatever the number of rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..core.buckets import SLOTS
from ..core.membership import MemberState
from ..core.states import TaskState
from ..models import Member
from .database import Database

CAP = 10_000
# How many priorities are looked through in each slot, from the highest down.
MAX_PRIORITIES = 8

COUNTED = (TaskState.READY, TaskState.SCHEDULED, TaskState.RUNNING, TaskState.FAILED)

# The order of the hot index. Without it PostgreSQL may walk the table until it has enough rows.
INDEX_ORDER = "ORDER BY slot, ord, run_after, id"


@dataclass(frozen=True, slots=True)
class QueueStats:
    counts: dict[TaskState, int]  # at most CAP each
    oldest_ready: datetime | None  # when the task that has been READY longest was due


def queue_stats(database: Database, lane: int) -> QueueStats:
    """At most 10,000 index entries a state, and a few seeks a slot."""
    union = " UNION ALL ".join(
        f"SELECT {state.value} AS status, COUNT(*) AS found FROM "  # noqa: S608
        f"(SELECT id FROM {database.tasks} WHERE lane = {lane} AND status = {state.value} "
        f"{INDEX_ORDER} LIMIT {CAP}) AS q{state.value}"
        for state in COUNTED
    )
    counts = {TaskState(status): int(found) for status, found in database.rows(union)}
    oldest = _oldest_ready(database, lane) if counts[TaskState.READY] else None
    return QueueStats(counts, oldest)


def _oldest_ready(database: Database, lane: int) -> datetime | None:
    """The least run_after of the READY tasks, found by one seek a slot and priority."""
    oldest: datetime | None = None
    places: list[tuple[int, int | None]] = [(slot, None) for slot in range(SLOTS)]
    for _ in range(MAX_PRIORITIES):
        rows = _first_after(database, lane, places)
        if not rows:
            break
        for _, _, run_after in rows:
            due = database.dialect.from_db(run_after)
            if due is not None and (oldest is None or due < oldest):
                oldest = due
        places = [(slot, ord_) for slot, ord_, _ in rows]
    return oldest


def _first_after(
    database: Database, lane: int, places: Sequence[tuple[int, int | None]]
) -> list[tuple[Any, ...]]:
    """The first READY row (slot, ord, run_after) of each slot with a lower priority than given."""
    return database.rows(
        " UNION ALL ".join(
            f"SELECT * FROM (SELECT slot, ord, run_after FROM {database.tasks} "  # noqa: S608
            f"WHERE lane = {lane} AND status = {TaskState.READY.value} AND slot = {slot}"
            f"{'' if ord_ is None else f' AND ord > {ord_}'} "
            f"ORDER BY ord, run_after, id LIMIT 1) AS p{slot}"
            for slot, ord_ in places
        )
    )


def live_members(database: Database, tenant: str, now: datetime, window: float) -> int:
    """How many members of the tenant have beaten within the window (seconds)."""
    members = database.connection.ops.quote_name(Member._meta.db_table)
    ((count,),) = database.rows(
        f"SELECT COUNT(*) FROM {members} "  # noqa: S608
        "WHERE tenant = %s AND state <> %s AND heartbeat_at > %s",
        [tenant, MemberState.DEAD.value, database.to_db(now - timedelta(seconds=window))],
    )
    return int(count)
