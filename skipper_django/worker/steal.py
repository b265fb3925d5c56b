"""What an idle member does about tasks whose owner is gone, busy, or mistaken about its range."""

from dataclasses import replace
from datetime import timedelta

from ..core.buckets import Share
from ..core.clock import Clock, monotonic
from ..janitor import Janitor
from ..store.claim import Claimant, choose_overdue, take
from ..store.database import Database
from ..store.lease import Lease

STEAL_EVERY_SECONDS = 1.0
RECLAIM_EVERY_SECONDS = 5.0


class Thief:
    """Takes overdue tasks outside the own range, one foreign slot at a time.

    It also does what a missing owner would have done there: promote and reclaim what has been
    due for `after` seconds. So a wrong view of the cluster delays a task by seconds only.
    """

    def __init__(
        self, database: Database, clock: Clock, janitor: Janitor, after: float | None
    ) -> None:
        self._database = database
        self._clock = clock
        self._janitor = janitor
        self._after = after
        self._tried_at = monotonic()
        self._reclaimed_at = monotonic()

    def steal(self, shares: tuple[Share, ...], claimant: Claimant, limit: int) -> list[Lease]:
        """Leases on overdue tasks of one slot; once a second at the most."""
        if self._after is None or monotonic() - self._tried_at < STEAL_EVERY_SECONDS:
            return []
        self._tried_at = monotonic()
        foreign = [other for share in shares for other in share.others()]
        if not foreign:
            return []
        self._tidy(foreign)
        now = self._clock.now()
        for share in shares:
            own = replace(claimant, lanes=share.lanes, buckets=share.buckets)
            cutoff = now - timedelta(seconds=self._after)
            heads = choose_overdue(self._database, own, limit, cutoff)
            if heads:
                leases = take(self._database, own, heads, now)
                self._database.telemetry.claimed(leases, chosen=len(heads), stolen=True)
                return leases
        return []

    def _tidy(self, foreign: list[Share]) -> None:
        late = self._after or 0.0
        self._janitor.promote(foreign, late=late)
        if monotonic() - self._reclaimed_at >= RECLAIM_EVERY_SECONDS:
            self._reclaimed_at = monotonic()
            self._janitor.reclaim(foreign, late=late)
