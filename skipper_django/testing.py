"""For the tests of projects that use the queue: run it inside a test, move its clock."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, connections

from . import conf
from .backend import SkipperBackend
from .compat import TaskResult
from .core.buckets import ALL_BUCKETS, Share
from .core.clock import Clock, ManualClock
from .core.config import Config
from .core.outcome import Outcome
from .enqueue import Call
from .janitor import Janitor
from .store.claim import Claimant, choose, take
from .store.clock import clock_of, use_clock
from .store.database import Database
from .store.lanes import lanes_in_use
from .store.lease import Lease
from .store.settle import settle
from .worker.execute import Attempt, Executor

__all__ = ["EagerBackend", "ManualClock", "frozen_clock", "run_ready"]

MEMBER_ID = "testing"


class Tester:
    """Stands for the member that a worker would be."""

    member_id = MEMBER_ID


@contextmanager
def frozen_clock(
    clock: ManualClock | None = None, database: str | None = None
) -> Iterator[ManualClock]:
    """The queue lives by a clock that moves only by `clock.advance(seconds)`.

    The queue of that database; without one, of the database that SKIPPER names.
    """
    clock = clock or ManualClock()
    database = database or conf.load().database
    before = use_clock(database, clock)
    try:
        yield clock
    finally:
        use_clock(database, before)


def run_ready(limit: int = 1_000, config: Config | None = None) -> int:
    """Run the tasks that are ready or due, in this thread; how many attempts were made.

    Goes through the same claim, execution and settlement as a worker, also inside a TestCase.
    Tasks that these tasks enqueue are run too. Timeouts are not enforced. A task that breaks the
    transaction of the test is a failure, and what it wrote is undone.
    """
    config = config or conf.load()
    database, clock = Database(config.database), clock_of(config.database)
    count = 0
    while count < limit:
        lanes = tuple(lanes_in_use(database, config.tenant))
        Janitor(database, clock, config).promote([Share(lanes, ALL_BUCKETS)])
        claimant = Claimant(MEMBER_ID, lanes, ALL_BUCKETS, config.lease_duration)
        heads = choose(database, claimant, 1)
        if not heads:
            break
        for lease in take(database, claimant, heads, clock.now()):  # none: it was a bad row
            _run(database, clock, config, lease)
            count += 1
    return count


def _run(database: Database, clock: Clock, config: Config, lease: Lease) -> None:
    executor = Executor(clock, Tester(), config.max_payload_bytes)
    attempt = executor.prepare(lease)
    if isinstance(attempt, Attempt):
        with _usable_transactions():
            outcome = _outcome_of(executor, attempt)
    else:
        outcome = attempt
    settle(database, [(lease, outcome)], clock.now())


def _outcome_of(executor: Executor, attempt: Attempt) -> Outcome:
    if not attempt.is_async:
        return executor.run(attempt, lambda call: call())
    from asgiref.sync import async_to_sync

    async def awaited(awaitable: Any) -> Any:
        return await awaitable

    return async_to_sync(executor.run_async)(attempt, awaited)


@contextmanager
def _usable_transactions() -> Iterator[None]:
    """What a task breaks in the transaction of a test is undone; a worker has none to break."""
    savepoints = [
        (connection, connection.savepoint())
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block and not connection.needs_rollback
    ]
    yield
    for connection, savepoint in savepoints:
        if savepoint is None:  # the database knows none
            continue
        try:
            is_broken = connection.needs_rollback
            if not is_broken:
                connection.savepoint_commit(savepoint)
        except DatabaseError:  # PostgreSQL: a statement failed, and all the others do since
            is_broken = True
        if is_broken:
            connection.needs_rollback = False
            connection.savepoint_rollback(savepoint)


class EagerBackend(SkipperBackend):
    """Runs each task at its enqueue, through the same rows, checks and states as a worker would.

    A task that is to run again, or later, waits: run_ready() runs it when its time has come.
    """

    _running = threading.local()

    def enqueue_calls(self, calls: Any) -> list[TaskResult]:
        results = super().enqueue_calls([Call(*call) for call in calls])
        if not getattr(self._running, "now", False):
            self._running.now = True
            try:
                run_ready(config=self.config)
            finally:
                self._running.now = False
            for result in results:
                result.refresh()
        return results
