"""What a task meets when it runs, and what its result says afterwards."""

from __future__ import annotations

import pickle
from typing import Any

import django
import pytest

from skipper_django.compat import TaskResultStatus
from skipper_django.models import Task
from skipper_django.testing import run_ready
from tests.contract import tasks


def run(task: Any, *args: Any) -> Any:
    result = task.enqueue(*args)
    run_ready()
    result.refresh()
    return result


def test_the_context_tells_the_attempt_and_the_result(queue: str) -> None:
    result = run(tasks.until_third)

    assert (result.attempts, result.status) == (1, TaskResultStatus.READY)
    assert "attempt 1" in result.errors[0].traceback


def test_a_none_is_a_return_value(queue: str) -> None:
    result = run(tasks.returns, "none")

    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, None)


def test_tuples_come_back_as_lists(queue: str) -> None:
    assert run(tasks.returns, "tuple").return_value == [1, [2, 3]]


@pytest.mark.case("R4")
@pytest.mark.parametrize("kind", ["nan", "infinity", "object", "set", "surrogate", "big"])
def test_a_result_that_cannot_be_kept_is_a_failure_that_is_not_repeated(
    queue: str, kind: str
) -> None:
    result = run(tasks.returns, kind)

    row = Task.objects.using(queue).get(task_id=result.id)
    assert (row.status, row.reason, row.attempts) == (Task.State.FAILED, "bad_result", 1)
    assert len(result.errors) == 1
    assert "result" in result.errors[0].traceback
    with pytest.raises(ValueError, match="failed"):
        result.return_value  # noqa: B018


@pytest.mark.parametrize("kind", ["value", "exit", "base"])
def test_every_exception_becomes_the_result(queue: str, kind: str) -> None:
    result = run(tasks.raises, kind)

    expected = {"value": ValueError, "exit": SystemExit, "base": tasks.BaseError}[kind]
    assert result.status == TaskResultStatus.FAILED
    assert [error.exception_class for error in result.errors] == [expected]
    assert "in raises" in result.errors[0].traceback
    assert result.finished_at >= result.started_at >= result.enqueued_at


@pytest.mark.case("R7")
def test_async_tasks_are_awaited(queue: str) -> None:
    assert run(tasks.awaited, {"a": 1}).return_value == {"a": 1}
    assert run(tasks.awaited_badly).errors[0].exception_class is RuntimeError


@pytest.mark.parametrize(
    "nonsense",
    [{"args": "[[1"}, {"args": "{}"}, {"args": ""}, {"kwargs": "[]"}, {"kwargs": "null"}],
    ids=str,
)
def test_a_row_whose_arguments_are_nonsense_is_parked(queue: str, nonsense: dict[str, Any]) -> None:
    good = tasks.other.enqueue(1)
    bad = tasks.other.using(priority=50).enqueue(1)
    Task.objects.using(queue).filter(task_id=bad.id).update(**nonsense)

    assert run_ready() == 2

    bad.refresh()
    good.refresh()
    assert (bad.status, good.status) == (TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL)
    assert Task.objects.using(queue).get(task_id=bad.id).reason == "bad_arguments"


@pytest.mark.parametrize("depth", [202, 900, 2_000, 20_000, 200_000])
def test_arguments_too_deep_to_decode_are_parked(queue: str, depth: int) -> None:
    result = tasks.other.enqueue(1)
    Task.objects.using(queue).update(args="[" * depth + "]" * depth)

    run_ready()

    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert Task.objects.using(queue).get(task_id=result.id).reason == "bad_arguments"


@pytest.mark.skipif(django.VERSION < (6, 1), reason="tasks are picklable from Django 6.1 on")
def test_tasks_and_results_are_picklable(queue: str) -> None:
    definition: Any
    for definition in (tasks.plain, tasks.rich, tasks.rich.using(priority=3, task_id="p")):
        copy = pickle.loads(pickle.dumps(definition))  # noqa: S301
        assert copy == definition
        assert (copy.max_attempts, copy.task_id) == (definition.max_attempts, definition.task_id)

    result = tasks.rich.enqueue(1)

    assert pickle.loads(pickle.dumps(result)) == result  # noqa: S301
    assert pickle.loads(pickle.dumps(tasks.rich.get_result(result.id))) == result  # noqa: S301
