"""Many tasks at once: few statements, one order, all or nothing."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

import pytest
from django.db import InternalError, connections, transaction
from django.test.utils import CaptureQueriesContext

from skipper_django import enqueue_many
from skipper_django.compat import InvalidTask, task_backends
from skipper_django.models import Task
from skipper_django.store.database import Database
from skipper_django.testing import frozen_clock, run_ready
from tests.contract import tasks

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

OURS = "skipper_django.backend.SkipperBackend"
DUMMY = tasks.framework.__name__ + ".backends.dummy.DummyBackend"
IMMEDIATE = tasks.framework.__name__ + ".backends.immediate.ImmediateBackend"


def statements(alias: str) -> CaptureQueriesContext:
    return CaptureQueriesContext(connections[alias])


def test_a_plain_enqueue_is_one_statement(queue: str) -> None:
    with statements(queue) as captured:
        tasks.other.enqueue(1)
        tasks.rich.using(priority=3, run_after=datetime.datetime.now(datetime.UTC)).enqueue(2)

    assert len(captured) == 2
    assert all(query["sql"].startswith("INSERT") for query in captured.captured_queries)


def test_an_enqueue_with_an_id_is_two_statements_three_if_it_exists(queue: str) -> None:
    with statements(queue) as first:
        tasks.other.using(task_id="once").enqueue(1)
    with statements(queue) as again:
        tasks.other.using(task_id="once").enqueue(1)

    assert (len(first), len(again)) == (2, 3)


def test_reading_a_result_is_one_statement(queue: str) -> None:
    result = tasks.other.enqueue(1)

    with statements(queue) as captured:
        result.refresh()

    assert len(captured) == 1


def test_ten_thousand_tasks_are_a_few_statements_in_order(queue: str) -> None:
    calls = [
        (tasks.rich.using(priority=number % 7), [number])
        if number % 2
        else (tasks.other, [], {"value": number})
        for number in range(10_000)
    ]

    with statements(queue) as captured:
        results = enqueue_many(calls)

    assert len(captured) == (1 if Database(queue).dialect.has_copy else 10)
    assert [(result.args or [result.kwargs["value"]])[0] for result in results] == list(
        range(10_000)
    )
    stored = dict(Task.objects.using(queue).values_list("task_id", "args"))
    assert len(stored) == 10_000
    assert [stored[result.id] for result in results[1::2]] == [
        f"[{n}]" for n in range(1, 10_000, 2)
    ]


def test_tasks_of_one_call_run_in_its_order(queue: str) -> None:
    with frozen_clock(database=queue):
        tasks.calls.clear()
        enqueue_many((tasks.mutate, [[number], {}]) for number in range(30))
        run_ready()

    assert [items for items, _ in tasks.calls] == [[number] for number in range(30)]


def test_large_payloads_are_split_over_statements(queue: str) -> None:
    with statements(queue) as captured:
        results = enqueue_many([(tasks.other, ["x" * 900_000])] * 5)

    assert len(captured) == (1 if Database(queue).dialect.has_copy else 5)
    assert {len(result.args[0]) for result in results} == {900_000}


AWKWARD = [
    "\\",
    "\\N",
    "\\.",
    "\t",
    "\n",
    "\r\n",
    "\\t",
    "\x0b",
    "\x1f",
    "\u2028",
    "é",
    "\U0001f680",
    '"',
    "%s",
    "",
]


def test_awkward_text_comes_back_as_it_was(queue: str) -> None:
    names = [text for text in AWKWARD if text]

    results = enqueue_many(
        [(tasks.other, [text]) for text in AWKWARD]
        + [(tasks.other.using(queue_name=f"q{name}"), [name]) for name in names]
    )

    rows = {row.task_id: row for row in Task.objects.using(queue)}
    assert [json.loads(rows[r.id].args) for r in results] == [[text] for text in AWKWARD + names]
    assert [rows[r.id].queue_name for r in results[len(AWKWARD) :]] == [f"q{n}" for n in names]


def test_what_the_database_refuses_is_an_error_of_django(queue: str) -> None:
    if not Database(queue).dialect.has_copy:
        pytest.skip("COPY is PostgreSQL's")
    with transaction.atomic(queue):
        with connections[queue].cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(InternalError, match="read-only"):
            enqueue_many([(tasks.other, [1]), (tasks.other, [2])])
        transaction.set_rollback(True, queue)

    assert not Task.objects.using(queue).exists()


@pytest.mark.parametrize("count", [1, 2])
def test_a_transaction_that_is_lost_takes_no_tasks(queue: str, count: int) -> None:
    with transaction.atomic(queue):
        transaction.set_rollback(True, queue)
        with pytest.raises(transaction.TransactionManagementError):
            enqueue_many([(tasks.other, [number]) for number in range(count)])


@pytest.mark.parametrize("ids", [["a", "b", "c"], ["a", "b", "new"], ["new"], ["a"]], ids=str)
def test_ids_that_exist_come_back_as_they_are(queue: str, ids: list[str]) -> None:
    for known in ("a", "b", "c"):
        tasks.other.using(task_id=known).enqueue("before")

    results = enqueue_many(
        [(tasks.other, ["plain"]), *((tasks.other.using(task_id=i), ["now"]) for i in ids)]
    )

    assert [result.id for result in results[1:]] == ids
    expected = [["now"] if task_id == "new" else ["before"] for task_id in ids]
    assert [result.args for result in results[1:]] == expected
    assert Task.objects.using(queue).count() == 4 + ids.count("new")


def test_an_id_named_twice_in_one_call_is_one_task(queue: str) -> None:
    task = tasks.other.using(task_id="twice")

    results = enqueue_many([(task, [1]), (tasks.rich, [0]), (task.using(priority=5), [2])])

    assert [result.args for result in results] == [[1], [0], [1]]
    assert [result.id for result in results[::2]] == ["twice", "twice"]
    assert Task.objects.using(queue).count() == 2


@pytest.mark.parametrize("bad", [object(), float("nan"), {1: 2}, "\ud800", "x" * 2_000_000])
def test_everything_is_validated_before_the_first_row(queue: str, bad: Any) -> None:
    with statements(queue) as captured, pytest.raises((TypeError, ValueError)):
        enqueue_many([*[(tasks.other, [1])] * 1_500, (tasks.other, [bad])])

    assert len(captured) == 0


def test_a_task_that_is_no_longer_valid_refuses_all(queue: str, settings: Settings) -> None:
    settings.TASKS = {"default": {"BACKEND": OURS, "QUEUES": ["default"]}}

    with statements(queue) as captured, pytest.raises(InvalidTask, match="not valid"):
        enqueue_many([(tasks.other, [1]), (tasks.rich, [2])])

    assert len(captured) == 0


@pytest.mark.parametrize(
    "call",
    [
        tasks.other,
        (tasks.other,),
        (tasks.other, 5),
        (tasks.other, "text"),
        (tasks.other, {"value": 1}),
        (tasks.other, {1}),
        (tasks.other, None),
        (tasks.other, [1], None),
        (tasks.other, [1], [2]),
        (tasks.other, [1], {}, 4),
        (tasks.other.func, [1]),
        ("tests.contract.tasks.other", [1]),
        "ab",
        None,
        {tasks.other.name: 1, "b": 2},
    ],
    ids=range(15),
)
def test_calls_of_another_shape_are_refused_clearly(call: Any) -> None:
    with pytest.raises(TypeError, match="enqueue_many takes"):
        enqueue_many([call])


def test_keyword_names_are_text() -> None:
    kwargs: dict[Any, Any] = {1: 2}

    with pytest.raises(TypeError):
        enqueue_many([(tasks.other, [], kwargs)])


def test_what_is_no_list_of_calls_is_refused() -> None:
    nothing: Any = 5

    with pytest.raises(TypeError):
        enqueue_many(nothing)


def test_no_calls_are_no_statements(queue: str) -> None:
    with statements(queue) as captured:
        assert enqueue_many([]) == []

    assert len(captured) == 0


@pytest.fixture
def backends(queue: str, settings: Settings) -> str:
    settings.TASKS = {
        "default": {"BACKEND": OURS, "QUEUES": []},
        "mail": {"BACKEND": OURS, "QUEUES": [], "OPTIONS": {"TENANT": "mail"}},
        "dummy": {"BACKEND": DUMMY, "QUEUES": []},
        "now": {"BACKEND": IMMEDIATE, "QUEUES": []},
    }
    return queue


def test_calls_of_several_backends_keep_their_order(backends: str) -> None:
    aliases = ["default", "mail", "dummy", "mail", "default"]

    results = enqueue_many([(tasks.other.using(backend=alias), [alias]) for alias in aliases])

    assert [result.backend for result in results] == aliases
    assert [result.args for result in results] == [[alias] for alias in aliases]
    rows = Task.objects.using(backends).order_by("tenant")
    assert [row.tenant for row in rows] == ["default", "default", "mail", "mail"]
    dummy: Any = task_backends["dummy"]
    assert len(dummy.results) == 1


@pytest.mark.parametrize("last", ["default", "mail", "now"])
def test_calls_of_several_backends_are_validated_before_the_first_row(
    backends: str, last: str
) -> None:
    heard: list[Any] = []
    receive = heard_by(heard)
    bad = (tasks.other.using(backend=last), [object()])

    with statements(backends) as captured, pytest.raises(TypeError):
        enqueue_many([(tasks.other.using(backend=a), [1]) for a in ("mail", "default")] + [bad])

    assert not [q for q in captured.captured_queries if q["sql"].startswith("INSERT")]
    assert heard == []
    assert receive


def heard_by(heard: list[Any]) -> Any:
    from skipper_django.compat import task_enqueued

    def receive(task_result: Any, **kwargs: Any) -> None:
        heard.append(task_result)

    task_enqueued.connect(receive)  # weakly: gone with the caller's reference
    return receive
