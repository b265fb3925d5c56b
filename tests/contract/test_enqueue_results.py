"""What enqueue answers, and what get_result, refresh and their async twins read back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from skipper_django.backend import SkipperBackend
from skipper_django.compat import (
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
)
from skipper_django.models import Task
from skipper_django.testing import frozen_clock, run_ready
from tests.contract import tasks

START = datetime(2026, 1, 1, tzinfo=UTC)
MALFORMED = {
    "empty": "",
    "too long": "x" * 256,
    "surrogate": "\ud800",
    "NUL": "a\0b",
    "number": 5,
    "None": None,
    "bytes": b"id",
    "list": ["id"],
}


@pytest.mark.parametrize(
    "flag",
    [
        "supports_defer",
        "supports_async_task",
        "supports_get_result",
        "supports_priority",
    ],
)
def test_every_feature_flag_is_set(flag: str) -> None:
    assert getattr(task_backends["default"], flag) is True


def test_enqueue_answers_with_every_attribute(queue: str) -> None:
    with frozen_clock(database=queue):
        result = tasks.rich.enqueue([1, {"a": None}], value="é")

    assert result.task == tasks.rich
    assert result.id
    assert isinstance(result.id, str)
    assert len(result.id) <= 64
    assert result.status == TaskResultStatus.READY
    assert result.enqueued_at == START
    assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
    assert (result.args, result.kwargs) == ([[1, {"a": None}]], {"value": "é"})
    assert (result.backend, result.errors, result.worker_ids) == ("default", [], [])
    assert (result.attempts, result.is_finished) == (0, False)
    with pytest.raises(ValueError, match="not finished"):
        result.return_value  # noqa: B018


def test_get_result_reads_back_what_enqueue_answered(queue: str) -> None:
    tomorrow = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    deferred = tasks.rich.using(run_after=tomorrow, priority=-100, queue_name="other")

    enqueued = deferred.enqueue(1, value=[2.5, "x"])

    assert tasks.rich.get_result(enqueued.id) == enqueued
    assert tasks.rich.get_result(enqueued.id).task == deferred


def test_the_async_calls_do_what_the_sync_ones_do(queue: str) -> None:
    enqueued = async_to_sync(tasks.other.aenqueue)(1, value=2)

    assert async_to_sync(tasks.other.aget_result)(enqueued.id) == enqueued
    run_ready()
    async_to_sync(enqueued.arefresh)()
    assert enqueued == tasks.other.get_result(enqueued.id)
    assert enqueued.errors[0].exception_class is TypeError  # two values for one parameter


def test_refresh_follows_a_task_to_its_end(queue: str) -> None:
    with frozen_clock(database=queue) as clock:
        result = tasks.until_third.enqueue()
        clock.advance(1)
        run_ready()
        result.refresh()
        assert (result.status, result.attempts) == (TaskResultStatus.READY, 1)
        assert result.finished_at is None
        assert [error.exception_class for error in result.errors] == [OSError]

        for _ in range(2):
            clock.advance(10)
            run_ready()
        result.refresh()

    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3)
    assert result.worker_ids == ["testing"] * 3
    assert "attempt 2" in result.errors[1].traceback
    assert len(result.errors) == 2
    assert result.enqueued_at == START
    assert result.started_at == START + timedelta(seconds=1)
    assert result.last_attempted_at == result.finished_at == START + timedelta(seconds=21)


def test_a_running_task_reads_as_running(queue: str) -> None:
    result = tasks.other.enqueue()
    Task.objects.using(queue).update(
        status=Task.State.RUNNING, lease_expires_at=START, worker_ids="a\n", started_at=START
    )

    result.refresh()

    assert result.status == TaskResultStatus.RUNNING
    assert not result.is_finished
    assert (result.worker_ids, result.started_at) == (["a"], START)


def test_a_cancelled_task_reads_as_failed(queue: str) -> None:
    result = tasks.other.enqueue()
    Task.objects.using(queue).update(status=Task.State.CANCELLED)

    result.refresh()

    assert result.status == TaskResultStatus.FAILED
    with pytest.raises(ValueError, match="failed"):
        result.return_value  # noqa: B018


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_id_does_not_exist(queue: str, malformed: Any) -> None:
    backend = task_backends["default"]

    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(malformed)
    with pytest.raises(TaskResultDoesNotExist):
        async_to_sync(backend.aget_result)(malformed)


@pytest.mark.parametrize("change", [str.upper, lambda text: text + " ", lambda text: text[:-1]])
def test_an_id_is_matched_exactly(queue: str, change: Any) -> None:
    result = tasks.other.using(task_id="welcome-é").enqueue()

    with pytest.raises(TaskResultDoesNotExist):
        tasks.other.get_result(change(result.id))


def test_the_result_of_another_task_is_a_mismatch(queue: str) -> None:
    result = tasks.other.enqueue()

    with pytest.raises(TaskResultMismatch):
        tasks.rich.get_result(result.id)
    with pytest.raises(TaskResultMismatch):
        async_to_sync(tasks.rich.aget_result)(result.id)


def test_refreshing_a_pruned_task_says_that_it_does_not_exist(queue: str) -> None:
    result = tasks.other.enqueue()
    Task.objects.using(queue).all().delete()

    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


def test_every_coroutine_gets_a_backend_that_works(queue: str) -> None:
    async def enqueue_three() -> list[Any]:
        return [await asyncio.create_task(tasks.other.aenqueue(number)) for number in range(3)]

    results = async_to_sync(enqueue_three)()

    assert [tasks.other.get_result(result.id).args for result in results] == [[0], [1], [2]]


def test_a_backend_is_made_without_a_database() -> None:
    backend = SkipperBackend("any", {"QUEUES": ["a"], "OPTIONS": {"DATABASE": "nowhere"}})

    assert backend.queues == {"a"}
    assert SkipperBackend("any", {}).queues == {"default"}
    assert SkipperBackend("any", {}).check() == []
