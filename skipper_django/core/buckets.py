"""Task id to bucket, bucket to slot, tenant and queue to lane.

A *bucket* is the unit in which members share the queue; a *slot* is 16 neighbouring buckets, the
unit in which the hot index is searched; a *lane* is one queue of one tenant, as a number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

from .errors import InvalidTaskId

BUCKETS = 1000
SLOT_WIDTH = 16
SLOTS = -(-BUCKETS // SLOT_WIDTH)


def bucket_of(task_id: str) -> int:
    """CRC32 of the UTF-8 bytes of the id, modulo 1000: the same answer on every database.

    Raises InvalidTaskId for an id with lone surrogates, which has no UTF-8 form.
    """
    try:
        return crc32(task_id.encode()) % BUCKETS
    except UnicodeEncodeError as error:
        raise InvalidTaskId(
            f"task id {task_id!r} contains a lone surrogate; use text that UTF-8 can encode"
        ) from error


def slot_of(bucket: int) -> int:
    return bucket // SLOT_WIDTH


@lru_cache(maxsize=4096)
def lane_of(tenant: str, queue_name: str) -> int:
    """63-bit hash of tenant and queue: eight bytes in the index, whatever the names."""
    digest = blake2b(f"{tenant}\0{queue_name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


class SlotPart(NamedTuple):
    """The buckets `start <= bucket < stop` of one slot; most parts are whole slots."""

    slot: int
    start: int
    stop: int

    @property
    def is_whole(self) -> bool:
        return self.stop - self.start == min(SLOT_WIDTH, BUCKETS - self.slot * SLOT_WIDTH)


@dataclass(frozen=True, slots=True)
class BucketRange:
    """Contiguous buckets, half-open like Python's own range: `start <= bucket < stop`."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop <= BUCKETS:
            raise ValueError(f"[{self.start}, {self.stop}) is not a range of {BUCKETS} buckets")

    def __contains__(self, bucket: int) -> bool:
        return self.start <= bucket < self.stop

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"[{self.start}, {self.stop})"

    def near(self, bucket: int) -> "BucketRange":
        """What of the range is in the slot of this bucket, one of its own."""
        start = slot_of(bucket) * SLOT_WIDTH
        return BucketRange(max(self.start, start), min(self.stop, start + SLOT_WIDTH))

    def parts(self) -> Iterator[SlotPart]:
        """The slots that the range covers, the first and the last perhaps only in part."""
        start = self.start
        while start < self.stop:
            slot = slot_of(start)
            stop = min(self.stop, (slot + 1) * SLOT_WIDTH)
            yield SlotPart(slot, start, stop)
            start = stop


ALL_BUCKETS = BucketRange(0, BUCKETS)


@dataclass(frozen=True, slots=True)
class Share:
    """Queues that are divided alike, as lanes, and the range of them that is one member's."""

    lanes: tuple[int, ...]
    buckets: BucketRange

    def near(self, lane: int, bucket: int) -> "Share | None":
        """The slot of this bucket in this queue; None where the bucket is another member's."""
        if lane in self.lanes and bucket in self.buckets:
            return Share((lane,), self.buckets.near(bucket))
        return None

    def others(self) -> tuple["Share", ...]:
        """The rest of the same queues."""
        outside = (BucketRange(0, self.buckets.start), BucketRange(self.buckets.stop, BUCKETS))
        return tuple(Share(self.lanes, buckets) for buckets in outside if len(buckets))
