"""Where an idle worker looks first: in the one slot where a hint says that a task has come.

It costs one seek instead of one for each slot. Hints may be lost, so the claim after it looks
everywhere again.
"""

from collections.abc import Iterable

from ..core.buckets import Share
from ..core.hint import ANY, Hint


class Nearby:
    """The last hint, as long as it is worth something."""

    def __init__(self) -> None:
        self._hint: Hint | None = None
        self.is_near = False  # does the present claim look there only?
        self.has_left = False  # does the last one know of tasks that it has not got?

    def heard(self, hints: Iterable[Hint]) -> None:
        for hint in hints:
            self._hint = hint if self._hint is None else hint.merged(self._hint)

    def narrowed(self, shares: tuple[Share, ...], is_idle: bool) -> tuple[Share, ...]:
        """What to claim from. `is_idle`: the last claim has found less than it wanted."""
        hint, self._hint = self._hint, None
        nothing_else = is_idle and not self.has_left and not self.is_near
        self.is_near = self.has_left = False
        if hint is None or ANY in (hint.lane, hint.bucket) or not nothing_else:
            return shares
        self.is_near = True
        near = (share.near(hint.lane, hint.bucket) for share in shares)
        return tuple(share for share in near if share is not None)
