"""The thread that runs the janitor beside the loop."""

import logging
import threading
from collections.abc import Callable

from ..core.buckets import ALL_BUCKETS, Share
from ..core.clock import monotonic
from ..core.config import Config
from ..janitor import (
    PROMOTE_EVERY_SECONDS,
    RECLAIM_EVERY_SECONDS,
    Janitor,
    Timer,
    prune_every,
)
from ..store.database import Database
from ..store.lanes import lanes_in_use
from .cluster import Cluster
from .lanes import Lanes
from .outage import Outage

logger = logging.getLogger("skipper_django.worker")

TICK_SECONDS = 0.25
# It looks for due tasks when the next one is due. Others may schedule a sooner one meanwhile: they
# tell it at once where every commit wakes this worker.
LONGEST_REST_SECONDS = 10.0
LONGEST_UNTOLD_SECONDS = 2.5


class UpkeepThread:
    """Promotes, reclaims and prunes on timers; wakes the loop when it made tasks READY."""

    def __init__(
        self,
        database: Database,
        janitor: Janitor,
        cluster: Cluster,
        lanes: Lanes,
        config: Config,
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._janitor = janitor
        self._cluster = cluster
        self._lanes = lanes
        self._wake = wake
        self._stop = threading.Event()
        self._extra = {"member_id": cluster.member_id}
        self._complaint = ""
        self._outage = Outage(database, cluster.member_id, "keep the queue moving")
        self.is_woken: Callable[[], bool] = lambda: False
        self._is_told = False
        self._promotion = Timer(PROMOTE_EVERY_SECONDS, self._promote)
        self._prune_every = prune_every(config)
        self._pruning = Timer(self._prune_every, self._prune, first=min(60.0, self._prune_every))
        self._reclamation = Timer(
            min(RECLAIM_EVERY_SECONDS, config.lease_duration / 4), self._reclaim
        )
        self._timers = [
            self._promotion,
            self._reclamation,
            self._pruning,
        ]
        self._thread = threading.Thread(target=self._run, name="skipper-janitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            for timer in self._timers:
                if not timer.is_due:
                    continue  # it would ask nothing, and so end the pauses of an outage
                try:
                    with self._outage.survived():
                        timer.run()
                except Exception as error:
                    # One row of nonsense must not end the upkeep of all the others.
                    self._complain(error)
            if self._outage.is_on:
                self._outage.pause(self._stop)
        self._database.close()

    def _complain(self, error: Exception) -> None:
        """Once, not every second as long as it lasts."""
        if repr(error) != self._complaint:
            self._complaint = repr(error)
            logger.exception("upkeep failed and is tried again", extra=self._extra)

    def look_again(self) -> None:
        """A task has been scheduled, or the shares are others: forget when the next one is due."""
        self._is_told = True
        self._promotion.rest(0.0)

    def look_for_lost(self) -> None:
        """A member may have died: its leases are not waited for."""
        self._reclamation.rest(0.0)

    def _promote(self) -> None:
        self._is_told = False
        shares = self._shares()
        if not self._rests(shares) and self._janitor.promote(shares):
            self._wake()

    def _rests(self, shares: tuple[Share, ...]) -> bool:
        """Is nothing due for a while? Then it looks again when something is, or is told."""
        due = self._janitor.next_due(shares)
        if due is not None and due <= PROMOTE_EVERY_SECONDS:
            return False
        longest = LONGEST_REST_SECONDS if self.is_woken() else LONGEST_UNTOLD_SECONDS
        self._promotion.rest(min(longest, due or longest))
        if self._is_told:  # while it was looking
            self._promotion.rest(0.0)
        return True

    def _reclaim(self) -> None:
        dead = self._cluster.dead_incarnations()
        if self._janitor.reclaim(self._reclaim_shares(), dead):
            self.look_again()
            self._wake()
        else:
            self._cluster.taken_over = None

    def _prune(self) -> None:
        before = monotonic()
        self._janitor.prune(self._stop)
        # It walks through all rows that are kept longer: a fiftieth of the time at the most.
        rest = 50 * (monotonic() - before)
        if rest > self._prune_every:
            self._pruning.rest(rest)

    def _shares(self) -> tuple[Share, ...]:
        return self._cluster.shares(self._lanes.current())

    def _reclaim_shares(self) -> tuple[Share, ...]:
        """Everything, after a name was taken over: nobody else knows that its holder is dead."""
        if self._cluster.taken_over is None:
            return self._shares()
        lanes = tuple(lanes_in_use(self._database, self._cluster.tenant))
        return (Share(lanes, ALL_BUCKETS),)
