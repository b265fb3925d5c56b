"""Where an idle worker looks first: for the one task, or in the one slot, that a hint names.

It costs no question, or one seek, instead of one for each slot. Hints may be lost, so the claim
after it looks everywhere again.
"""

from collections.abc import Iterable

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
            self._hint = hint if self._hint is None else hint.merged(self._hint)

    def narrowed(self, shares: tuple[Share, ...], is_idle: bool) -> tuple[Share, ...]:
        """What to claim from. `is_idle`: the last claim has found less than it wanted."""
        hint, self._hint = self._hint, None
        nothing_else = is_idle and not self.has_left and not self.is_near
        self.is_near = self.has_left = False
        self._task_id = ""
        if hint is None or ANY in (hint.lane, hint.bucket) or not nothing_else:
            return shares
        self.is_near = True
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
