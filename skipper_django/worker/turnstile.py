"""One thread at a time, as long as tasks are very short and wait for nothing.

Threads that share one interpreter lock do not compute more together than one does alone: with tasks
that do next to nothing they only pass the lock round. Tasks that wait want all threads. Which kind
it is shows while one thread runs alone: by how long an attempt takes, and how much of that on the
processor.
"""

import sys
import threading

from ..core.clock import monotonic

# Whoever waits for its turn so long without any attempt ending lets everybody in.
PATIENCE_SECONDS = 0.01
# After a trial that has shown waiting tasks, the next one; doubled up to the longest.
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
# A judgement is about so many attempts that took so long together: the loop, too, takes the
# interpreter away for some milliseconds.
SAMPLE, SAMPLE_SECONDS = 32, 0.01
# For longer attempts the passing round is no matter. And what computes for less than this share of
# its time waits: not only for the loop, or for the core that the database uses.
SHORT_SECONDS = 0.000_15
SHARE_OF_PROCESSOR = 0.25
# At the beginning of a trial the others have not ended yet.
SKIPPED = 4


class Turnstile:
    """Threads ask it before they take an attempt, and tell it what the attempt took."""

    def __init__(self, threads: int) -> None:
        self._is_of_use = threads > 1 and _has_interpreter_lock()
        self._enough = threads
        self._turn = threading.Lock()
        self._holder: int | None = None
        self.is_narrow = False
        self._ended = 0
        self._count_anew()
        self._try_at = 0.0
        self._pause = FIRST_PAUSE_SECONDS

    def enter(self, waiting: int) -> None:
        """Returns when the calling thread may take the next of so many that wait."""
        if not self._is_of_use:
            return
        if self._holder == threading.get_ident():
            if not waiting:
                self._widen()
            if not self.is_narrow:
                self._holder = None
                self._turn.release()
        elif self.is_narrow:
            self._wait()
        elif waiting > self._enough and monotonic() >= self._try_at:
            self._narrow()

    def ended(self, seconds: float, processor: float) -> None:
        """An attempt of this thread has taken so long, and so much time of the processor."""
        if self._holder != threading.get_ident():
            return
        self._ended += 1
        if self._ended <= SKIPPED:
            return
        self._counted += 1
        self._seconds += seconds
        self._processor += processor
        if self._counted < SAMPLE or self._seconds < SAMPLE_SECONDS:
            return
        is_short = self._seconds < SHORT_SECONDS * self._counted
        if not is_short or self._processor < SHARE_OF_PROCESSOR * self._seconds:
            self._widen_for_a_while()
        else:
            self._pause = FIRST_PAUSE_SECONDS
        self._count_anew()

    def _count_anew(self) -> None:
        self._counted = 0
        self._seconds = self._processor = 0.0

    def open(self) -> None:
        """Let everybody in from now on: the threads are to end."""
        self._is_of_use = False
        self._widen()

    def _narrow(self) -> None:
        if self._turn.acquire(blocking=False):
            self._holder = threading.get_ident()
            self._ended = 0
            self._count_anew()
            self.is_narrow = True

    def _wait(self) -> None:
        while self.is_narrow:
            ended = self._ended
            if self._turn.acquire(timeout=PATIENCE_SECONDS):
                self._turn.release()
            elif self._ended == ended:
                self._widen_for_a_while()

    def _widen(self) -> None:
        self.is_narrow = False

    def _widen_for_a_while(self) -> None:
        self._widen()
        self._try_at = monotonic() + self._pause
        self._pause = min(LONGEST_PAUSE_SECONDS, 2 * self._pause)


def _has_interpreter_lock() -> bool:
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())
