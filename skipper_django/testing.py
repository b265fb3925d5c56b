"""For the tests of projects that use the queue: run it inside a test, move its clock."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import conf
from .backend import SkipperBackend
from .compat import TaskResult
from .core.buckets import ALL_BUCKETS, Share
from .core.clock import Clock, ManualClock
from .core.config import Config
from .core.outcome import Outcome
from .enqueue import Call
from .janitor import Janitor
from .store.claim import Claimant, Lease, claim, lanes_in_use
from .store.clock import clock_of, use_clock
from .store.database import Database
from .store.settle import settle
from .worker.execute import Attempt, Executor

__all__ = ["EagerBackend", "ManualClock", "frozen_clock", "run_ready"]

MEMBER_ID = "testing"


class Tester:
    """Stands for the member that a worker would be."""

    member_id = MEMBER_ID


@contextmanager
def frozen_clock(
    clock: ManualClock | None = None, database: str = "default"
) -> Iterator[ManualClock]:
    """The queue of that database lives by a clock that moves only by `clock.advance(seconds)`."""
    clock = clock or ManualClock()
    before = use_clock(database, clock)
    try:
        yield clock
    finally:
        use_clock(database, before)


def run_ready(limit: int = 1_000, config: Config | None = None) -> int:
    """Run the tasks that are ready or due, in this thread; how many attempts were made.

    Goes through the same claim, execution and settlement as a worker, also inside a TestCase.
    Tasks that these tasks enqueue are run too. Timeouts are not enforced.
    """
    config = config or conf.load()
    database, clock = Database(config.database), clock_of(config.database)
    count = 0
    while count < limit:
        lanes = tuple(lanes_in_use(database, config.tenant))
        Janitor(database, clock, config).promote([Share(lanes, ALL_BUCKETS)])
        claimant = Claimant(MEMBER_ID, lanes, ALL_BUCKETS, config.lease_duration)
        leases = claim(database, claimant, 1, clock.now())
        if not leases:
            break
        _run(database, clock, config, leases[0])
        count += 1
    return count


def _run(database: Database, clock: Clock, config: Config, lease: Lease) -> None:
    executor = Executor(clock, Tester(), config.max_payload_bytes)
    attempt = executor.prepare(lease)
    outcome = _outcome_of(executor, attempt) if isinstance(attempt, Attempt) else attempt
    settle(database, [(lease, outcome)], clock.now())


def _outcome_of(executor: Executor, attempt: Attempt) -> Outcome:
    if not attempt.is_async:
        return executor.run(attempt, lambda call: call())
    from asgiref.sync import async_to_sync

    async def awaited(awaitable: Any) -> Any:
        return await awaitable

    return async_to_sync(executor.run_async)(attempt, awaited)


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
