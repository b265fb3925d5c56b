"""Take ready tasks: choose ids without locks, then one conditional update by primary key.

Choosing never waits for anybody and locks nothing; the update takes a row only where it is still
READY. Two members that choose the same row differ in the update: one of them gets it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt
from typing import Any, NamedTuple

from ..core.buckets import BUCKETS, BucketRange
from ..core.tokens import new_token, tokens_of
from .database import Database
from .dialects.base import Part, still
from .lease import Lease, lease_of, payload
from .repair import LONG_AGO, UNREADABLE, may_be_bad_rows, mend_due_times, park_unclaimable


class Head(NamedTuple):
    id: int
    lane: int
    slot: int
    ord: int
    run_after: Any


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who claims, and what: lanes in a range of buckets."""

    member_id: str
    lanes: tuple[int, ...]
    buckets: BucketRange
    lease_duration: float  # seconds
    incarnation: int = 1


def claim(database: Database, claimant: Claimant, limit: int, now: datetime) -> list[Lease]:
    """Leases on up to `limit` ready tasks, highest priority first, then oldest first, exactly.

    The cost depends on the number of slots and on `limit`, not on the number of tasks of any kind.
    """
    heads = choose(database, claimant, limit)
    return take(database, claimant, heads, now) if heads else []


def choose(database: Database, claimant: Claimant, limit: int) -> list[Head]:
    """The first `limit` ready tasks of the claimant's share, in order; nothing is locked."""
    try:
        return _choose(database, claimant, limit)
    except UNREADABLE as error:
        # Somebody has written a moment that no driver can read: nobody would get past it.
        mendable = may_be_bad_rows(database, error)
        if not mendable or not mend_due_times(database, claimant.lanes):
            raise
    return choose(database, claimant, limit)


def _choose(database: Database, claimant: Claimant, limit: int) -> list[Head]:
    parts = _occupied_parts(database, claimant)
    if not parts:
        return []
    per_part = heads_per_part(limit, len(parts))
    heads = _heads(database, parts, per_part, limit)
    if per_part < limit:
        # A part all of whose heads were chosen may hold more that come before the others' heads.
        chosen = Counter((head.lane, head.slot) for head in heads)
        deeper = [part for part in parts if chosen[part.lane, part.slot] >= per_part]
        if deeper:
            more = {head.id: head for head in _heads(database, deeper, limit, limit)}
            more.update((head.id, head) for head in heads)
            heads = _in_order(database, list(more.values()))[:limit]
    return heads


def choose_overdue(
    database: Database, claimant: Claimant, limit: int, cutoff: datetime
) -> list[Head]:
    """Ready tasks of one slot outside the claimant's range that have been due since `cutoff`.

    What an owner that is gone, or busy, or mistaken about its range leaves behind. The slot is
    the one with the oldest such head; one slot at a time keeps thieves out of each other's way.
    """
    foreign = _foreign_parts(claimant)
    if not foreign:
        return []

    def is_overdue(head: Head) -> bool:
        due = database.dialect.from_db(head.run_after)
        return due is not None and due <= cutoff

    first = [head for head in _heads(database, foreign, 1, len(foreign)) if is_overdue(head)]
    if not first:
        return []
    oldest = min(first, key=lambda head: head.run_after)
    parts = [part for part in foreign if (part.lane, part.slot) == (oldest.lane, oldest.slot)]
    return [head for head in _heads(database, parts, limit, limit) if is_overdue(head)]


def _foreign_parts(claimant: Claimant) -> list[Part]:
    own = claimant.buckets
    outside = (BucketRange(0, own.start), BucketRange(own.stop, BUCKETS))
    return [
        Part(lane, slot.slot, slot.start, slot.stop, slot.is_whole)
        for lane in claimant.lanes
        for buckets in outside
        for slot in buckets.parts()
    ]


def heads_per_part(limit: int, parts: int) -> int:
    """How many heads to read of each part: the mean share and three deviations more."""
    mean = limit / parts
    return min(limit, int(mean + 3 * sqrt(mean) + 3))


def take(
    database: Database, claimant: Claimant, heads: Sequence[Head], now: datetime
) -> list[Lease]:
    """Lease those of the chosen tasks that are still READY; losing some to others is normal."""
    ids = sorted(head.id for head in heads)
    change = _leased(database, claimant, now)
    try:
        rows = _taken(database, change, _ids(ids))
    except UNREADABLE as error:
        if not may_be_bad_rows(database, error):
            raise
        rows = _take_singly(database, change, ids, now)
    place = {head.id: index for index, head in enumerate(heads)}
    rows.sort(key=lambda row: place[row[0]])
    return [lease_of(database, row, change.token, now) for row in rows]


def take_named(
    database: Database, claimant: Claimant, tenant: str, task_id: str, now: datetime
) -> list[Lease]:
    """Lease the task of this id, if it is READY and in the claimant's share, without choosing."""
    change = _leased(database, claimant, now)
    # Both columns of the unique key: of one alone, InnoDB would lock what lies behind it, too.
    where = (
        f"task_id = %s AND tenant = %s AND lane + 0 IN ({', '.join(map(str, claimant.lanes))}) "
        f"AND bucket + 0 >= {claimant.buckets.start} AND bucket + 0 < {claimant.buckets.stop}"
    )
    key = (where, [task_id, tenant])
    try:
        rows = _taken(database, change, key)
    except UNREADABLE as error:
        if not may_be_bad_rows(database, error):
            raise
        sql = f"SELECT id FROM {database.tasks} WHERE {where}"  # noqa: S608
        ids = [pk for (pk,) in database.rows(sql, key[1])]
        rows = _take_singly(database, change, ids, now)
    return [lease_of(database, row, change.token, now) for row in rows]


Condition = tuple[str, list[Any]]  # of a WHERE, with its parameters


class Change(NamedTuple):
    """What a lease under this token changes in a row: a SET with its parameters."""

    token: int
    setters: str
    params: list[Any]


def _leased(database: Database, claimant: Claimant, now: datetime) -> Change:
    token, started = new_token(claimant.incarnation), database.to_db(now)
    expires = database.to_db(now + timedelta(seconds=claimant.lease_duration))
    setters = (
        "status = 2, ord = 0, lease_token = %s, lease_expires_at = %s, attempts = attempts + 1, "
        "last_attempted_at = %s, started_at = COALESCE(started_at, %s), "
        f"worker_ids = {database.dialect.append('worker_ids')}"
    )
    return Change(token, setters, [token, expires, started, started, f"{claimant.member_id}\n"])


def _ids(ids: Sequence[int]) -> Condition:
    return f"id IN ({', '.join(map(str, ids))})", []


def _taken(database: Database, change: Change, key: Condition) -> list[tuple[Any, ...]]:
    where, params = key
    update = (
        f"UPDATE {database.tasks} SET {change.setters} "  # noqa: S608
        f"WHERE {where} AND {still(1)}"
    )
    params = [*change.params, *params]
    if database.dialect.updates_return_rows:
        update += f" RETURNING {payload(database)}"
        return database.through_contention(lambda: database.rows(update, params))
    if not database.through_contention(lambda: database.execute(update, params)):
        return []
    return _held(database, key, change.token)


def _held(database: Database, key: Condition, token: int) -> list[tuple[Any, ...]]:
    where, params = key
    return database.rows(
        f"SELECT {payload(database)} FROM {database.tasks} "  # noqa: S608
        f"WHERE {where} AND lease_token = %s",
        [*params, token],
    )


def _take_singly(
    database: Database, change: Change, ids: Sequence[int], now: datetime
) -> list[tuple[Any, ...]]:
    """One row that cannot be claimed, or read, must not keep the others from being run."""
    rows: list[tuple[Any, ...]] = []
    for pk in ids:
        key = _ids([pk])
        try:
            # The batch may have been taken before its rows turned out to be unreadable.
            rows += _held(database, key, change.token) or _taken(database, change, key)
        except UNREADABLE as error:
            if not may_be_bad_rows(database, error):
                raise
            park_unclaimable(database, pk, error, now)
    return rows


def held_by(
    database: Database, lanes: Sequence[int], incarnation: int, now: datetime
) -> list[Lease]:
    """What an incarnation of a member holds, by the rows: it may not know, if a reply was lost."""
    first, last = tokens_of(incarnation)
    rows = database.rows(
        f"SELECT {payload(database)}, lease_token FROM {database.tasks} "  # noqa: S608
        f"WHERE lane IN ({', '.join(map(str, lanes))}) AND status = 2 "
        f"AND lease_token BETWEEN {first} AND {last}"
    )
    return [lease_of(database, row, token, now) for *row, token in rows]


def _occupied_parts(database: Database, claimant: Claimant) -> list[Part]:
    """The slots of the share, without those that are known to be empty: the idle poll."""
    slots = list(claimant.buckets.parts())
    if not slots or not claimant.lanes:
        return []
    if len(slots) == len(claimant.lanes) == 1:  # the question would cost as much as the answer
        return [Part(claimant.lanes[0], *slots[0], slots[0].is_whole)]
    most = database.dialect.max_parts
    occupied = [
        row
        for start in range(0, len(claimant.lanes), most)
        for row in database.rows(
            database.dialect.occupied(
                database.tasks,
                claimant.lanes[start : start + most],
                slots[0].slot,
                slots[-1].slot,
            )
        )
    ]
    by_slot = {slot.slot: slot for slot in slots}
    chosen = {
        (lane, part)
        for lane, slot, *_ in occupied
        for part in (slots if slot is None else (by_slot[slot],))
    }
    for lane, count in Counter(lane for lane, *_ in occupied).items():
        if count == database.dialect.occupied_rows:
            # The answer was cut off: nothing is known of the slots behind its last one.
            last = max(slot for found, slot, *_ in occupied if found == lane)
            chosen |= {(lane, part) for part in slots if part.slot > last}
    return [
        Part(lane, part.slot, part.start, part.stop, part.is_whole) for lane, part in sorted(chosen)
    ]


def _heads(database: Database, parts: Sequence[Part], per_part: int, limit: int) -> list[Head]:
    most = database.dialect.max_parts
    heads = [
        Head(*row)
        for start in range(0, len(parts), most)
        for row in database.rows(
            database.dialect.heads(database.tasks, parts[start : start + most], per_part, limit)
        )
    ]
    return heads if len(parts) <= most else _in_order(database, heads)[:limit]


def _in_order(database: Database, heads: list[Head]) -> list[Head]:
    # In UTC: in the zone of the connection, an hour of autumn comes twice and compares as one.
    from_db = database.dialect.from_db
    return sorted(heads, key=lambda head: (head.ord, from_db(head.run_after) or LONG_AGO, head.id))
