"""One thread for all async tasks of a worker."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from asgiref.sync import sync_to_async

from ..core.clock import monotonic
from ..core.errors import TaskTimeout
from ..core.outcome import Released
from ..store.lease import Lease
from .connections import CLOSE_AFTER_IDLE_SECONDS, ThreadConnections
from .custody import Custody
from .execute import Attempt, Executor
from .finished import Finished, Report
from .timeouts import Deadline, Timeouts


class EventLoop:
    """One thread with an event loop for all async tasks."""

    def __init__(
        self,
        concurrency: int,
        executor: Executor,
        report: Report,
        custody: Custody,
        timeouts: Timeouts,
        on_stuck: Callable[[Attempt, float], None],
    ) -> None:
        self.waiting: deque[Attempt] = deque()
        self._concurrency = concurrency
        self._executor = executor
        self._report = report
        self._custody = custody
        self._timeouts = timeouts
        self._on_stuck = on_stuck
        self._running: set[asyncio.Task[None]] = set()
        self._connections: ThreadConnections | None = None
        self._cared_at = self._idle_since = monotonic()
        self._closing: asyncio.Task[None] | None = None
        self._end: Future[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="skipper-event-loop", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def submit(self, attempt: Attempt) -> None:
        self.waiting.append(attempt)
        self._loop.call_soon_threadsafe(self._fill)

    def take_back(self) -> list[Lease]:
        leases = []
        try:
            while True:
                leases.append(self.waiting.popleft().lease)
        except IndexError:
            return leases

    def stop(self, wait: float) -> None:
        if self._end is None:
            self._end = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
            self._end.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))
        self._thread.join(wait)

    def _work(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def _fill(self) -> None:
        while self.waiting and len(self._running) < self._concurrency:
            try:
                attempt = self.waiting.popleft()
            except IndexError:  # taken back meanwhile
                return
            running = self._loop.create_task(self._run(attempt))
            self._running.add(running)
            running.add_done_callback(self._done)

    def _done(self, running: "asyncio.Task[None]") -> None:
        self._running.discard(running)
        self._fill()
        if not self._running and self._connections is not None:
            self._idle_since = monotonic()
            self._loop.call_later(CLOSE_AFTER_IDLE_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self._running and monotonic() - self._idle_since >= CLOSE_AFTER_IDLE_SECONDS:
            self._closing = self._loop.create_task(self._close_connections())

    async def _run(self, attempt: Attempt) -> None:
        self._custody.began(attempt.lease, attempt.timeout)
        if not self._executor.may_start(attempt.lease):
            self._report(Finished(attempt.lease, Released(), 0.0))
            return
        attempt.lease.begun = started = monotonic()
        await self._care_for_connections()
        outcome = await self._executor.run_async(attempt, self._limited(attempt, started))
        self._custody.ended(attempt.lease)
        self._report(Finished(attempt.lease, outcome, monotonic() - started))

    def _limited(self, attempt: Attempt, started: float) -> Callable[[Any], Any]:
        """A wrapper of the coroutine that cancels it at the task's timeout."""
        timeout = attempt.timeout
        if timeout is None:
            return _awaited

        async def limited(awaitable: Any) -> Any:
            # Only watches: an exception raised in this thread would hit whatever task runs now.
            deadline = Deadline(timeout, lambda: self._on_stuck(attempt, started), interrupt=False)
            self._timeouts.watch(deadline)
            try:
                async with asyncio.timeout(timeout) as limit:
                    return await awaitable
            except TimeoutError as error:
                if not limit.expired():
                    raise
                message = f"ran longer than its timeout of {timeout:g} s"
                raise TaskTimeout(message).with_traceback(error.__traceback__) from None
            finally:
                deadline.end()

        return limited

    async def _care_for_connections(self) -> None:
        """Async tasks share the ORM connections of one thread, the one of sync_to_async."""
        if self._connections is None or monotonic() - self._cared_at > 1.0:
            self._cared_at = monotonic()
            await sync_to_async(self._check_connections)()

    def _check_connections(self) -> None:
        if self._connections is None:
            self._connections = ThreadConnections()
        self._connections.before_task()
        if len(self._running) <= 1:
            self._connections.after_task()

    async def _close(self) -> None:
        for running in list(self._running):
            running.cancel()
        await self._close_connections()

    async def _close_connections(self) -> None:
        if self._connections is not None:
            await sync_to_async(self._connections.close)()


async def _awaited(awaitable: Any) -> Any:
    return await awaitable
