"""Workers are killed in the middle of a task; another finishes it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from skipper_django.models import Task
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State


@pytest.mark.case("R14")
def test_another_worker_finishes_what_a_killed_one_ran(
    enqueue: Any,
    worker_process: Any,
    fresh: Any,
    pid_of: Any,
    wait_for_state: Any,
    tmp_path: Path,
    short_lease: Any,
) -> None:
    path = tmp_path / "log"
    row = enqueue(worker_tasks.slow, str(path), "task", 2.0)
    first = worker_process(**short_lease)
    wait_until(lambda: worker_tasks.lines(path) == ["start task"])
    victim = pid_of(fresh(row))
    first.process.kill()
    os.kill(victim, signal.SIGKILL)

    worker_process(**short_lease)
    row = wait_for_state(row, State.SUCCESSFUL, 40)

    assert worker_tasks.lines(path) == ["start task", "start task", "end task"]
    assert (row.attempts, row.lost_leases) == (2, 1)
    assert len(row.worker_ids.splitlines()) == 2


@pytest.mark.case("R15")
def test_a_task_of_several_leases_runs_once(
    enqueue: Any, worker_process: Any, wait_for_state: Any, tmp_path: Path, short_lease: Any
) -> None:
    path = tmp_path / "log"
    row = enqueue(worker_tasks.slow, str(path), "task", 5.0)
    worker_process(**short_lease)
    worker_process(**short_lease)

    row = wait_for_state(row, State.SUCCESSFUL, 40)

    assert worker_tasks.lines(path) == ["start task", "end task"]
    assert (row.attempts, row.lost_leases) == (1, 0)


@pytest.mark.case("R16")
@pytest.mark.timeout(180)
def test_a_task_that_kills_its_worker_is_given_up_after_three(
    enqueue: Any, worker_process: Any, wait_for_state: Any, tmp_path: Path, short_lease: Any
) -> None:
    path = tmp_path / "log"
    row = enqueue(worker_tasks.kill_own_process, str(path))
    beside = enqueue(worker_tasks.record, str(path), "beside")
    worker = worker_process("--concurrency", "1", **short_lease)

    row = wait_for_state(row, State.FAILED, 90)

    assert (row.reason, row.lost_leases, row.attempts) == ("worker_lost", 3, 3)
    assert len([line for line in worker_tasks.lines(path) if line.startswith("start")]) == 3
    assert all(worker_id in row.errors for worker_id in row.worker_ids.splitlines())
    assert wait_for_state(beside, State.SUCCESSFUL).lost_leases == 0
    assert worker.log.count("died (SIGKILL)") == 3


@pytest.mark.timeout(180)
def test_a_task_that_kills_its_worker_takes_no_neighbour_with_it(
    enqueue: Any, worker_process: Any, wait_for_state: Any, tmp_path: Path, short_lease: Any
) -> None:
    path = str(tmp_path / "log")
    # Claimed together, and again: whoever runs beside it loses as many leases.
    neighbours = [enqueue(worker_tasks.slow, path, str(number), 1.0) for number in range(3)]
    poison = enqueue(worker_tasks.kill_own_process, path)

    worker_process("--concurrency", "4", **short_lease)

    assert wait_for_state(poison, State.FAILED, 90).reason == "worker_lost"
    rows = [wait_for_state(row, State.SUCCESSFUL, 60) for row in neighbours]
    assert {row.lost_leases for row in rows} == {2}


def test_a_frozen_worker_s_late_result_is_refused(
    enqueue: Any,
    worker_process: Any,
    fresh: Any,
    pid_of: Any,
    wait_for_state: Any,
    tmp_path: Path,
    short_lease: Any,
) -> None:
    path = tmp_path / "log"
    row = enqueue(worker_tasks.slow, str(path), "task", 2.0)
    frozen = worker_process(**short_lease)
    wait_until(lambda: worker_tasks.lines(path) == ["start task"])
    victim = pid_of(fresh(row))
    os.kill(victim, signal.SIGSTOP)
    try:
        worker_process(**short_lease)
        finished = wait_for_state(row, State.SUCCESSFUL, 40)
    finally:
        os.kill(victim, signal.SIGCONT)

    frozen.wait_for_log("lost its lease; its outcome will be discarded")

    assert fresh(row).finished_at == finished.finished_at
    assert (fresh(row).attempts, fresh(row).lost_leases) == (2, 1)


@pytest.mark.timeout(180)
def test_a_drain_whose_processes_keep_dying_ends_and_says_so(
    enqueue: Any, worker_process: Any, fresh: Any
) -> None:
    rows = [enqueue(worker_tasks.exit_process) for _ in range(6)]

    worker = worker_process("--drain", "--concurrency", "1")

    assert worker.wait(60) == 1
    assert worker.log.count("a new one starts in") == 3
    assert "and is not replaced again" in worker.log
    assert all(fresh(row).status != State.SUCCESSFUL for row in rows)
