"""A project's tests see what production will do: eager backend and run_ready() behave alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import TestCase

from skipper_django import enqueue_many
from skipper_django.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
)
from skipper_django.core.errors import NotSerializable
from skipper_django.models import Task
from skipper_django.testing import ManualClock, frozen_clock, run_ready
from tests.contract import tasks

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.case("R41")
BACKENDS = {
    "eager": "skipper_django.testing.EagerBackend",
    "run_ready": "skipper_django.backend.SkipperBackend",
}


@pytest.fixture(params=BACKENDS)
def run(queue: str, settings: Settings, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Enqueue a task and have it run, as the backend under test does it; its result then."""
    settings.TASKS = {
        "default": {"BACKEND": BACKENDS[request.param], "QUEUES": ["default", "mail"]}
    }

    def run(task: Any, *args: Any, **kwargs: Any) -> Any:
        result = task.enqueue(*args, **kwargs)
        if request.param == "run_ready":
            run_ready()
            result.refresh()
        return result

    return run


@pytest.fixture
def clock(queue: str) -> Iterator[ManualClock]:
    with frozen_clock() as clock:
        yield clock


def test_a_task_runs_and_its_result_is_there(run: Callable[..., Any]) -> None:
    result = run(tasks.other, {"a": [1]})

    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, {"a": [1]})
    assert tasks.other.get_result(result.id) == result
    assert result.worker_ids == ["testing"]


@pytest.mark.parametrize(
    "value",
    [object(), (1,), b"x", float("nan"), "\ud800", {1: 1}],
    ids=lambda value: type(value).__name__,
)
def test_bad_arguments_are_refused(run: Callable[..., Any], value: Any, queue: str) -> None:
    with pytest.raises(NotSerializable, match="argument 0"):
        run(tasks.other, value)

    assert not Task.objects.using(queue).exists()


def test_arguments_are_copies(run: Callable[..., Any]) -> None:
    tasks.calls.clear()
    items: list[Any] = [1]

    result = run(tasks.mutate, items, {})

    assert (items, tasks.calls, result.args) == ([1], [([1], {})], [[1], {}])


@pytest.mark.parametrize("kind", ["value", "exit", "base"])
def test_exceptions_become_results(run: Callable[..., Any], kind: str) -> None:
    result = run(tasks.raises, kind)

    assert result.status == TaskResultStatus.FAILED
    assert len(result.errors) == 1


def test_wrong_arguments_fail_in_the_task(run: Callable[..., Any]) -> None:
    assert run(tasks.other, 1, 2, 3).errors[0].exception_class is TypeError


def test_results_that_cannot_be_kept_fail(run: Callable[..., Any]) -> None:
    assert run(tasks.returns, "nan").status == TaskResultStatus.FAILED


def test_retries_wait_for_their_time(run: Callable[..., Any], clock: ManualClock) -> None:
    result = run(tasks.until_third)
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 1)

    clock.advance(9.9)
    assert run_ready() == 0
    clock.advance(0.1)
    assert run_ready() == 1
    clock.advance(10)
    assert run_ready() == 1

    result.refresh()
    assert (result.return_value, result.attempts) == (3, 3)


def test_delayed_tasks_wait_for_their_time(run: Callable[..., Any], clock: ManualClock) -> None:
    from datetime import timedelta

    result = run(tasks.other.using(run_after=clock.now() + timedelta(days=1)), 1)
    assert result.status == TaskResultStatus.READY

    clock.advance(24 * 3600)
    assert run_ready() == 1
    result.refresh()
    assert result.return_value == 1


def test_an_id_runs_once(run: Callable[..., Any]) -> None:
    first = run(tasks.other.using(task_id="once"), 1)
    again = run(tasks.other.using(task_id="once"), 2)

    assert (again.return_value, again.attempts) == (1, 1)
    assert again.finished_at == first.finished_at


def test_what_is_invalid_is_refused(run: Callable[..., Any]) -> None:
    options: dict[str, Any]
    for options in ({"queue_name": "nowhere"}, {"priority": 101}, {"priority": "5"}):
        with pytest.raises(InvalidTask):
            run(tasks.other.using(**options), 1)
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result("unknown")
    assert run(tasks.other.using(priority=100), 1).return_value == 1
    assert run(tasks.other.using(priority=-100), 1).return_value == 1


def test_tasks_of_tasks_run_too(run: Callable[..., Any]) -> None:
    result = run(tasks.enqueues, "inner")

    assert tasks.other.get_result(result.return_value).return_value == "inner"


@pytest.mark.parametrize("task", [tasks.awaited, tasks.awaited_badly], ids=["returns", "raises"])
def test_async_tasks_run(run: Callable[..., Any], task: Any) -> None:
    result = run(task, *([5] if task is tasks.awaited else []))

    assert result.is_finished
    assert result.attempts == 1


def test_a_task_that_breaks_the_transaction_of_the_test_is_a_failure(
    run: Callable[..., Any], queue: str
) -> None:
    Group.objects.using(queue).create(name="before")

    result = run(tasks.breaks_the_transaction, queue)

    assert result.status == TaskResultStatus.FAILED
    assert "a_table_that_is_not_there" in result.errors[0].traceback
    assert Group.objects.using(queue).exists()
    assert run(tasks.other, 1).return_value == 1


def test_what_a_task_wrote_before_it_failed_stays(run: Callable[..., Any], queue: str) -> None:
    run(tasks.writes_and_fails, queue)

    assert Group.objects.using(queue).filter(name="written").exists()


def test_a_task_that_marks_its_transaction_is_a_failure(
    run: Callable[..., Any], queue: str
) -> None:
    result = run(tasks.saves_twice, queue)

    assert result.status == TaskResultStatus.FAILED
    assert "IntegrityError" in result.errors[0].exception_class_path
    assert run(tasks.other, 1).return_value == 1


def test_a_rollback_takes_an_eager_run_with_it(run: Callable[..., Any], queue: str) -> None:
    with transaction.atomic(queue):
        run(tasks.other, 1)
        transaction.set_rollback(True, queue)

    assert not Task.objects.using(queue).exists()


def test_enqueue_many_runs_all(run: Callable[..., Any]) -> None:
    results = enqueue_many([(tasks.other, [1]), (tasks.raises, ["value"])])
    run_ready()
    for result in results:
        result.refresh()

    assert [str(result.status) for result in results] == ["SUCCESSFUL", "FAILED"]


def test_run_ready_stops_at_its_limit(queue: str) -> None:
    enqueue_many([(tasks.other, [number]) for number in range(5)])

    assert [run_ready(limit=3), run_ready(), run_ready()] == [3, 2, 0]


def test_the_clock_is_real_again_after_the_block(queue: str) -> None:
    with frozen_clock() as clock:
        frozen = tasks.other.enqueue(1)
        assert frozen.enqueued_at == clock.now()

    later: Any = tasks.other.enqueue(1).enqueued_at
    assert later > frozen.enqueued_at


class InsideATestCase(TestCase):
    def test_tasks_run_and_time_moves(self) -> None:
        with frozen_clock() as clock:
            result = tasks.until_third.enqueue()
            for _ in range(3):
                self.assertEqual(run_ready(), 1)  # noqa: PT009
                clock.advance(10)
        result.refresh()
        self.assertEqual(result.return_value, 3)  # noqa: PT009

    def test_on_commit_enqueues_run_when_captured(self) -> None:
        with self.captureOnCommitCallbacks(execute=True):
            transaction.on_commit(lambda: tasks.other.enqueue(1))
        self.assertEqual(run_ready(), 1)  # noqa: PT009
