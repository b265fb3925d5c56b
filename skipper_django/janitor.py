"""Promotion, reclaim and pruning, on timers, outside the slots; every worker does its share."""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from .core.buckets import ALL_BUCKETS, BucketRange
from .core.clock import Clock, monotonic
from .core.config import Config
from .store import upkeep
from .store.database import Database

logger = logging.getLogger("skipper_django.worker")

PROMOTE_EVERY_SECONDS = 1.0
RECLAIM_EVERY_SECONDS = 5.0
PRUNE_EVERY_SECONDS = 3600.0


class Janitor:
    """Keeps one share of the queue moving. Every step is bounded and may stop anywhere."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        config: Config,
        lanes: Callable[[], tuple[int, ...]],
        buckets: BucketRange = ALL_BUCKETS,
    ) -> None:
        self._database = database
        self._clock = clock
        self._config = config
        self._lanes = lanes
        self._buckets = buckets

    def promote(self) -> int:
        """Make the due tasks READY; how many."""
        total = 0
        while True:
            count = upkeep.promote(self._database, self._lanes(), self._buckets, self._clock.now())
            total += count
            if count < upkeep.BATCH:
                return total

    def reclaim(self) -> int:
        """Take back the tasks whose lease has run out; how many."""
        now = self._clock.now()
        lost = upkeep.expired(self._database, self._lanes(), self._buckets, now)
        count = upkeep.reclaim(self._database, lost, now) if lost else 0
        if count:
            logger.warning("reclaimed %d tasks whose lease had run out", count)
        return count

    def prune(self, stop: threading.Event | None = None) -> int:
        """Delete finished tasks older than their retention, window by window; how many."""
        now = self._clock.now()
        cutoff = now - timedelta(seconds=self._config.retention)
        failed_cutoff = now - timedelta(seconds=self._config.failed_retention)
        total, place = 0, 0
        while not (stop and stop.is_set()):
            count, next_place = upkeep.prune(
                self._database, self._config.tenant, place, cutoff, failed_cutoff
            )
            total += count
            if next_place is None:
                break
            place = next_place
        if total:
            logger.info("pruned %d finished tasks", total)
        return total


class Timer:
    """Runs a step when its interval has passed."""

    def __init__(self, interval: float, step: Callable[[], object], first: float = 0.0) -> None:
        self._interval = interval
        self._step = step
        self._due = monotonic() + first

    def run_if_due(self) -> None:
        if monotonic() >= self._due:
            self._step()
            self._due = monotonic() + self._interval
