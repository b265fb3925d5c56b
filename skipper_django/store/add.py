"""Add tasks: one INSERT, or a few for many, in the caller's transaction."""

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction

from ..core.buckets import bucket_of, lane_of, slot_of
from ..core.states import TaskState
from .copy import copy_in
from .database import Database

# Column and type, as PostgreSQL names it.
COLUMNS = {
    "task_id": "text",
    "tenant": "text",
    "queue_name": "text",
    "name": "text",
    "backend": "text",
    "args": "text",
    "kwargs": "text",
    "run_after": "timestamptz",
    "enqueued_at": "timestamptz",
    "lane": "bigint",
    "bucket": "smallint",
    "slot": "smallint",
    "status": "smallint",
    "priority": "smallint",
    "ord": "smallint",
    "lease_token": "bigint",
}
PARAMETERS = 9  # the columns before `lane`, of rows that are written with others
MAX_ROWS = 1_000
# A statement stays well under the smallest packet limit among the servers (MariaDB, 16 MiB).
MAX_CHARACTERS = 1_000_000


class NewTask(NamedTuple):
    """A task that is about to become a row. `id_given`: the id is the caller's own."""

    task_id: str
    id_given: bool
    tenant: str
    queue_name: str
    name: str
    backend: str
    args: str
    kwargs: str
    priority: int
    run_after: datetime | None


def add(database: Database, tasks: Sequence[NewTask], now: datetime) -> set[str]:
    """Insert the tasks; the ids among them that were there before, whose rows stay as they are.

    Part of the caller's transaction. Several statements, where needed, are one transaction of
    their own if the caller has none.
    """
    given = [task for task in tasks if task.id_given]
    batches = list(_batches(tasks, database.dialect.max_parameters // PARAMETERS))
    # A nonce tells our own row from one that was there: no database reports it reliably.
    nonce = -secrets.randbits(62) if given else None
    single = len(batches) == 1 and not given

    def write() -> set[str]:
        with nullcontext() if single else transaction.atomic(database.alias, savepoint=False):
            if nonce is None and len(tasks) > 1 and database.dialect.has_copy:
                rows = (_rows(batch, now, nonce, datetime.isoformat) for batch in batches)
                copy_in(database, COLUMNS, rows)
                return set()
            for batch in batches:
                _insert(database, batch, now, nonce)
            return _existing(database, given, nonce)

    # Two that add the same ids in another order may deadlock: repeated if the transaction is ours.
    return database.through_contention(write)


def _batches(tasks: Sequence[NewTask], most: int) -> Iterator[list[NewTask]]:
    batch: list[NewTask] = []
    size = 0
    for task in tasks:
        weight = len(task.args) + len(task.kwargs)
        if batch and (len(batch) >= min(most, MAX_ROWS) or size + weight > MAX_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(task)
        size += weight
    if batch:
        yield batch


def _insert(database: Database, tasks: Sequence[NewTask], now: datetime, nonce: int | None) -> None:
    ignore = "" if nonce is None else database.dialect.ignore_duplicates
    into = f"INSERT INTO {database.tasks} ({', '.join(COLUMNS)}) "
    rows = list(_rows(tasks, now, nonce, database.to_db))
    if len(rows) > 1 and database.dialect.inserts_from_json:
        # One parameter instead of thousands, each of which the driver would adapt in Python.
        record = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        listed = json.dumps([dict(zip(COLUMNS, row, strict=True)) for row in rows], default=str)
        sql = f"{into}SELECT * FROM json_to_recordset(%s::json) AS row({record}){ignore}"  # noqa: S608
        database.execute(sql, [listed])
        return
    # The text of one row never changes: SQLite and some drivers have it parsed already. For many,
    # the numbers are written out, as adapting a parameter takes longer.
    adapted = PARAMETERS if len(rows) > 1 else len(COLUMNS)
    params: list[Any] = []
    values = []
    for row in rows:
        params += row[:adapted]
        numbers = ["NULL" if number is None else str(number) for number in row[adapted:]]
        values.append(f"({', '.join(['%s'] * adapted + numbers)})")
    database.execute(f"{into}VALUES {', '.join(values)}{ignore}", params)


def _rows(
    tasks: Sequence[NewTask], now: datetime, nonce: int | None, adapt: Callable[[datetime], Any]
) -> Iterator[tuple[Any, ...]]:
    moment = adapt(now)
    for task in tasks:
        run_after = moment if task.run_after is None else adapt(task.run_after)
        yield (
            task.task_id,
            task.tenant,
            task.queue_name,
            task.name,
            task.backend,
            task.args,
            task.kwargs,
            run_after,
            moment,
            *_numbers(task, now, nonce),
        )


def _numbers(task: NewTask, now: datetime, nonce: int | None) -> tuple[int | None, ...]:
    bucket = bucket_of(task.task_id)
    is_due = task.run_after is None or task.run_after <= now
    return (
        lane_of(task.tenant, task.queue_name),
        bucket,
        slot_of(bucket),
        (TaskState.READY if is_due else TaskState.SCHEDULED).value,
        task.priority,
        -task.priority if is_due else 0,
        nonce if task.id_given else None,
    )


def _existing(database: Database, given: Sequence[NewTask], nonce: int | None) -> set[str]:
    existing = set()
    for start in range(0, len(given), MAX_ROWS):
        batch = given[start : start + MAX_ROWS]
        marks = ", ".join(["%s"] * len(batch))
        rows = database.rows(
            f"SELECT task_id, lease_token FROM {database.tasks} "  # noqa: S608
            f"WHERE task_id IN ({marks}) AND tenant = %s{database.dialect.lock_row}",
            [*(task.task_id for task in batch), batch[0].tenant],
        )
        existing |= {task_id for task_id, token in rows if token != nonce}
    return existing
