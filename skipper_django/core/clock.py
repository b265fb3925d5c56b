"""The one clock: what time it is, and how long something took."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The time of the queue's database, aware, in UTC."""

    def estimate(self) -> datetime:
        """The same without asking the database, however long ago it was asked."""

    def monotonic(self) -> float:
        """Seconds that only grow, for durations inside one process."""


class ManualClock:
    """A clock that moves only when told to: for tests."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    estimate = now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds


monotonic = time.monotonic
