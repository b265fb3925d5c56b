"""The rule that gives every live member one range of buckets."""

from collections.abc import Iterable

from .buckets import BUCKETS, BucketRange


def partition(member_ids: Iterable[str]) -> dict[str, BucketRange]:
    """Divide the buckets evenly among the members, sorted by the UTF-8 bytes of their ids.

    Ranges are contiguous and cover every bucket once; the first `1000 % N` members get one bucket
    more. Members beyond the 1000th have no bucket and are not in the answer.
    """
    members = sorted(set(member_ids), key=str.encode)[:BUCKETS]
    if not members:
        return {}
    share, larger = divmod(BUCKETS, len(members))
    ranges = {}
    start = 0
    for index, member_id in enumerate(members):
        stop = start + share + (index < larger)
        ranges[member_id] = BucketRange(start, stop)
        start = stop
    return ranges
