"""Strict JSON: what is stored comes back exactly as it was given."""

from __future__ import annotations

import enum
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.utils.functional import lazystr
from django.utils.safestring import mark_safe
from hypothesis import given
from hypothesis import strategies as st

from skipper_django.core.errors import BadArguments, NotSerializable, PayloadTooLarge
from skipper_django.core.payload import dump_arguments, dump_result, load_arguments
from skipper_django.models import Task

MEBIBYTE = 1024 * 1024

texts = st.text(st.characters(codec="utf-8"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
finite = scalars.filter(lambda value: value not in (float("inf"), float("-inf")))
values = st.recursive(
    finite, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=30
)


class Colour(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


class Word(enum.StrEnum):
    HELLO = "hello"


class Half(float):
    pass


def same(one: Any, other: Any) -> bool:
    """Equal in value and in type, all the way down, the sign of zero and the order included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return repr(one) == repr(other)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(st.lists(values), st.dictionaries(texts, values))
def test_what_is_accepted_comes_back_equal_in_value_and_type(
    args: list[Any], kwargs: dict[str, Any]
) -> None:
    stored = dump_arguments(args, kwargs, MEBIBYTE)

    loaded_args, loaded_kwargs = load_arguments(*stored)
    assert same(loaded_args, args)
    assert same(loaded_kwargs, kwargs)


@given(values)
def test_a_result_comes_back_equal_in_value_and_type(value: Any) -> None:
    stored = dump_result(value, MEBIBYTE)

    assert same(None if stored is None else json.loads(stored), value)


@given(st.integers(-(2**13_999), 2**13_999))
def test_an_integer_of_any_size_that_python_reads_comes_back(value: int) -> None:
    assert load_arguments(*dump_arguments([value], {}, MEBIBYTE))[0] == [value]


@pytest.mark.parametrize("value", [2**13_999, -(2**13_999), -0.0, 5e-324, 1.7976931348623157e308])
def test_numbers_at_the_edge_come_back(value: float) -> None:
    args, _ = load_arguments(*dump_arguments([value], {}, MEBIBYTE))

    assert same(args, [value])


@pytest.mark.parametrize("text", ["\0", "\u2028\u2029", "\U0001f680", "\\", '"', "\x7f", "\ufffe"])
def test_awkward_text_comes_back_and_is_stored_without_nul(text: str) -> None:
    stored = dump_arguments([text], {text: text}, MEBIBYTE)

    assert "\0" not in "".join(stored)
    assert load_arguments(*stored) == ([text], {text: text})


REFUSED = [
    (UUID(int=0), "UUID", "str(value)"),
    (datetime(2026, 1, 1, tzinfo=UTC), "datetime", "isoformat"),
    (datetime(2026, 1, 1), "datetime", "isoformat"),  # noqa: DTZ001
    (date(2026, 1, 1), "date", "isoformat"),
    (time(1), "time", "isoformat"),
    (timedelta(1), "timedelta", "total_seconds"),
    (Decimal("1.5"), "Decimal", "str(value)"),
    (lazystr("lazy"), "__proxy__", "str(value)"),
    (b"bytes", "bytes", "base64"),
    ({1}, "set", "sorted"),
    (frozenset({1}), "frozenset", "sorted"),
    ((1, 2), "tuple", "list(value)"),
    (Task(task_id="x"), "Task", "value.pk"),
    (float("nan"), "float nan", "finite"),
    (float("inf"), "float inf", "finite"),
    (float("-inf"), "float -inf", "finite"),
    ("\ud800", "lone surrogate", "UTF-8"),
    ({"\udfff": 1}, "lone surrogate", "UTF-8"),
    ({1: 2}, "int", "text as keys"),
    ({None: 2}, "NoneType", "text as keys"),
    ({True: 2}, "bool", "text as keys"),
    (10**5000, "thousands of digits", "hex(value)"),
    (2**14_000, "thousands of digits", "hex(value)"),
    (Colour.RED, "Colour", "value.value"),
    (Number.ONE, "Number", "value.value"),
    (Word.HELLO, "Word", "value.value"),
    (mark_safe("x"), "SafeString", "value + ''"),
    (Half(0.5), "Half", "float(value)"),
    (object(), "object", "pass text"),
    (1 + 2j, "complex", "pass text"),
    (print, "builtin_function_or_method", "pass text"),
]
IDS = [f"{index}-{kind}" for index, (_, kind, _) in enumerate(REFUSED)]


@pytest.mark.parametrize(("value", "kind", "remedy"), REFUSED, ids=IDS)
@pytest.mark.parametrize("where", ["argument 1", "argument 'name'", "argument 1[0]['key']"])
def test_a_value_that_json_would_change_is_refused_by_argument_type_and_remedy(
    value: Any, kind: str, remedy: str, where: str
) -> None:
    args, kwargs = [0, value], {}
    if where == "argument 'name'":
        args, kwargs = [], {"name": value}
    elif where != "argument 1":
        args = [0, [{"key": value}]]

    with pytest.raises(NotSerializable) as caught:
        dump_arguments(args, kwargs, MEBIBYTE)

    message = str(caught.value)
    assert where in message
    assert kind in message
    assert remedy in message
    message.encode()


@pytest.mark.parametrize(("value", "kind", "remedy"), REFUSED, ids=IDS)
def test_a_result_that_json_would_change_is_refused_but_for_tuples(
    value: Any, kind: str, remedy: str
) -> None:
    if kind == "tuple":
        assert dump_result(value, MEBIBYTE) == "[1,2]"
        return

    with pytest.raises(NotSerializable, match="result"):
        dump_result(value, MEBIBYTE)


@pytest.mark.parametrize("name", [1, None, True, (), "\ud800"])
def test_a_keyword_that_is_no_text_is_refused(name: Any) -> None:
    with pytest.raises(NotSerializable):
        dump_arguments([], {name: 1}, MEBIBYTE)


def test_a_key_whose_own_text_cannot_be_made_is_refused_all_the_same() -> None:
    class Key:
        def __repr__(self) -> str:
            raise RuntimeError("no repr")

    with pytest.raises(NotSerializable, match="Key"):
        dump_arguments([{Key(): 1}], {}, MEBIBYTE)


def test_a_list_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)

    with pytest.raises(NotSerializable, match=r"argument 0 is of type list.*less deeply"):
        dump_arguments([value], {}, MEBIBYTE)


def test_a_dict_that_holds_itself_is_refused() -> None:
    value: dict[str, Any] = {}
    value["self"] = [value]

    with pytest.raises(NotSerializable, match=r"argument 'name' is of type dict.*less deeply"):
        dump_arguments([], {"name": value}, MEBIBYTE)


@pytest.mark.parametrize("depth", [500, 900, 1_000, 5_000, 100_000])
def test_deep_nesting_is_refused_however_short_the_stack_is(depth: int) -> None:
    with pytest.raises(NotSerializable, match="less deeply"):
        dump_arguments([nested(depth)], {}, MEBIBYTE)


def test_what_was_accepted_on_a_short_stack_can_be_read_on_a_long_one() -> None:
    deepest = next(depth for depth in range(1_000, 0, -1) if _accepts(nested(depth)))
    stored = dump_arguments([nested(deepest)], {}, MEBIBYTE)

    def read(frames: int) -> Any:
        return read(frames - 1) if frames else load_arguments(*stored)

    assert deepest >= 50
    assert read(500) == ([nested(deepest)], {})


def _accepts(value: Any) -> bool:
    try:
        dump_arguments([value], {}, MEBIBYTE)
    except NotSerializable:
        return False
    return True


def test_the_size_limit_counts_the_bytes_of_both_parts_exactly() -> None:
    args, kwargs = ["\U0001f680"], {"k": "\xe9"}
    size = len('["\U0001f680"]'.encode()) + len('{"k":"\xe9"}'.encode())

    assert dump_arguments(args, kwargs, size)

    with pytest.raises(PayloadTooLarge, match=rf"{size} bytes.*{size - 1}.*MAX_PAYLOAD_BYTES"):
        dump_arguments(args, kwargs, size - 1)


def test_the_size_limit_of_a_result_is_exact_too() -> None:
    assert dump_result("\U0001f680", 6) == '"\U0001f680"'

    with pytest.raises(PayloadTooLarge, match="result of 6 bytes"):
        dump_result("\U0001f680", 5)


def test_no_result_is_stored_as_nothing() -> None:
    assert dump_result(None, 1) is None


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ("", "{}"), ("[]", ""), ("{}", "{}"), ("[]", "[]"), ("null", "{}"), ("[", "{}"),
        ("[]", None), (None, "{}"), ("[" * 100_000, "{}"), (f"[{'9' * 5000}]", "{}"), ("1", "2"),
    ],
)  # fmt: skip
def test_stored_arguments_that_are_nonsense_are_bad_arguments(args: Any, kwargs: Any) -> None:
    with pytest.raises(BadArguments):
        load_arguments(args, kwargs)
