"""How an error is put down with its task, and read again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipper_django.core.errors import TaskTimeout, WorkerLost
from skipper_django.core.outcome import (
    MAX_MESSAGE_CHARACTERS,
    MAX_TRACEBACK_CHARACTERS,
    describe_error,
    load_errors,
    reason_of,
    shorten,
    storable,
)
from skipper_django.core.reasons import FailReason

MARKER = 60


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class NoString(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]


class Recursive(Exception):
    def __str__(self) -> str:
        return str(self)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_an_error_is_described_by_class_message_traceback_and_attempt() -> None:
    described = describe_error(raised(ValueError("broken")), 3)

    assert described["attempt"] == 3
    assert described["exception_class_path"] == "builtins.ValueError"
    assert described["message"] == "broken"
    assert "test_outcome.py" in described["traceback"]
    assert described["traceback"].rstrip().endswith("ValueError: broken")


@pytest.mark.parametrize("error", [Mute(), NoString(), Recursive()])
def test_an_error_without_text_is_described_all_the_same(error: Exception) -> None:
    described = describe_error(raised(error), 1)

    assert type(error).__name__ in described["message"]
    assert described["exception_class_path"].endswith(type(error).__name__)


def test_the_place_in_a_class_is_part_of_its_path() -> None:
    class Inner(Exception):
        pass

    described = describe_error(Inner(), 1)

    assert described["exception_class_path"].endswith("<locals>.Inner")


@given(st.text(st.characters()))
def test_any_message_becomes_text_that_every_database_stores(message: str) -> None:
    described = describe_error(raised(ValueError(message)), 1)

    for text in (described["message"], described["traceback"]):
        text.encode()
        assert "\0" not in text


def test_the_name_of_a_class_becomes_storable_too() -> None:
    kind = type("Odd", (Exception,), {"__module__": "a\0b", "__qualname__": "\ud800" * 5_000})

    described = describe_error(kind(), 1)

    path = described["exception_class_path"]
    path.encode()
    assert "\0" not in path
    assert len(path) <= MAX_MESSAGE_CHARACTERS + MARKER


def test_a_huge_message_keeps_its_head_and_its_tail() -> None:
    described = describe_error(raised(ValueError("head" + "x" * 10**6 + "tail")), 1)

    assert described["message"].startswith("head")
    assert described["message"].endswith("tail")
    assert len(described["message"]) <= MAX_MESSAGE_CHARACTERS + MARKER
    assert len(described["traceback"]) <= MAX_TRACEBACK_CHARACTERS + MARKER


def test_a_chain_of_errors_is_shown_with_its_cause() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as error:
        described = describe_error(error, 1)

    assert "KeyError: 'first'" in described["traceback"]
    assert "ValueError: second" in described["traceback"]


@given(st.text(), st.integers(2, 50).map(lambda half: 2 * half))
def test_shortening_keeps_short_text_and_bounds_long_text(text: str, limit: int) -> None:
    short = shorten(text, limit)

    if len(text) <= limit:
        assert short == text
    else:
        assert len(short) <= limit + MARKER
        assert short.startswith(text[: limit // 2])
        assert short.endswith(text[-(limit // 2) :])
        assert f"{len(text) - limit} characters left out" in short


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_text_that_can_be_stored_stays_as_it_is(text: str) -> None:
    assert storable(text) == text


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TaskTimeout(), FailReason.TIMEOUT),
        (TimeoutError(), FailReason.EXCEPTION),
        (ValueError(), FailReason.EXCEPTION),
        (WorkerLost(), FailReason.EXCEPTION),
    ],
)
def test_only_our_own_timeout_is_a_timeout(error: Exception, reason: FailReason) -> None:
    assert reason_of(error) is reason


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text())))
def test_stored_errors_come_back(errors: list[dict[str, Any]]) -> None:
    assert load_errors(json.dumps(errors)) == errors


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (None, []), ("", []), ("nonsense", []), ("{}", []), ("null", []), ("7", []),
        ('[1, {"a": 1}, null]', [{"a": 1}]), ("[" * 100_000, []),
    ],
)  # fmt: skip
def test_edited_errors_count_as_none(text: str | None, errors: list[Any]) -> None:
    assert load_errors(text) == errors
