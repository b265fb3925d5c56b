"""How long a failed task waits for its next attempt."""

from __future__ import annotations

from collections import deque
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipper_django.core.backoff import (
    MAX_DELAY_SECONDS,
    check_backoff,
    delay_before_retry,
    exponential,
    fixed,
)
from skipper_django.core.errors import BadBackoff

delays = st.floats(0, MAX_DELAY_SECONDS)
nonsense = [
    True, "5", b"5", Decimal(5), float("nan"), float("inf"), -1, -0.001, MAX_DELAY_SECONDS + 1,
    10**400, -(10**400), 10**5000, {}, object(),
]  # fmt: skip


def named(value: object) -> str:
    # Not pytest's own way: there are numbers here whose text cannot be made.
    return type(value).__name__


def after(attempt: int) -> Any:
    return SimpleNamespace(errors=[{}] * attempt)


def ask(backoff: Any, attempt: int) -> float | None:
    return delay_before_retry(backoff, attempt, ValueError("no"), after(attempt))


@given(delays, st.integers(1, 10_000))
def test_a_fixed_delay_is_the_same_before_every_attempt(delay: float, attempt: int) -> None:
    assert ask(fixed(delay), attempt) == delay
    assert ask(delay, attempt) == delay


@given(st.lists(delays, min_size=1, max_size=20), st.integers(1, 100), st.booleans())
def test_a_list_gives_one_delay_per_attempt_and_the_last_again(
    delays: list[float], attempt: int, as_tuple: bool
) -> None:
    backoff = tuple(delays) if as_tuple else delays

    expected = delays[attempt - 1] if attempt <= len(delays) else delays[-1]
    assert ask(backoff, attempt) == expected


def test_an_exponential_delay_doubles_up_to_its_cap() -> None:
    backoff = exponential(1, jitter=0, cap=100)

    assert [ask(backoff, attempt) for attempt in range(1, 10)] == [
        1, 2, 4, 8, 16, 32, 64, 100, 100,
    ]  # fmt: skip


@given(
    first=delays,
    factor=st.one_of(st.floats(1, 1e308), st.integers(1, 10**30)),
    cap=delays,
    jitter=st.floats(0, 1),
    attempt=st.integers(1, 10**6),
)
def test_an_exponential_delay_stays_within_its_bounds(
    first: float, factor: float, cap: float, jitter: float, attempt: int
) -> None:
    delay = ask(exponential(first, factor=factor, cap=cap, jitter=jitter), attempt)

    assert delay is not None
    assert 0 <= delay <= cap
    exact = min(cap, first) if attempt == 1 or factor == 1 else None
    if exact is not None:
        assert exact * (1 - jitter) * (1 - 1e-9) <= delay <= exact


@given(st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_jitter_takes_at_most_its_share_of_the_delay(jitter: float, chance: float) -> None:
    delay = exponential(100, jitter=jitter).delay(1, chance)

    assert 100 * (1 - jitter) <= delay <= 100


@pytest.mark.parametrize(
    "options",
    [
        {"first": -1}, {"first": float("nan")}, {"cap": float("inf")}, {"cap": "1"},
        {"factor": 0.5}, {"factor": float("nan")}, {"factor": float("inf")}, {"factor": "2"},
        {"factor": None}, {"jitter": -0.1}, {"jitter": 1.1}, {"jitter": float("nan")},
        {"jitter": "0"}, {"jitter": None}, {"first": 10**400},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_an_exponential_that_cannot_work_is_refused_at_its_making(options: Any) -> None:
    with pytest.raises(BadBackoff):
        exponential(**options)


@pytest.mark.parametrize(
    "backoff", [0, 1, 2.5, [1], (1, 2), fixed(1), exponential(), lambda *_: None]
)
def test_what_can_be_a_backoff_passes(backoff: object) -> None:
    check_backoff(backoff)


@pytest.mark.parametrize(
    "backoff", [None, [], (), *nonsense, [1, "2"], [1, True], deque([1])], ids=named
)
def test_what_cannot_be_a_backoff_is_refused_at_the_decoration(backoff: object) -> None:
    with pytest.raises(BadBackoff):
        check_backoff(backoff)


def test_a_callable_is_asked_with_the_error_and_the_result() -> None:
    asked: list[Any] = []
    error, result = ValueError("no"), after(2)

    def backoff(*arguments: Any) -> float:
        asked.append(arguments)
        return 7

    assert delay_before_retry(backoff, 2, error, result) == 7
    assert asked == [(error, result)]


def test_a_callable_that_answers_none_says_stop() -> None:
    assert ask(lambda error, result: None, 1) is None


@pytest.mark.parametrize("answer", nonsense, ids=named)
def test_a_callable_that_answers_nonsense_is_a_bad_backoff(answer: object) -> None:
    with pytest.raises(BadBackoff):
        ask(lambda error, result: answer, 1)


def test_a_callable_that_raises_is_a_bad_backoff_with_its_cause() -> None:
    def backoff(error: BaseException, result: Any) -> float:
        raise ZeroDivisionError("oops")

    with pytest.raises(BadBackoff, match="oops") as caught:
        ask(backoff, 1)

    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_callable_whose_error_cannot_be_shown_is_still_a_bad_backoff() -> None:
    class Silent(Exception):
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    def backoff(error: BaseException, result: Any) -> float:
        raise Silent

    with pytest.raises(BadBackoff, match="Silent"):
        ask(backoff, 1)
