"""Promotion, reclaim and pruning, on timers, outside the slots; every worker does its share."""

import logging
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from .core.buckets import Share
from .core.clock import Clock, monotonic
from .core.config import Config
from .store import upkeep
from .store.database import Database

logger = logging.getLogger("skipper_django.worker")

PROMOTE_EVERY_SECONDS = 1.0
RECLAIM_EVERY_SECONDS = 5.0
PRUNE_EVERY_SECONDS = 10.0, 3600.0  # and a tenth of the shortest retention in between


def prune_every(config: Config) -> float:
    """Seconds between two prunes: the table holds little more than what is retained."""
    least, most = PRUNE_EVERY_SECONDS
    return min(most, max(least, min(config.retention, config.failed_retention) / 10))


class Janitor:
    """Keeps shares of the queue moving. Every step is bounded and may stop anywhere."""

    def __init__(self, database: Database, clock: Clock, config: Config) -> None:
        self._database = database
        self._clock = clock
        self._config = config

    def promote(self, shares: Iterable[Share], late: float = 0.0) -> int:
        """Make the tasks READY that have been due for `late` seconds; how many."""
        total = 0
        for share in shares:
            count = upkeep.BATCH
            while count == upkeep.BATCH:
                due = self._clock.now() - timedelta(seconds=late)
                count = upkeep.promote(self._database, share.lanes, share.buckets, due)
                total += count
        self._database.telemetry.promoted(total)
        return total

    def next_due(self, shares: Iterable[Share]) -> float | None:
        """Seconds until the next SCHEDULED task of the shares is due; None: there is none."""
        moments = [upkeep.next_due(self._database, share.lanes, share.buckets) for share in shares]
        due = min((moment for moment in moments if moment is not None), default=None)
        return None if due is None else (due - self._clock.now()).total_seconds()

    def reclaim(self, shares: Iterable[Share], dead: Sequence[int] = (), late: float = 0.0) -> int:
        """Take back the tasks whose lease ran out `late` seconds ago, or is of a dead incarnation.

        How many. Those left over by the bound of one batch come with the next round.
        """
        total = 0
        now = self._clock.now()
        ran_out = now - timedelta(seconds=late)
        for share in shares:
            lost = upkeep.expired(self._database, share.lanes, share.buckets, ran_out, dead)
            total += upkeep.reclaim(self._database, lost, now, dead) if lost else 0
        self._database.telemetry.reclaimed(total)
        if total:
            logger.warning("reclaimed %d tasks whose worker or lease was lost", total)
        return total

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
        self._database.telemetry.pruned(total)
        if total:
            logger.info("pruned %d finished tasks", total)
        return total


class Timer:
    """Runs a step when about its interval has passed: members started together spread out."""

    def __init__(self, interval: float, step: Callable[[], object], first: float = 0.0) -> None:
        self._interval = interval
        self._step = step
        self._due = monotonic() + first

    @property
    def is_due(self) -> bool:
        return monotonic() >= self._due

    def run(self) -> None:
        self._due = monotonic() + self._interval * random.uniform(0.9, 1.1)  # noqa: S311
        self._step()

    def run_if_due(self) -> None:
        if self.is_due:
            self.run()

    def rest(self, seconds: float) -> None:
        """Let the next run wait so long, or come so soon."""
        self._due = monotonic() + seconds
