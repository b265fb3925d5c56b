"""What may be an argument, and how much of it."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.db import DatabaseError, connections
from django.utils.functional import SimpleLazyObject
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy

from skipper_django import enqueue_many
from skipper_django.core.errors import NotSerializable, PayloadTooLarge
from skipper_django.models import Task
from skipper_django.store.clock import use_clock
from skipper_django.testing import run_ready
from tests.contract import tasks

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

KIB = 1024
MIB = 1024 * KIB
Pair = namedtuple("Pair", "a b")


class Number(enum.IntEnum):
    ONE = 1


CYCLE: list[Any] = []
CYCLE.append(CYCLE)

REFUSED: dict[str, Any] = {
    "UUID": uuid.UUID(int=1),
    "datetime": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    "date": datetime.date(2026, 1, 1),
    "timedelta": datetime.timedelta(1),
    "Decimal": decimal.Decimal("1.10"),
    "bytes": b"abc",
    "set": {1},
    "tuple": (1, 2),
    "Pair": Pair(1, 2),
    "OrderedDict": OrderedDict(a=1),
    "Number": Number.ONE,
    "complex": 1j,
    "Group": Group(name="g"),
    "__proxy__": gettext_lazy("lazy"),
    "SafeString": mark_safe("<b>"),
    "SimpleLazyObject": SimpleLazyObject(lambda: 1),
    "nan": float("nan"),
    "inf": float("-inf"),
    "surrogate": "a\ud800",
    "digits": 10**5000,
    "object": object(),
    "function": len,
    "nest": CYCLE,
}

KEPT: list[Any] = [
    None,
    True,
    0,
    -(2**63),
    10**400,
    0.1,
    1e308,
    5e-324,
    "",
    "a\0b",
    "é😀\u2028</script>\\'\"%s{{7*7}}",
    [],
    {},
    {"": [{"a": None}]},
    {"é": "😀"},
]


def direct(value: Any) -> None:
    tasks.other.enqueue(value)


def nested(value: Any) -> None:
    tasks.plain.enqueue(value={"a": [value]})


def many(value: Any) -> None:
    enqueue_many([(tasks.other, [1]), (tasks.other, [], {"value": value})])


@pytest.mark.django_db
@pytest.mark.case("R3")
@pytest.mark.case("R4")
@pytest.mark.parametrize("enqueue", [direct, nested, many], ids=lambda f: f.__name__)
@pytest.mark.parametrize(("kind", "value"), REFUSED.items(), ids=REFUSED)
def test_a_value_that_json_would_change_is_refused_by_name_and_type(
    enqueue: Callable[[Any], None], kind: str, value: Any
) -> None:
    with pytest.raises(NotSerializable, match=r"argument (0|'value')") as refusal:
        enqueue(value)

    assert kind in str(refusal.value)
    assert isinstance(refusal.value, TypeError)
    assert not Task.objects.exists()


@pytest.mark.case("R3")
def test_every_kept_value_arrives_as_it_was_given(queue: str) -> None:
    result = tasks.echo_values.enqueue(*KEPT, named=KEPT)

    run_ready()

    result.refresh()
    assert result.return_value == [KEPT, {"named": KEPT}]
    assert [type(value) for value in result.return_value[0]] == [type(value) for value in KEPT]
    assert result.args == KEPT


@pytest.mark.case("R41")
def test_a_task_that_changes_its_arguments_changes_only_its_own(queue: str) -> None:
    tasks.calls.clear()
    items, table = [1], {"a": 1}
    result = tasks.mutate.enqueue(items, table)
    items.append(2)

    run_ready()

    assert tasks.calls == [([1], {"a": 1})]
    assert (items, table) == ([1, 2], {"a": 1})
    result.refresh()
    assert tasks.mutate.get_result(result.id).args == [[1], {"a": 1}]
    assert result.args == [[1], {"a": 1}]


@pytest.mark.case("R5")
@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_the_limit_counts_bytes_exactly(queue: str, settings: Settings, letter: str) -> None:
    settings.SKIPPER = {**settings.SKIPPER, "MAX_PAYLOAD_BYTES": 1_006}
    width = len(letter.encode())
    fitting = letter * (1_000 // width) + "x" * (1_000 % width)  # and 6 for ["..."] and {}

    result = tasks.other.enqueue(fitting)
    with pytest.raises(PayloadTooLarge, match=r"1007 bytes.*1006.*MAX_PAYLOAD_BYTES"):
        tasks.other.enqueue(fitting + "x")

    run_ready()
    assert tasks.other.get_result(result.id).return_value == fitting
    assert Task.objects.using(queue).count() == 1


@pytest.mark.case("R5")
def test_a_result_above_the_limit_is_a_failure(queue: str, settings: Settings) -> None:
    settings.SKIPPER = {**settings.SKIPPER, "MAX_PAYLOAD_BYTES": 1_000}
    results = [tasks.repeat.enqueue("é", times) for times in (499, 500)]

    run_ready()

    for result in results:
        result.refresh()
    assert results[0].return_value == "é" * 499
    assert results[1].errors[0].exception_class is PayloadTooLarge
    assert "1002 bytes" in results[1].errors[0].traceback


@pytest.mark.case("R5")
@pytest.mark.parametrize("size", [64 * KIB - 1, 64 * KIB, MIB - 6])
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lax"])
def test_a_payload_up_to_the_limit_is_kept_whole(queue: str, size: int, strict: bool) -> None:
    if not strict and connections[queue].vendor == "mysql":
        with connections[queue].cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = ''")
    try:
        result = tasks.other.enqueue("x" * size)
        run_ready()
        result.refresh()
    finally:
        if not strict and connections[queue].vendor == "mysql":
            with connections[queue].cursor() as cursor:
                cursor.execute("SET SESSION sql_mode = 'STRICT_TRANS_TABLES'")

    assert len(result.args[0]) == len(result.return_value) == size


@pytest.mark.case("R5")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("enqueue", [direct, many], ids=lambda f: f.__name__)
def test_a_payload_far_above_the_limit_touches_no_connection(
    queue: str, enqueue: Callable[[Any], None]
) -> None:
    connections[queue].close()
    before = use_clock(queue, None)
    try:
        with pytest.raises(PayloadTooLarge, match=f"{20 * MIB // 10_000}.* bytes.*{MIB}"):
            enqueue("x" * 20 * MIB)
    finally:
        use_clock(queue, before)

    assert connections[queue].connection is None


@pytest.mark.case("R5")
@pytest.mark.django_db(transaction=True)
def test_a_payload_above_the_packet_limit_reaches_the_caller_and_the_next_enqueue_works(
    queue: str, settings: Settings
) -> None:
    settings.SKIPPER = {**settings.SKIPPER, "MAX_PAYLOAD_BYTES": 128 * MIB}
    if queue not in ("mariadb", "mysql"):
        pytest.skip("no packet limit here")
    with connections[queue].cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        (limit,) = cursor.fetchone()

    with pytest.raises(DatabaseError):
        tasks.other.enqueue("x" * (limit + 1))

    connections[queue].close_if_unusable_or_obsolete()
    assert tasks.other.enqueue(1).args == [1]
    assert Task.objects.using(queue).count() == 1
