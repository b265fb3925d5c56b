"""End attempts that run too long: raise TaskTimeout inside their thread, then ask for help.

A thread cannot be killed. The exception is raised at its next bytecode; where that never comes
(the thread hangs in C code) or the task swallows it, the attempt is reported as stuck after a
grace period, and the worker replaces the whole process.
"""

import ctypes
import heapq
import itertools
import threading
from collections.abc import Callable
from typing import Any

from ..core.clock import monotonic
from ..core.errors import TaskTimeout

GRACE_SECONDS = 5.0
REPEAT_SECONDS = 1.0

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc


class Deadline:
    """One attempt's time limit."""

    def __init__(self, seconds: float, on_stuck: Callable[[], None], interrupt: bool) -> None:
        self.seconds = seconds
        self.expires = monotonic() + seconds
        self.has_fired = False
        self._thread = threading.get_ident() if interrupt else None
        self._on_stuck = on_stuck
        self._is_over = False
        self._lock = threading.Lock()

    def call(self, function: Callable[[], Any]) -> Any:
        """Call the function in this thread; raise TaskTimeout if the deadline fell in between."""
        try:
            try:
                value = function()
            finally:
                self.end()
        except TaskTimeout as error:
            self.end()  # the exception may have been raised inside the first end()
            if not self.has_fired:
                raise
            raise self._error().with_traceback(error.__traceback__) from None
        if self.has_fired:
            raise self._error()
        return value

    def end(self) -> None:
        """From here on nothing is raised; an exception on its way is called back."""
        with self._lock:
            self._is_over = True
            if self.has_fired and self._thread is not None:
                _raise_in(ctypes.c_ulong(self._thread), None)

    def fire(self) -> float | None:
        """Raise TaskTimeout in the thread; seconds until it must be fired again, None if over."""
        with self._lock:
            if self._is_over:
                return None
            if monotonic() >= self.expires + GRACE_SECONDS:
                self._is_over = True
                stuck = True
            else:
                stuck = False
                self.has_fired = True
                if self._thread is not None:
                    _raise_in(ctypes.c_ulong(self._thread), ctypes.py_object(TaskTimeout))
        if stuck:
            self._on_stuck()
            return None
        return REPEAT_SECONDS

    def _error(self) -> TaskTimeout:
        return TaskTimeout(f"ran longer than its timeout of {self.seconds:g} s")


class Timeouts:
    """One thread that fires deadlines; it starts with the first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Deadline]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def watch(self, deadline: Deadline) -> None:
        with self._changed:
            self._push(deadline.expires, deadline)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="skipper-timeouts", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def _push(self, moment: float, deadline: Deadline) -> None:
        heapq.heappush(self._heap, (moment, next(self._numbers), deadline))

    def _run(self) -> None:
        while True:
            deadline = self._next()
            again = deadline.fire()
            if again is not None:
                with self._changed:
                    self._push(monotonic() + again, deadline)

    def _next(self) -> Deadline:
        with self._changed:
            while not self._heap or self._heap[0][0] > monotonic():
                wait = self._heap[0][0] - monotonic() if self._heap else None
                self._changed.wait(wait)
            return heapq.heappop(self._heap)[2]
