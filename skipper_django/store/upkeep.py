"""What keeps the queue moving: renew, promote, reclaim, prune. Bounded batches by primary key.

None of these needs an index of its own, a leader, or a lock that outlives a statement.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from ..core.buckets import SLOTS, BucketRange
from ..core.errors import WorkerLost
from ..core.outcome import describe_error, load_errors
from ..core.reasons import FailReason
from ..core.states import TaskState
from ..core.tokens import tokens_of
from .database import Database
from .dialects.base import Part, still
from .repair import LONG_AGO, UNREADABLE, may_be_bad_rows
from .settle import HasToken, fence

Held = TypeVar("Held", bound=HasToken)

BATCH = 1_000
DELETE_BATCH = 200
LANES_A_STATEMENT = 200
MAX_LOST_LEASES = 3
# The least and the largest number of a column have no opposite and no successor: one row that was
# edited to hold it would fail the statement for all the others.
ORD_WHEN_READY = "ord = CASE WHEN priority > -32768 THEN -priority ELSE 32767 END"
ONE_LOSS_MORE = (
    "lost_leases = CASE WHEN lost_leases < 1000000 THEN lost_leases + 1 ELSE lost_leases END"
)
# A task that was lost twice may be what kills its workers: it waits a little before the third.
SECOND_LOSS_DELAY = timedelta(seconds=5)


class Renewal(NamedTuple, Generic[Held]):
    """The leases that are held no more: nothing may start under them."""

    lost: list[Held]
    settled: list[Held]  # their outcome is stored, or a stand-in has handed them back


def renew(
    database: Database, leases: Sequence[Held], now: datetime, lease_duration: float
) -> Renewal[Held]:
    """Push the expiry of the leases forward, in one statement; never back.

    A task may hold the interpreter while a renewal is on its way to the driver. Its stand-in has
    renewed the leases by the time that it is sent.
    """
    if not leases:
        return Renewal([], [])
    newest = list({lease.id: lease for lease in leases}.values())
    moment = database.dialect.instant_parameter
    sql = (
        f"UPDATE {database.tasks} SET lease_expires_at = "  # noqa: S608
        f"CASE WHEN lease_expires_at > {moment} THEN lease_expires_at ELSE {moment} END "
        f"WHERE {fence(newest)}"
    )
    expires = [database.to_db(now + timedelta(seconds=lease_duration))] * 2
    if database.through_contention(lambda: database.execute(sql, expires)) == len(leases):
        return Renewal([], [])
    ids = _list(lease.id for lease in newest)
    tokens = dict(
        database.rows(
            f"SELECT id, lease_token FROM {database.tasks} WHERE id IN ({ids})"  # noqa: S608
        )
    )
    lost = [lease for lease in leases if abs(tokens.get(lease.id) or 0) != lease.token]
    return Renewal(lost, [lease for lease in leases if tokens.get(lease.id) == -lease.token])


def promote(database: Database, lanes: Sequence[int], buckets: BucketRange, now: datetime) -> int:
    """Make up to 1,000 due SCHEDULED tasks of the share READY; how many."""
    if not lanes or not buckets:
        return 0
    last = _last_scheduled_slots(database, lanes)
    highest = max(last.values(), default=-1)
    slots = [part.slot for part in buckets.parts() if part.slot <= highest]
    if not slots:
        return 0
    # No ORDER BY: PostgreSQL would walk the primary key for it. `ord = 0` makes it one seek a slot.
    moment = database.to_db(now)
    rows = database.rows(
        f"SELECT id FROM {database.tasks} WHERE lane IN ({_list(last)}) "  # noqa: S608
        f"AND status = 0 AND slot IN ({_list(slots)}) "
        f"AND ord = 0 AND run_after <= %s AND bucket >= %s AND bucket < %s LIMIT {BATCH}",
        [moment, buckets.start, buckets.stop],
    )
    # Due still: meanwhile it may have run, and wait for its next attempt. See still() for COALESCE.
    due = f"{still(0)} AND COALESCE(run_after, run_after) <= %s"
    setters = f"status = 1, {ORD_WHEN_READY}"
    return _update(database, [pk for (pk,) in rows], setters, due, [], [moment])


def next_due(database: Database, lanes: Sequence[int], buckets: BucketRange) -> datetime | None:
    """When the earliest SCHEDULED task of the share is due; one seek a slot, none for no task.

    LONG_AGO where a row that somebody has edited hides it: it must be looked for.
    """
    last = _last_scheduled_slots(database, lanes) if lanes and buckets else {}
    parts = [
        Part(lane, part.slot, part.start, part.stop, part.is_whole)
        for lane, slot in last.items()
        for part in buckets.parts()
        if part.slot <= slot
    ]
    try:
        moments = [
            LONG_AGO if ord else database.dialect.from_db(run_after) or LONG_AGO
            for ord, run_after in _first_due(database, parts)
        ]
    except UNREADABLE as error:
        if not may_be_bad_rows(database, error):
            raise
        return LONG_AGO
    return min(moments, default=None)


def _first_due(database: Database, parts: Sequence[Part]) -> Iterator[tuple[int, Any]]:
    most = database.dialect.max_parts
    for start in range(0, len(parts), most):
        heads = database.dialect.heads(
            database.tasks, parts[start : start + most], 1, 1, TaskState.SCHEDULED.value
        )
        for *_, ord, run_after in database.rows(heads):
            yield ord, run_after


def _last_scheduled_slots(database: Database, lanes: Sequence[int]) -> dict[int, int]:
    """Lane to slot, for the lanes with SCHEDULED tasks: one seek a lane, from behind.

    InnoDB looks past the end of a range until it meets a row that it may see. With a big enqueue
    under way, the rows behind the SCHEDULED ones are those that are not committed yet: each empty
    slot looked for would read all of them. Backwards, none is met. The others need not be asked.
    """
    if not database.dialect.reads_past_ends:
        return dict.fromkeys(lanes, SLOTS)
    last: dict[int, int] = {}
    for start in range(0, len(lanes), LANES_A_STATEMENT):
        union = " UNION ALL ".join(
            f"SELECT * FROM (SELECT lane, slot FROM {database.tasks} WHERE lane = {lane} "  # noqa: S608
            "AND status = 0 ORDER BY slot DESC, ord DESC, run_after DESC, id DESC LIMIT 1) "
            f"AS q{lane}"
            for lane in lanes[start : start + LANES_A_STATEMENT]
        )
        last.update(database.rows(union))
    return last


@dataclass(frozen=True, slots=True)
class Expired:
    """A RUNNING task whose lease has run out, or whose holder is dead."""

    id: int
    task_id: str
    attempts: int
    lost_leases: int
    worker_ids: str
    errors: str | None


def expired(
    database: Database,
    lanes: Sequence[int],
    buckets: BucketRange,
    now: datetime,
    dead: Sequence[int] = (),
) -> list[Expired]:
    """Up to 1,000 tasks of the share whose lease has run out or belongs to a dead incarnation."""
    if not lanes or not buckets:
        return []
    rows = database.rows(
        "SELECT id, task_id, attempts, lost_leases, worker_ids, errors "  # noqa: S608
        f"FROM {database.tasks} WHERE lane IN ({_list(lanes)}) AND status = 2 "
        f"AND slot IN ({_list(part.slot for part in buckets.parts())}) "
        "AND bucket >= %s AND bucket < %s "
        f"AND {_run_out(dead)} LIMIT {BATCH}",
        [buckets.start, buckets.stop, database.to_db(now)],
    )
    return [
        Expired(pk, task_id, attempts, lost, workers or "", errors)
        for pk, task_id, attempts, lost, workers, errors in rows
    ]


def _run_out(dead: Sequence[int]) -> str:
    """The condition, with one parameter for now, that a lease may be taken back."""
    held_by_dead = "".join(
        f" OR lease_token BETWEEN {first} AND {last}" for first, last in map(tokens_of, dead)
    )
    return f"(lease_expires_at < %s{held_by_dead})"


def reclaim(
    database: Database, tasks: Sequence[Expired], now: datetime, dead: Sequence[int] = ()
) -> int:
    """Take expired leases back; how many.

    The first loss makes a task READY at once, the second SCHEDULED for a moment later, the third
    FAILED with the reason worker_lost: a task that kills its workers does not tour the cluster.
    """
    first = [task.id for task in tasks if task.lost_leases <= 0]
    again = [task.id for task in tasks if 0 < task.lost_leases < MAX_LOST_LEASES - 1]
    fence = f"lease_token = NULL, lease_expires_at = NULL, {ONE_LOSS_MORE}"
    held = f"{still(2)} AND {_run_out(dead)}"
    moment = database.to_db(now)
    count = _update(database, first, f"status = 1, {ORD_WHEN_READY}, {fence}", held, [], [moment])
    count += _update(
        database,
        again,
        f"status = 0, ord = 0, run_after = %s, {fence}",
        held,
        [database.to_db(now + SECOND_LOSS_DELAY)],
        [moment],
    )
    for task in tasks:
        if task.lost_leases >= MAX_LOST_LEASES - 1:
            setters = f"status = {TaskState.FAILED.value}, ord = 0, finished_at = %s, reason = %s, "
            count += _update(
                database,
                [task.id],
                f"{setters}errors = %s, {fence}",
                held,
                [moment, FailReason.WORKER_LOST.value, _errors_of_lost(task)],
                [moment],
            )
    return count


def prune(
    database: Database, tenant: str, after_id: int, cutoff: datetime, failed_cutoff: datetime
) -> tuple[int, int | None]:
    """Delete old finished tasks in the next 1,000 ids; how many, and where to go on.

    Ids rise with time, so a walk over windows of ids needs no index on finished_at. The second
    answer is None at the end of the table, or once a window begins after both cutoffs.
    """
    # Compared by the database: what somebody wrote there may be no moment that can be read.
    beginning = database.rows(
        f"SELECT id, CASE WHEN enqueued_at > {database.dialect.instant_parameter} "  # noqa: S608
        f"THEN 1 ELSE 0 END FROM {database.tasks} WHERE id > %s ORDER BY id LIMIT 1",
        [database.to_db(max(cutoff, failed_cutoff)), after_id],
    )
    if not beginning:
        return 0, None
    ((start, is_too_young),) = beginning
    if is_too_young:
        return 0, None
    end = start + BATCH - 1
    rows = database.rows(
        f"SELECT id FROM {database.tasks} WHERE id >= %s AND id <= %s AND tenant = %s "  # noqa: S608
        "AND ((status IN (3, 5) AND finished_at < %s) OR (status = 4 AND finished_at < %s))",
        [start, end, tenant, database.to_db(cutoff), database.to_db(failed_cutoff)],
    )
    ids = sorted(pk for (pk,) in rows)
    for first in range(0, len(ids), DELETE_BATCH):
        listed = _list(ids[first : first + DELETE_BATCH])
        sql = f"DELETE FROM {database.tasks} WHERE id IN ({listed}) AND status + 0 >= 3"  # noqa: S608
        database.through_contention(lambda sql=sql: database.execute(sql))  # type: ignore[misc]
    return len(ids), end


def _update(
    database: Database,
    ids: Sequence[int],
    setters: str,
    condition: str,
    set_params: Sequence[Any] = (),
    condition_params: Sequence[Any] = (),
) -> int:
    if not ids:
        return 0
    sql = (
        f"UPDATE {database.tasks} SET {setters} "  # noqa: S608
        f"WHERE id IN ({_list(sorted(ids))}) AND {condition}"
    )
    params = [*set_params, *condition_params]
    return database.through_contention(lambda: database.execute(sql, params))


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _errors_of_lost(task: Expired) -> str:
    workers = ", ".join(task.worker_ids.split("\n")[:-1][-MAX_LOST_LEASES:])
    error = WorkerLost(f"lost its lease {MAX_LOST_LEASES} times; last run by {workers}")
    errors = [*load_errors(task.errors), describe_error(error, task.attempts)]
    return json.dumps(errors, ensure_ascii=False)
