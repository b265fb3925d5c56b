"""How much to claim and how long to wait: pure arithmetic on what has been seen."""

import random

MAX_PREFETCH = 500
# Claimed ahead: what the slots will start within this time, judged by the tasks before.
PREFETCH_SECONDS = 0.1
FIRST_POLL_SECONDS = 0.005
LONGEST_POLL_SECONDS = 0.092
# Where every commit wakes the worker, polling only makes up for a wake-up that was lost.
LONGEST_REST_SECONDS = 5.0
BUSY_WAIT_SECONDS = 1.0


class Pace:
    """Claims only what can start now: the free slots, and short tasks for a tenth second."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._mean_seconds: float | None = None
        self._asked = 0
        self._poll_seconds = FIRST_POLL_SECONDS
        self._last_claim_was_short = False
        self.is_woken = False  # by every commit, and may rest long

    @property
    def is_idle(self) -> bool:
        """Has the last claim found less than was asked for?"""
        return self._last_claim_was_short

    @property
    def prefetch(self) -> int:
        """How many to claim beyond the slots; none before the first task has shown its length."""
        if self._mean_seconds is None:
            return 0
        wanted = self._concurrency * PREFETCH_SECONDS / max(self._mean_seconds, 1e-6)
        return min(MAX_PREFETCH, int(wanted))

    def room(self, held: int, waiting: int) -> int:
        """How many to claim now."""
        room = self._concurrency + self.prefetch - held
        # Full batches rather than many small ones, while there is still enough at hand.
        enough = waiting > self.prefetch // 2
        self._asked = 0 if enough else max(0, room)
        return self._asked

    def claimed(self, count: int, look_again: bool = False) -> None:
        self._last_claim_was_short = count < self._asked
        if count or look_again:
            self._poll_seconds = FIRST_POLL_SECONDS
        else:
            self._poll_seconds = min(self._longest(), self._poll_seconds * 2)

    def finished(self, seconds: float) -> None:
        """Learn from a task: a long one at once, short ones little by little."""
        mean = self._mean_seconds
        if mean is None or seconds > 10 * mean:
            self._mean_seconds = seconds
        else:
            self._mean_seconds = mean + 0.1 * (seconds - mean)

    def slow_down(self) -> None:
        """What was claimed ahead had to be handed back: claim nothing ahead for now."""
        self._mean_seconds = max(self._mean_seconds or 0.0, 1.0)

    def woken(self) -> None:
        self._poll_seconds = FIRST_POLL_SECONDS

    def wait_seconds(self, busy: bool) -> float:
        """How long to wait for something to happen before the next claim."""
        if self._asked and self._last_claim_was_short:
            seconds = min(self._longest(), self._poll_seconds)
            return seconds * random.uniform(0.9, 1.1)  # noqa: S311
        return BUSY_WAIT_SECONDS if busy else 0.0

    def _longest(self) -> float:
        return LONGEST_REST_SECONDS if self.is_woken else LONGEST_POLL_SECONDS
