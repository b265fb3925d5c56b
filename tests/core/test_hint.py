"""Hints: small, merged to what covers both, never fatal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skipper_django.core.hint import ANY, MAX_MESSAGE_BYTES, Hint, unpack

hints = st.builds(
    Hint,
    st.integers(0, 2**63 - 1) | st.just(ANY),
    st.integers(0, 999) | st.just(ANY),
    st.booleans(),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50),
)


def covers(wide: Hint, narrow: Hint) -> bool:
    return (
        wide.lane in (ANY, narrow.lane)
        and wide.bucket in (ANY, narrow.bucket)
        and wide.scheduled >= narrow.scheduled
        and wide.task_id in ("", narrow.task_id)
    )


@given(hints)
def test_a_hint_survives_the_way(hint: Hint) -> None:
    assert unpack(hint.pack()) == hint
    assert len(hint.pack()) <= MAX_MESSAGE_BYTES


def test_a_long_id_stays_behind() -> None:
    hint = Hint(1, 2, False, "é" * 200)
    assert unpack(hint.pack()) == hint._replace(task_id="")


@given(hints, hints)
def test_a_merged_hint_covers_both_and_is_the_same_either_way(one: Hint, other: Hint) -> None:
    merged = one.merged(other)

    assert covers(merged, one)
    assert covers(merged, other)
    assert merged == other.merged(one)
    assert one.merged(one) == one


def test_an_id_that_no_task_can_have_wakes_all() -> None:
    assert unpack(Hint(1, 2, False, "a\0b").pack()) == Hint(ANY, ANY, True)


@given(st.binary(max_size=10) | st.binary(min_size=11, max_size=40).map(lambda it: it + b"\xff"))
def test_what_is_no_hint_wakes_all(message: bytes) -> None:
    assert unpack(message) == Hint(ANY, ANY, True)
