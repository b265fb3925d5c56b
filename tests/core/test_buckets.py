"""Task id to bucket, bucket to slot, tenant and queue to lane."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipper_django.core.buckets import (
    ALL_BUCKETS,
    BUCKETS,
    SLOTS,
    BucketRange,
    bucket_of,
    lane_of,
    slot_of,
)
from skipper_django.core.errors import InvalidTaskId

GOLDEN_BUCKETS = {
    "": 0,
    "a": 907,
    "test": 996,
    "test2": 520,
    "alpha": 690,
    "task-1": 591,
    "task-9999": 782,
    "test-task-123": 751,
    "order-42": 942,
    "order-42:timeout": 774,
    "order-42-compensation": 860,
    "00000000-0000-0000-0000-000000000000": 225,
    "550e8400-e29b-41d4-a716-446655440000": 873,
    "550E8400-E29B-41D4-A716-446655440000": 397,
    "6ba7b810-9dad-11d1-80b4-00c04fd430c8": 958,
    "caf\xe9": 637,
    "cafe\u0301": 202,
    "\u4efb\u52a1-\u4e00": 243,
    "\u0645\u0647\u0645\u0629-\U0001f468\u200d\U0001f469\u200d\U0001f467": 310,
    "\U0001f680": 46,
    "deploy-\U0001f680-1": 848,
    "task-1 ": 741,
    "a" * 255: 925,
    "\xe9" * 255: 315,
    "\U0001f680" * 255: 717,
}

ranges = st.tuples(st.integers(0, BUCKETS), st.integers(0, BUCKETS)).map(
    lambda ends: BucketRange(min(ends), max(ends))
)


@pytest.mark.parametrize(("task_id", "bucket"), GOLDEN_BUCKETS.items())
def test_the_golden_ids_fall_into_their_golden_buckets(task_id: str, bucket: int) -> None:
    assert bucket_of(task_id) == bucket


@given(st.text(st.characters(codec="utf-8")))
def test_every_id_that_utf8_can_encode_has_a_bucket(task_id: str) -> None:
    bucket = bucket_of(task_id)

    assert bucket == zlib.crc32(task_id.encode("utf-8")) % 1000
    assert bucket in ALL_BUCKETS


@pytest.mark.parametrize("task_id", ["\ud800", "a\udfff", "\udcff" * 3])
def test_a_lone_surrogate_is_refused_by_name(task_id: str) -> None:
    with pytest.raises(InvalidTaskId, match="lone surrogate"):
        bucket_of(task_id)


def test_sequential_ids_spread_evenly() -> None:
    counts = [0] * BUCKETS
    for number in range(100_000):
        counts[bucket_of(f"order-{number}")] += 1

    assert min(counts) > 50
    assert max(counts) < 160


def test_every_bucket_has_one_of_63_slots() -> None:
    slots = {slot_of(bucket) for bucket in range(BUCKETS)}

    assert slots == set(range(SLOTS))
    assert SLOTS == 63


@given(ranges)
def test_the_parts_of_a_range_cover_it_exactly_in_order(buckets: BucketRange) -> None:
    parts = list(buckets.parts())

    covered = [bucket for part in parts for bucket in range(part.start, part.stop)]
    assert covered == list(range(buckets.start, buckets.stop))
    assert len({part.slot for part in parts}) == len(parts)
    for part in parts:
        assert {slot_of(bucket) for bucket in range(part.start, part.stop)} == {part.slot}


@given(ranges)
def test_a_part_is_whole_only_if_it_holds_every_bucket_of_its_slot(buckets: BucketRange) -> None:
    for part in buckets.parts():
        all_of_slot = [bucket for bucket in range(BUCKETS) if slot_of(bucket) == part.slot]
        assert part.is_whole == (all_of_slot == list(range(part.start, part.stop)))


@given(ranges, st.integers(-5, BUCKETS + 5))
def test_a_range_is_half_open(buckets: BucketRange, bucket: int) -> None:
    assert (bucket in buckets) == (bucket in range(buckets.start, buckets.stop))
    assert len(buckets) == buckets.stop - buckets.start
    assert str(buckets) == f"[{buckets.start}, {buckets.stop})"


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (5, 4), (0, 1001), (1001, 1001)])
def test_what_is_no_range_of_buckets_is_refused(start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="not a range"):
        BucketRange(start, stop)


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_a_lane_fits_a_signed_64_bit_column(tenant: str, queue_name: str) -> None:
    assert 0 <= lane_of(tenant, queue_name) < 2**63


def test_lanes_use_all_63_bits() -> None:
    lanes = [lane_of("default", f"queue-{number}") for number in range(1_000)]

    used = 0
    for lane in lanes:
        used |= lane
    assert used == 2**63 - 1
    assert len(set(lanes)) == len(lanes)


def test_the_lane_of_a_queue_never_changes() -> None:
    # Stored in every row: another value would orphan the rows of running projects.
    assert lane_of("default", "default") == 2922242977943380236
    assert lane_of("akme", "mail \u2709") == 932401370653180793


@pytest.mark.parametrize(
    ("one", "other"),
    [(("a", "bc"), ("ab", "c")), (("", "a"), ("a", "")), (("a", "b"), ("b", "a"))],
)
def test_the_border_between_tenant_and_queue_counts(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert lane_of(*one) != lane_of(*other)
