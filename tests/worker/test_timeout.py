"""A timeout ends the attempt; where nothing can end it, the process is replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skipper_django.models import Task
from skipper_django.worker.options import EXIT_RECYCLE
from tests import tasks
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State


@pytest.mark.parametrize(
    "task", [worker_tasks.loop_for_ever, worker_tasks.async_loop_for_ever], ids=["sync", "async"]
)
def test_a_task_is_ended_at_its_timeout(
    task: Any, enqueue: Any, start_worker: Any, fresh: Any, tmp_path: Path
) -> None:
    row, after = enqueue(task, str(tmp_path / "log")), enqueue(tasks.noop)

    start_worker(drain=True, concurrency=1).join()

    (error,) = json.loads(fresh(row).errors)
    assert (fresh(row).status, fresh(row).reason) == (State.FAILED, "timeout")
    assert error["exception_class_path"] == "skipper_django.core.errors.TaskTimeout"
    assert error["message"] == "ran longer than its timeout of 0.3 s"
    assert fresh(after).status == State.SUCCESSFUL


def test_an_async_task_can_clean_up_when_it_is_cancelled(
    enqueue: Any, start_worker: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    enqueue(worker_tasks.async_loop_for_ever, str(path))

    start_worker(drain=True).join()

    assert worker_tasks.lines(path) == ["start", "cancelled"]


def test_a_timeout_counts_as_an_attempt_and_is_retried(
    enqueue: Any, start_worker: Any, wait_for_state: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    row = enqueue(worker_tasks.timeout_twice, str(path))
    start_worker()

    row = wait_for_state(row, State.FAILED)

    assert row.attempts == 2
    assert worker_tasks.lines(path) == ["start", "start"]


def test_a_task_that_ends_in_time_is_not_disturbed(
    enqueue: Any, start_worker: Any, fresh: Any
) -> None:
    rows = [enqueue(worker_tasks.quick_with_timeout) for _ in range(50)]

    start_worker(drain=True).join()

    assert {json.loads(fresh(row).result) for row in rows} == {7}


@pytest.mark.parametrize("task", [worker_tasks.swallow_timeout, worker_tasks.hang_in_c])
def test_a_stuck_slot_hands_back_the_other_work_and_asks_for_a_new_process(
    task: Any,
    alias: str,
    enqueue: Any,
    start_worker: Any,
    fresh: Any,
    tmp_path: Path,
    short_grace: None,
) -> None:
    row = enqueue(task, str(tmp_path / "log"))
    worker = start_worker(concurrency=1)
    wait_until(lambda: fresh(row).status == State.RUNNING)

    status = worker.join()

    assert status == EXIT_RECYCLE
    assert (fresh(row).status, fresh(row).reason) == (State.FAILED, "timeout")
    assert not Task.objects.using(alias).filter(status=State.RUNNING).exists()
    worker_tasks.let_go.set()


def test_a_process_with_a_stuck_slot_is_replaced_and_the_queue_goes_on(
    enqueue: Any, worker_process: Any, wait_for_state: Any, tmp_path: Path
) -> None:
    stuck = enqueue(worker_tasks.hang_in_c, str(tmp_path / "log"))
    worker = worker_process("--concurrency", "1")
    wait_for_state(stuck, State.RUNNING)
    after = enqueue(tasks.noop)

    after = wait_for_state(after, State.SUCCESSFUL, 40)

    assert wait_for_state(stuck, State.FAILED).reason == "timeout"
    assert "is replaced: a task in it was stuck" in worker.log
    assert "died" not in worker.log
