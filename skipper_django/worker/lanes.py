"""Which queues this worker serves, as lanes of the hot index."""

from collections.abc import Callable, Mapping

from ..core.buckets import lane_of
from ..core.clock import monotonic
from ..registry import queue_names
from ..store.database import Database
from ..store.lanes import lanes_in_use

LOOK_EVERY_SECONDS = 10.0
# Where every commit wakes this worker, nearly all new queues are found by their hints.
LOOK_RARELY_SECONDS = 30.0
# A hint may be about a queue that is new; not more often than this.
LOOK_AGAIN_AFTER_SECONDS = 1.0


class Lanes:
    """The queues named on the command line, or every queue that the tenant has tasks in."""

    def __init__(self, database: Database, tenant: str, queues: tuple[str, ...]) -> None:
        self._database = database
        self._tenant = tenant
        self._fixed = bool(queues)
        self._look_at = self._again_at = -float("inf")
        self.is_woken = False
        self.on_new: Callable[[], None] = lambda: None
        # The queues of this project's own tasks are known before their first task is.
        self._known = {lane_of(tenant, name): name for name in queues or queue_names()}
        self._lanes = self._known

    def current(self) -> Mapping[int, str]:
        """Lane to queue name."""
        return self._lanes

    def look_again(self) -> bool:
        """There may be a new queue: look for it at the next occasion; False where none counts."""
        self._look_at = min(self._look_at, self._again_at)
        return not self._fixed

    @property
    def is_told(self) -> bool:
        """Is a look wanted that is not taken yet?"""
        return not self._fixed and self._look_at <= self._again_at

    def refresh(self) -> Mapping[int, str]:
        """Look for new queues from time to time; asked by the loop only."""
        if not self._fixed and monotonic() >= self._look_at:
            before = monotonic()
            known = self._lanes
            self._lanes = self._known | lanes_in_use(self._database, self._tenant)
            # With thousands of queues the look itself takes time: a fiftieth of it at the most.
            now = monotonic()
            took = now - before
            self._again_at = now + max(LOOK_AGAIN_AFTER_SECONDS, 50 * took)
            every = LOOK_RARELY_SECONDS if self.is_woken else LOOK_EVERY_SECONDS
            self._look_at = now + max(every, 50 * took)
            if self._lanes.keys() - known.keys():
                self.on_new()
        return self._lanes
