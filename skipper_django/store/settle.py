"""Store what attempts led to. Each write names the lease's token: a lost lease changes nothing.

Outcomes of one kind are one statement. None of them names a status or a lane, so that every
optimizer goes by primary key; and each can be repeated after a lost reply.
"""

import json
from collections.abc import Callable, Container, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from ..core.outcome import Failed, Outcome, Released, Retry, Succeeded
from ..core.states import TaskState
from .add import MAX_CHARACTERS
from .database import Database
from .lease import Lease

Settlement = tuple[Lease, Outcome]


class HasToken(Protocol):
    """Enough of a lease to prove it."""

    @property
    def id(self) -> int: ...

    @property
    def token(self) -> int: ...


Assignments = tuple[str, list[Any]]  # the SET clause and its parameters


def settle(
    database: Database, settlements: Sequence[Settlement], now: datetime
) -> list[Settlement]:
    """Store the outcomes; those whose lease had been lost come back, unstored."""
    lost: list[Settlement] = []
    for kind, write in WRITERS.items():
        for batch in _batches([pair for pair in settlements if type(pair[1]) is kind]):
            lost += _write(database, batch, *write(database, batch, now))
    return lost


def fence(leases: Sequence[HasToken]) -> str:
    """The condition that a row is still held under the very token of its lease.

    A token of the batch is not enough: a row lost and claimed again by the same member may hold
    the token of another lease of the batch.
    """
    by_token: dict[int, list[int]] = {}
    for lease in leases:
        by_token.setdefault(lease.token, []).append(lease.id)
    held = " ".join(
        f"WHEN {token} THEN id IN ({', '.join(map(str, sorted(ids)))})"
        for token, ids in by_token.items()
    )
    # The list of all ids stands by itself, so that every optimizer goes by primary key.
    ids = ", ".join(str(lease.id) for lease in sorted(leases, key=lambda lease: lease.id))
    if len(by_token) == 1:
        return f"id IN ({ids}) AND lease_token = {leases[0].token}"
    return f"id IN ({ids}) AND CASE lease_token {held} END"


def _batches(settlements: Sequence[Settlement]) -> Iterator[list[Settlement]]:
    """Batches in which no task stands twice, each small enough for one statement."""
    batch: dict[int, Settlement] = {}
    size = 0
    for lease, outcome in settlements:
        weight = _weight(lease, outcome)
        if lease.id in batch or (batch and size + weight > MAX_CHARACTERS):
            yield list(batch.values())
            batch, size = {}, 0
        batch[lease.id] = (lease, outcome)
        size += weight
    if batch:
        yield list(batch.values())


def _weight(lease: Lease, outcome: Outcome) -> int:
    if isinstance(outcome, Succeeded):
        return len(outcome.result or "")
    if isinstance(outcome, (Failed, Retry)):
        return sum(len(str(value)) for error in outcome.errors for value in error.values())
    return len(lease.worker_ids)


def _write(
    database: Database, batch: Sequence[Settlement], setters: str, params: list[Any]
) -> list[Settlement]:
    # The token's sign flips: a lease is over for good, and a repeated write finds what it wrote.
    sql = (
        f"UPDATE {database.tasks} SET {setters}, lease_token = -lease_token, "  # noqa: S608
        f"lease_expires_at = NULL WHERE {fence([lease for lease, _ in batch])}"
    )
    if database.through_contention(lambda: database.execute(sql, params)) == len(batch):
        return []
    ids = ", ".join(str(lease.id) for lease, _ in batch)
    rows = database.rows(
        f"SELECT id, lease_token, status, attempts FROM {database.tasks} "  # noqa: S608
        f"WHERE id IN ({ids})"
    )
    found = {pk: told for pk, *told in rows}
    return [pair for pair in batch if not _is_stored(*pair, found.get(pair[0].id))]


def _is_stored(lease: Lease, outcome: Outcome, told: Sequence[int] | None) -> bool:
    """Is it this outcome that ended the lease? A stand-in may have stored another one."""
    if told is None:
        return False
    token, status, attempts = told
    counted = lease.attempts - isinstance(outcome, Released)
    return token == -lease.token and attempts == counted and status in STATES[type(outcome)]


def _finish(database: Database, batch: Sequence[Settlement], now: datetime) -> Assignments:
    params: list[Any] = [database.to_db(now)]
    results = [
        (lease.id, outcome.result)
        for lease, outcome in batch
        if isinstance(outcome, Succeeded) and outcome.result is not None
    ]
    return "status = 3, ord = 0, finished_at = %s" + _case("result", results, params), params


def _fail(database: Database, batch: Sequence[Settlement], now: datetime) -> Assignments:
    params: list[Any] = [database.to_db(now)]
    reasons = [
        (lease.id, outcome.reason.value) for lease, outcome in batch if isinstance(outcome, Failed)
    ]
    setters = (
        "status = 4, ord = 0, finished_at = %s"
        + _case("reason", reasons, params)
        + _case("errors", _errors(batch), params)
    )
    return setters, params


def _retry(database: Database, batch: Sequence[Settlement], now: datetime) -> Assignments:
    params: list[Any] = []
    due = [
        (lease.id, database.to_db(now + timedelta(seconds=outcome.delay)))
        for lease, outcome in batch
        if isinstance(outcome, Retry)
    ]
    setters = (
        "status = 0, ord = 0"
        + _case("run_after", due, params, then=database.dialect.instant_parameter)
        + _case("errors", _errors(batch), params)
    )
    return setters, params


def _release(database: Database, batch: Sequence[Settlement], now: datetime) -> Assignments:
    params: list[Any] = []
    before = [
        (lease.id, lease.worker_ids[: lease.worker_ids.rfind("\n", 0, -1) + 1])
        for lease, _ in batch
    ]
    # MySQL assigns from left to right: the times must still see the attempts of before.
    setters = (
        "status = 1, ord = -priority, "
        "started_at = CASE WHEN attempts <= 1 THEN NULL ELSE started_at END, "
        "last_attempted_at = CASE WHEN attempts <= 1 THEN NULL ELSE last_attempted_at END, "
        "attempts = attempts - 1" + _case("worker_ids", before, params)
    )
    return setters, params


def _errors(batch: Sequence[Settlement]) -> list[tuple[int, str]]:
    return [
        (lease.id, json.dumps(outcome.errors, ensure_ascii=False))
        for lease, outcome in batch
        if isinstance(outcome, (Failed, Retry))
    ]


def _case(
    column: str, values: Sequence[tuple[int, Any]], params: list[Any], then: str = "%s"
) -> str:
    """`, column = CASE id WHEN 1 THEN .. END`, its parameters appended; nothing for no values."""
    if not values:
        return ""
    params += [value for _, value in values]
    whens = " ".join(f"WHEN {pk} THEN {then}" for pk, _ in values)
    return f", {column} = CASE id {whens} END"


WRITERS: dict[type[Any], Callable[[Database, Sequence[Settlement], datetime], Assignments]] = {
    Succeeded: _finish,
    Retry: _retry,
    Failed: _fail,
    Released: _release,
}

# What a row may be in once an outcome is stored and nobody has claimed it again.
STATES: dict[type[Any], Container[int]] = {
    Succeeded: (TaskState.SUCCESSFUL,),
    Retry: (TaskState.SCHEDULED, TaskState.READY, TaskState.CANCELLED),
    Failed: (TaskState.FAILED,),
    Released: (TaskState.READY, TaskState.CANCELLED),
}
