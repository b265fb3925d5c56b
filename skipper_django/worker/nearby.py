"""Where an idle worker looks first: for the one task, or in the one slot, that a hint names.

It costs no question, or one seek, instead of one for each slot. Hints may be lost, so the claim
after it looks everywhere again.
"""

from collections.abc import Container, Iterable

from ..core.buckets import Share
from ..core.clock import Clock
from ..core.hint import ANY, Hint
from ..store.claim import Claimant, choose, take, take_named
from ..store.database import Database
from ..store.lease import Lease


class Nearby:
    """The last hint, as long as it is worth something."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._hint: Hint | None = None
        self.is_near = False  # does the present claim look there only?
        self._task_id = ""  # ... and for this task only?
        self.has_left = False  # does the last one know of tasks that it has not got?

    def heard(self, hints: Iterable[Hint]) -> None:
        for hint in hints:
            self._hint = hint if self._hint is None else _both(self._hint, hint)

    def is_called(self, lanes: Container[int], is_idle: bool) -> bool:
        """May the next claim go where the hint says? `is_idle`: the last one has found too little.

        Not twice in turn, and not while better tasks may be waiting elsewhere.
        """
        hint = self._hint
        if hint is None or not is_idle or self.has_left or self.is_near:
            return False
        return hint.lane in lanes and hint.bucket != ANY

    def narrowed(self, shares: tuple[Share, ...], is_called: bool) -> tuple[Share, ...]:
        """What to claim from; the hint is used up."""
        hint, self._hint = self._hint, None
        self.is_near, self.has_left, self._task_id = is_called, False, ""
        if hint is None or not is_called:
            return shares
        self._task_id = hint.task_id
        near = (share.near(hint.lane, hint.bucket) for share in shares)
        return tuple(share for share in near if share is not None)

    def take(
        self, database: Database, claimant: Claimant, limit: int, clock: Clock
    ) -> tuple[int, list[Lease]]:
        """How many were chosen, and leases on those that nobody else took first."""
        if self._task_id:
            leases = take_named(database, claimant, self._tenant, self._task_id, clock.now())
            return len(leases), leases
        heads = choose(database, claimant, limit)
        return len(heads), take(database, claimant, heads, clock.now()) if heads else []


def _both(one: Hint, other: Hint) -> Hint:
    """Of the same task: whichever says where it is, as a notification does not."""
    if one.task_id and one.task_id == other.task_id:
        return one if other.lane == ANY else other
    return one.merged(other)
