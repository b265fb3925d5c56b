"""Rows, claimants, second connections and threads for the tests of the store."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from skipper_django.core.buckets import ALL_BUCKETS, BucketRange, bucket_of, lane_of, slot_of
from skipper_django.core.states import TaskState
from skipper_django.models import Task
from skipper_django.store.add import NewTask
from skipper_django.store.claim import Claimant, claim
from skipper_django.store.database import Database
from skipper_django.store.lease import Lease
from tests.waiting import wait_until

T = TypeVar("T")

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LANE = lane_of("default", "default")
_numbers = itertools.count(1)


def new(task_id: str | None = None, **values: Any) -> NewTask:
    """A task to add; one with `task_id` has it from its caller."""
    defaults: dict[str, Any] = {
        "task_id": f"own-{next(_numbers)}" if task_id is None else task_id,
        "id_given": task_id is not None,
        "tenant": "default",
        "queue_name": "default",
        "name": "tests.tasks.noop",
        "backend": "default",
        "args": "[]",
        "kwargs": "{}",
        "priority": 0,
        "run_after": None,
    }
    return NewTask(**{**defaults, **values})


def row(task_id: str | None = None, **values: Any) -> Task:
    """An unsaved row; `bucket` may be any, whatever the id. READY unless it says otherwise."""
    task_id = f"row-{next(_numbers)}" if task_id is None else task_id
    bucket = values.setdefault("bucket", bucket_of(task_id))
    status = values.setdefault("status", TaskState.READY)
    values.setdefault("priority", 0)
    defaults = {
        "task_id": task_id,
        "tenant": "default",
        "queue_name": "default",
        "slot": slot_of(bucket),
        "name": "tests.tasks.noop",
        "backend": "default",
        "args": "[]",
        "kwargs": "{}",
        "ord": -values["priority"] if status == TaskState.READY else 0,
        "run_after": NOW,
        "enqueued_at": NOW,
        "attempts": 0,
        "lost_leases": 0,
    }
    if status == TaskState.RUNNING:
        defaults |= {"lease_expires_at": NOW + MINUTE, "lease_token": 1, "worker_ids": "gone\n"}
    if status >= TaskState.SUCCESSFUL:
        defaults["finished_at"] = NOW
    task = Task(**{**defaults, **values})
    task.lane = lane_of(task.tenant, task.queue_name)
    return task


def save(database: Database, *rows: Task) -> list[Task]:
    """Save the rows, in order, their ids rising; read again, as not every database tells ids."""
    stored = Task.objects.using(database.alias).order_by("id")
    last = stored.last()
    stored.bulk_create(rows, batch_size=500)
    return list(stored.filter(id__gt=last.id if last else 0))


def read(database: Database, task_id: str, tenant: str = "default") -> Task:
    return Task.objects.using(database.alias).get(task_id=task_id, tenant=tenant)


def all_rows(database: Database) -> list[Task]:
    return list(Task.objects.using(database.alias).order_by("id"))


def claimant(
    member_id: str = "member",
    lanes: Iterable[int] = (LANE,),
    buckets: BucketRange = ALL_BUCKETS,
    lease_duration: float = 60.0,
) -> Claimant:
    return Claimant(member_id, tuple(lanes), buckets, lease_duration)


def leases(
    database: Database, count: int = 1, now: datetime = NOW, member_id: str = "member"
) -> list[Lease]:
    """Leases on as many fresh tasks."""
    save(database, *(row() for _ in range(count)))
    taken = claim(database, claimant(member_id), count, now)
    assert len(taken) == count
    return taken


def states(database: Database) -> list[TaskState]:
    return [TaskState(task.status) for task in all_rows(database)]


@contextmanager
def second_connection(
    alias: str, options: dict[str, Any] | None = None, **settings: Any
) -> Iterator[BaseDatabaseWrapper]:
    """Another connection of this thread, closed at the end, perhaps with OPTIONS of its own."""
    connection = connections[alias].copy()
    connection.settings_dict = {
        **connection.settings_dict,
        **settings,
        "OPTIONS": {**connection.settings_dict["OPTIONS"], **(options or {})},
    }
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def default_connection(
    alias: str, options: dict[str, Any] | None = None, **settings: Any
) -> Iterator[Database]:
    """The alias itself under other OPTIONS, in this thread."""
    usual = connections[alias]
    with second_connection(alias, options, **settings) as connection:
        connections[alias] = connection
        try:
            yield Database(alias)
        finally:
            connections[alias] = usual


class Running(Generic[T]):
    """A call in a thread of its own, with a connection of its own."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:
            self._error = error
        finally:
            connections.close_all()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def result(self, seconds: float = 30.0) -> T:
        self._thread.join(seconds)
        assert self.is_over, "the call did not end"
        if self._error is not None:
            raise self._error
        return self._value


def side_by_side(*calls: Callable[[], T]) -> list[T]:
    """Start the calls at one moment, each in a thread of its own; what they answered."""
    barrier = threading.Barrier(len(calls))

    def meet(call: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            barrier.wait(30)
            return call()

        return run

    return [running.result() for running in [Running(meet(call)) for call in calls]]


def await_blocked(database: Database, running: Running[Any]) -> None:
    """Until the database says that a statement waits for a lock; SQLite tells nobody."""
    question = {
        "mysql": "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'",
        "postgresql": "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    }.get(database.connection.vendor)
    if question is None:
        return
    with second_connection(database.alias) as watcher, watcher.cursor() as cursor:

        def is_blocked() -> bool:
            cursor.execute(question)
            return int(cursor.fetchone()[-1]) > 0

        wait_until(lambda: running.is_over or is_blocked())


def task_ids(found: Sequence[Any]) -> list[str]:
    return [item.task_id for item in found]
