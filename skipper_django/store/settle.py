"""Store what attempts led to. Each write names the lease's token: a lost lease changes nothing.

Outcomes of one kind are one statement. None of them names a status or a lane, so that every
optimizer goes by primary key; and each can be repeated after a lost reply.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..core.outcome import Failed, Outcome, Released, Retry, Succeeded
from .claim import Lease
from .database import Database

Settlement = tuple[Lease, Outcome]
Assignments = tuple[str, list[Any]]  # the SET clause and its parameters


def settle(
    database: Database, settlements: Sequence[Settlement], now: datetime
) -> list[Settlement]:
    """Store the outcomes; those whose lease had been lost come back, unstored."""
    lost: list[Settlement] = []
    for kind, write in WRITERS.items():
        batch = [pair for pair in settlements if type(pair[1]) is kind]
        if batch:
            lost += _write(database, batch, *write(database, batch, now))
    return lost


def _write(
    database: Database, batch: Sequence[Settlement], setters: str, params: list[Any]
) -> list[Settlement]:
    by_id = {lease.id: (lease, outcome) for lease, outcome in batch}
    ids = ", ".join(map(str, sorted(by_id)))
    tokens = sorted({lease.token for lease, _ in batch})
    # The token's sign flips: a lease is over for good, and a repeated write finds what it wrote.
    sql = (
        f"UPDATE {database.tasks} SET {setters}, lease_token = -lease_token, "  # noqa: S608
        f"lease_expires_at = NULL WHERE id IN ({ids}) AND lease_token IN ({_list(tokens)})"
    )
    if database.through_contention(lambda: database.execute(sql, params)) == len(by_id):
        return []
    stored = database.rows(
        f"SELECT id FROM {database.tasks} WHERE id IN ({ids}) "  # noqa: S608
        f"AND lease_token IN ({_list(-token for token in tokens)})"
    )
    for (pk,) in stored:
        del by_id[pk]
    return list(by_id.values())


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


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
        (lease.id, "".join(lease.worker_ids.splitlines(keepends=True)[:-1])) for lease, _ in batch
    ]
    # MySQL assigns from left to right: started_at must still see the attempts of before.
    setters = (
        "status = 1, ord = -priority, "
        "started_at = CASE WHEN attempts <= 1 THEN NULL ELSE started_at END, "
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
