"""What one fetch may look at, and what the fetches of a member have come to."""

from dataclasses import dataclass

from ..core.buckets import BucketRange, Share
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
