"""What one fetch may look at, and what the fetches of a member have come to."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..core.buckets import BucketRange, Share
from ..core.membership import View
from ..core.reasons import FetchMode, FetchReason

NO_BUCKETS = BucketRange(0, 0)


@dataclass(slots=True)
class Counters:
    """What this member has done so far; written by the loop, told with each heartbeat."""

    claimed: int = 0
    stolen: int = 0
    lost_races: int = 0
    partitioned_fetches: int = 0
    whole_queue_fetches: int = 0


@dataclass(frozen=True, slots=True)
class Fetch:
    """What the next fetch may look at, and why, if that is the whole queue."""

    shares: tuple[Share, ...]
    reason: FetchReason | None
    # What this member would have of any queue that all serve: shown while it knows no queue yet.
    nominal: BucketRange = NO_BUCKETS

    @property
    def mode(self) -> FetchMode:
        return FetchMode.PARTITIONED if self.reason is None else FetchMode.WHOLE_QUEUE

    def in_turn(self, turn: int) -> tuple[Share, ...]:
        """Queues that are divided differently take turns in being asked first."""
        start = turn % len(self.shares) if self.shares else 0
        return self.shares[start:] + self.shares[:start]

    @property
    def main_range(self) -> BucketRange:
        """The range of most of the queues; empty while the whole queue is fetched."""
        if self.reason is not None:
            return NO_BUCKETS
        if not self.shares:
            return self.nominal
        return max(self.shares, key=lambda share: len(share.lanes)).buckets


class Division:
    """A member's ranges: asked for before every fetch, computed once for a view and queues."""

    def __init__(self) -> None:
        self._known: tuple[View, str, Mapping[int, str], Fetch] | None = None

    def of(self, view: View, member_id: str, queues: Mapping[int, str]) -> Fetch:
        """Of these queues, lane to name. Whoever changes view or queues makes new ones."""
        known = self._known
        if known is None or known[0] is not view or known[1] != member_id or known[2] is not queues:
            known = self._known = (view, member_id, queues, divide(view, member_id, queues))
        return known[3]


def divide(view: View, member_id: str, queues: Mapping[int, str]) -> Fetch:
    """The member's ranges of these queues (lane to name), as it sees the cluster."""
    lanes: dict[BucketRange, list[int]] = {}
    first_reason = None
    known: dict[frozenset[str], tuple[BucketRange, FetchReason | None]] = {}
    for lane, queue_name in queues.items():
        # Queues that the same members serve are divided alike: computed once.
        serving = frozenset(row.member_id for row in view.live if row.serves(queue_name))
        if serving not in known:
            known[serving] = view.share_of(member_id, queue_name)
        buckets, reason = known[serving]
        lanes.setdefault(buckets, []).append(lane)
        first_reason = first_reason or reason
    if not queues:
        nominal, reason = view.share_of(member_id, "")
        return Fetch((), reason, nominal)
    return Fetch(
        tuple(Share(tuple(group), buckets) for buckets, group in lanes.items()), first_reason
    )
