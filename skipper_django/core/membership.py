"""Who is in the cluster, and what that makes of each queue: rules over one view of the rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

from .buckets import ALL_BUCKETS, BUCKETS, BucketRange
from .partition import partition
from .reasons import FetchReason


class MemberState(IntEnum):
    """Values are stored."""

    ACTIVE = 0
    DRAINING = 1  # finishes what it runs: live, its leases hold, but it has no range
    DEAD = 2  # known for certain; the row stays a while to be seen


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One row of the cluster, as read."""

    member_id: str
    incarnation: int
    state: MemberState
    heartbeat_at: datetime
    queues: frozenset[str]  # empty: all of the tenant's
    host_key: str
    pid: int
    process_started: str

    def serves(self, queue_name: str) -> bool:
        return not self.queues or queue_name in self.queues


def is_live(row: MemberRow, now: datetime, window: float) -> bool:
    """Has it beaten within the liveness window (seconds), by the database's clock?"""
    return row.state is not MemberState.DEAD and row.heartbeat_at > now - timedelta(seconds=window)


@dataclass(frozen=True, slots=True)
class View:
    """The cluster as one member saw it at one moment."""

    live: tuple[MemberRow, ...]  # sorted by the bytes of the id
    dead: tuple[MemberRow, ...]

    @classmethod
    def of(cls, rows: Iterable[MemberRow], now: datetime, window: float) -> "View":
        ordered = sorted(rows, key=lambda row: row.member_id.encode())
        return cls(
            tuple(row for row in ordered if is_live(row, now, window)),
            tuple(row for row in ordered if not is_live(row, now, window)),
        )

    @property
    def divided_among(self) -> frozenset[tuple[int, frozenset[str]]]:
        """The incarnations that take part, with their queues: another set, other ranges."""
        return frozenset(
            (row.incarnation, row.queues) for row in self.live if row.state is MemberState.ACTIVE
        )

    def ranges(self, queue_name: str) -> Mapping[str, BucketRange]:
        """The range of every member that serves the queue."""
        return partition(
            row.member_id
            for row in self.live
            if row.state is MemberState.ACTIVE and row.serves(queue_name)
        )

    def share_of(self, member_id: str, queue_name: str) -> tuple[BucketRange, FetchReason | None]:
        """The member's range of the queue; all buckets, with the reason, where it has none."""
        if not self.live:
            return ALL_BUCKETS, FetchReason.NO_LIVE_MEMBER
        own = next((row for row in self.live if row.member_id == member_id), None)
        if own is None or own.state is not MemberState.ACTIVE:
            return ALL_BUCKETS, FetchReason.OWN_ROW_MISSING
        ranges = self.ranges(queue_name)
        if member_id in ranges:
            return ranges[member_id], None
        if len(ranges) >= BUCKETS:
            return ALL_BUCKETS, FetchReason.BEYOND_LAST_BUCKET
        return ALL_BUCKETS, FetchReason.OWN_ROW_MISSING


EMPTY_VIEW = View((), ())
