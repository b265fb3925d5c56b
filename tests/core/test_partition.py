"""One range of buckets for every live member."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipper_django.core.buckets import BUCKETS, BucketRange
from skipper_django.core.partition import partition

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


def members(count: int) -> list[str]:
    return [f"member-{number:04}" for number in range(count)]


def ranges_of(count: int) -> list[tuple[int, int]]:
    return [(part.start, part.stop) for part in partition(members(count)).values()]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, [(0, 1000)]),
        (2, [(0, 500), (500, 1000)]),
        (3, [(0, 334), (334, 667), (667, 1000)]),
        (
            7,
            [(0, 143), (143, 286), (286, 429), (429, 572), (572, 715), (715, 858), (858, 1000)],
        ),
        (
            16,
            [(start, start + 63) for start in range(0, 504, 63)]
            + [(start, start + 62) for start in range(504, 1000, 62)],
        ),
        (999, [(0, 2)] + [(start, start + 1) for start in range(2, 1000)]),
        (1000, [(start, start + 1) for start in range(1000)]),
    ],
)
def test_the_golden_ranges(count: int, expected: list[tuple[int, int]]) -> None:
    assert ranges_of(count) == expected


def test_nobody_shares_nothing() -> None:
    assert partition([]) == {}


@given(st.integers(1, 1001))
def test_ranges_are_complete_disjoint_even_and_the_larger_ones_first(count: int) -> None:
    ranges = ranges_of(count)

    assert ranges[0][0] == 0
    assert ranges[-1][1] == BUCKETS
    assert all(stop == start for (_, stop), (start, _) in pairwise(ranges))
    sizes = [stop - start for start, stop in ranges]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1
    assert sizes[-1] >= 1


@settings(max_examples=20)
@given(st.integers(1, 1001), st.randoms(use_true_random=False))
def test_the_order_of_the_members_does_not_matter(count: int, chance: random.Random) -> None:
    shuffled = members(count)
    chance.shuffle(shuffled)

    assert partition(shuffled) == partition(members(count))


@given(st.lists(names, min_size=1, max_size=40))
def test_members_are_sorted_by_the_bytes_of_their_names_and_count_once(ids: list[str]) -> None:
    ranges = partition(ids)

    by_start = sorted(ranges, key=lambda member: ranges[member].start)
    assert by_start == sorted(set(ids), key=lambda member: member.encode("utf-8"))


def test_a_member_beyond_the_thousandth_has_no_range() -> None:
    ranges = partition(members(1001))

    assert len(ranges) == 1000
    assert "member-1000" not in ranges
    assert ranges["member-0999"] == BucketRange(999, 1000)


@given(st.integers(2, 1000))
def test_a_leaving_member_leaves_no_bucket_behind(count: int) -> None:
    survivors = members(count)[:-1]

    ranges = partition(survivors)

    assert sum(len(part) for part in ranges.values()) == BUCKETS
