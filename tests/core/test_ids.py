"""Ids of tasks: our own, and those of callers."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipper_django.core.errors import InvalidTaskId
from skipper_django.core.ids import check_task_id, new_task_ids

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
moments = st.datetimes(
    min_value=datetime(1970, 1, 1),  # noqa: DTZ001
    max_value=datetime(9999, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)


@given(moments)
def test_an_id_is_a_uuid_of_version_7_that_holds_its_time(now: datetime) -> None:
    (task_id,) = new_task_ids(now, 1)

    parsed = uuid.UUID(task_id)
    assert str(parsed) == task_id
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    milliseconds = int.from_bytes(parsed.bytes[:6])
    assert abs(milliseconds - now.timestamp() * 1000) <= 1


def test_ids_of_one_moment_differ() -> None:
    assert len({next(new_task_ids(NOON, 1)) for _ in range(10_000)}) == 10_000
    many = set(new_task_ids(NOON, 10_000))
    assert len(many) == 10_000
    assert {(uuid.UUID(i).version, uuid.UUID(i).variant) for i in many} == {(7, uuid.RFC_4122)}


@given(moments, st.integers(1, 10**12))
def test_a_later_id_sorts_later(now: datetime, later: int) -> None:
    if datetime.max.replace(tzinfo=UTC) - now <= timedelta(milliseconds=later):
        return

    (earlier_id,) = new_task_ids(now, 1)
    (later_id,) = new_task_ids(now + timedelta(milliseconds=later + 1), 1)
    assert earlier_id < later_id


@pytest.mark.parametrize("task_id", ["a", " ", "a ", "\U0001f680" * 255, "x" * 255, "\n", "\xa0"])
def test_an_id_of_the_callers_own_may_be_any_text(task_id: str) -> None:
    check_task_id(task_id)


@pytest.mark.parametrize(
    ("task_id", "complaint"),
    [
        (1, "give a str"), (None, "give a str"), (b"a", "give a str"), (uuid.UUID(int=1), "UUID"),
        ("", "0 characters"), ("x" * 256, "256 characters"), ("\U0001f680" * 256, "256"),
        ("a\ud800", "lone surrogate"), ("a\0b", "NUL"),
    ],
)  # fmt: skip
def test_an_id_that_cannot_be_found_again_is_refused(task_id: Any, complaint: str) -> None:
    with pytest.raises(InvalidTaskId, match=complaint) as caught:
        check_task_id(task_id)

    str(caught.value).encode()


@given(st.text(st.characters(), max_size=300))
def test_any_text_is_accepted_or_refused_by_name(task_id: str) -> None:
    try:
        check_task_id(task_id)
    except InvalidTaskId:
        return

    assert task_id.encode().decode() == task_id
