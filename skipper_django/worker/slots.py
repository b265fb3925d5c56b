"""Where tasks run: threads for sync tasks, one event loop for async ones beside them."""

import threading
from collections.abc import Callable
from operator import call
from queue import Empty, SimpleQueue
from time import thread_time
from typing import Any

from ..core.clock import monotonic
from ..core.outcome import Released
from ..store.lease import Lease
from .connections import CLOSE_AFTER_IDLE_SECONDS, ThreadConnections
from .custody import Custody
from .event_loop import EventLoop
from .execute import Attempt, Executor
from .finished import Finished, Report
from .timeouts import Deadline, Timeouts
from .turnstile import Turnstile


class Slots:
    """Runs leases, at most `concurrency` sync and as many async ones at once; reports outcomes.

    More may be submitted: they wait, and can be taken back as long as they have not started.
    """

    def __init__(
        self, concurrency: int, executor: Executor, report: Report, custody: Custody
    ) -> None:
        self._concurrency = concurrency
        self._executor = executor
        self._report = report
        self._custody = custody
        self._timeouts = Timeouts()
        self._waiting: SimpleQueue[Attempt | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._turnstile = Turnstile(concurrency)
        self._loop: EventLoop | None = None

    def submit(self, lease: Lease) -> None:
        attempt = self._executor.prepare(lease)
        if not isinstance(attempt, Attempt):
            self._report(Finished(lease, attempt, 0.0))
        elif attempt.is_async:
            self._event_loop().submit(attempt)
        else:
            self._waiting.put(attempt)
            self._start_thread_if_needed()

    @property
    def waiting(self) -> int:
        """How many have been submitted and not started."""
        return self._waiting.qsize() + (len(self._loop.waiting) if self._loop else 0)

    def take_back(self) -> list[Lease]:
        """All that has not started."""
        leases = []
        try:
            while (attempt := self._waiting.get_nowait()) is not None:
                leases.append(attempt.lease)
        except Empty:
            pass
        if self._loop is not None:
            leases += self._loop.take_back()
        return leases

    def stop(self, wait: float) -> bool:
        """Let idle threads end, close connections; did all end within so many seconds?"""
        self._turnstile.open()
        for _ in self._threads:
            self._waiting.put(None)
        deadline = monotonic() + wait
        for thread in self._threads:
            thread.join(max(0.0, deadline - monotonic()))
        if self._loop is not None:
            self._loop.stop(max(0.1, deadline - monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def abandon(self) -> None:
        """Start nothing more. What is stuck runs on, and its thread ends after it."""
        self.take_back()
        self.stop(0.0)

    @property
    def alive(self) -> int:
        """How many threads have not ended."""
        loop_is_alive = self._loop is not None and self._loop.is_alive
        return sum(thread.is_alive() for thread in self._threads) + loop_is_alive

    def _start_thread_if_needed(self) -> None:
        if len(self._threads) < self._concurrency:
            name = f"skipper-slot-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        connections = ThreadConnections()
        while (attempt := self._next(connections)) is not None:
            self._custody.began(attempt.lease, attempt.timeout)
            if not self._executor.may_start(attempt.lease):
                self._report(Finished(attempt.lease, Released(), 0.0))
                continue
            started, processor = monotonic(), thread_time()
            attempt.lease.begun = started
            connections.before_task()
            outcome = self._executor.run(attempt, self._interruptible(attempt, started))
            self._custody.ended(attempt.lease)
            connections.after_task()
            seconds = monotonic() - started
            self._report(Finished(attempt.lease, outcome, seconds))
            self._turnstile.ended(seconds, thread_time() - processor)
        connections.close()

    def _next(self, connections: ThreadConnections) -> Attempt | None:
        self._turnstile.enter(self._waiting.qsize())
        try:
            return self._waiting.get(timeout=CLOSE_AFTER_IDLE_SECONDS)
        except Empty:
            connections.close()
            return self._waiting.get()

    def _interruptible(
        self, attempt: Attempt, started: float
    ) -> Callable[[Callable[[], Any]], Any]:
        if attempt.timeout is None:
            return call
        deadline = Deadline(attempt.timeout, lambda: self._stuck(attempt, started), interrupt=True)
        self._timeouts.watch(deadline)
        return deadline.call

    def _stuck(self, attempt: Attempt, started: float) -> None:
        outcome = self._executor.give_up(attempt)
        self._report(Finished(attempt.lease, outcome, monotonic() - started, stuck=True))

    def _event_loop(self) -> EventLoop:
        if self._loop is None:
            self._loop = EventLoop(
                self._concurrency,
                self._executor,
                self._report,
                self._custody,
                self._timeouts,
                self._stuck,
            )
        return self._loop
