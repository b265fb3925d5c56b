"""A task holds the interpreter: a stand-in keeps up its member, its leases and its timeout."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from skipper_django.models import Task
from tests import tasks
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks
from tests.worker.conftest import skipper_settings
from tests.worker.processes import (
    FREE,
    HELD,
    beaten,
    state_of,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
State = Task.State


def test_a_task_that_holds_the_interpreter_keeps_its_member_and_its_lease(
    alias: str,
    enqueue: Any,
    worker_process: Any,
    fresh: Any,
    wait_for_state: Any,
    tmp_path: Path,
    short: Any,
) -> None:
    path = tmp_path / "log"
    row = enqueue(worker_tasks.hold_interpreter, str(path), "task", 8.0)
    first = worker_process("--member-name", "holder", **short)
    wait_until(lambda: worker_tasks.lines(path) == ["start task"])
    second = worker_process("--member-name", "other", **short)

    row = wait_for_state(row, State.SUCCESSFUL, 40)

    assert worker_tasks.lines(path) == ["start task", "end task"]
    assert (row.attempts, row.lost_leases, row.worker_ids) == (1, 0, "holder\n")
    assert first.log.count(HELD) == 1
    first.wait_for_log(FREE)
    assert "is dead" not in second.log
    assert "lost its lease" not in first.log
    assert "joined again" not in first.log
    # Its own heartbeats go on, and so does its work.
    before = beaten(alias)
    wait_until(lambda: beaten(alias) > before)
    second.send(signal.SIGTERM)
    assert second.wait() == 0
    assert wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL).worker_ids == "holder\n"


def test_what_waits_behind_it_goes_to_another_worker(
    enqueue: Any,
    worker_process: Any,
    wait_for_state: Any,
    fresh: Any,
    alias: str,
    tmp_path: Path,
    short: Any,
) -> None:
    path = tmp_path / "log"
    # The worker learns that tasks are short, so that it claims ahead; then all of them hang.
    first = worker_process("--member-name", "holder", "--concurrency", "1", **short)
    for _ in range(30):
        enqueue(tasks.noop)
    wait_until(lambda: not Task.objects.using(alias).exclude(status=State.SUCCESSFUL).exists())
    with transaction.atomic(using=alias):
        holding = [
            enqueue(worker_tasks.hold_interpreter, str(path), str(number), 10.0)
            for number in range(2)
        ]
    wait_until(lambda: all(fresh(row).status == State.RUNNING for row in holding))
    first.wait_for_log(HELD)
    worker_process("--member-name", "other", "--concurrency", "1", **short)

    rows = [wait_for_state(row, State.SUCCESSFUL, 60) for row in holding]

    assert [row.lost_leases for row in rows] == [0, 0]
    assert sorted(row.worker_ids for row in rows) == ["holder\n", "other\n"]
    assert len(worker_tasks.lines(path)) == 4


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_timeout_ends_it_all_the_same(
    alias: str,
    enqueue: Any,
    worker_process: Any,
    wait_for_state: Any,
    fresh: Any,
    tmp_path: Path,
    short: Any,
    attempts: int,
) -> None:
    path = tmp_path / "log"
    task = [worker_tasks.hold_past_timeout, worker_tasks.hold_past_timeout_twice][attempts - 1]
    beside = enqueue(worker_tasks.slow, str(path), "beside", 2.0)
    worker = worker_process("--member-name", "holder", "--concurrency", "2", **short)
    wait_until(lambda: worker_tasks.lines(path) == ["start beside"])
    started = time.monotonic()
    row = enqueue(task, str(path), 60.0)

    row = wait_for_state(row, State.FAILED, 40)

    # Its timeout of a second and the grace of five; what the machine is slow by.
    assert time.monotonic() - started < attempts * 6 + 4
    assert (row.reason, row.attempts, row.lost_leases) == ("timeout", attempts, 0)
    errors = json.loads(row.errors)
    assert {error["exception_class_path"] for error in errors} == {
        "skipper_django.core.errors.TaskTimeout"
    }
    assert errors[0]["message"] == (
        "ran on after its timeout of 1 s because the interpreter is held"
    )
    assert worker_tasks.lines(path).count("start past") == attempts
    assert (wait_for_state(beside, State.SUCCESSFUL).lost_leases, fresh(beside).attempts) == (0, 1)
    assert wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL).worker_ids == "holder\n"
    assert worker.log.count("is replaced: a task in it was stuck") == attempts
    assert "died" not in worker.log
    assert worker.log.count("failed (timeout)") == 1


def test_user_code_that_hangs_in_the_stand_in_keeps_no_worker_stopped(
    enqueue: Any, worker_process: Any, wait_for_state: Any, tmp_path: Path, short: Any
) -> None:
    enqueue(worker_tasks.hold_past_timeout_and_in_backoff, str(tmp_path / "log"), 60.0)
    worker = worker_process("--member-name", "holder", **short)
    worker.wait_for_log("stand-in process")

    first = enqueue(tasks.noop.using(priority=10))
    row = wait_for_state(first, State.SUCCESSFUL, 40)

    assert "(SIGALRM)" in worker.log
    assert worker.log.count("is replaced: a task in it was stuck") == 1
    assert row.worker_ids == "holder\n"


def test_a_stopped_worker_is_not_kept_alive(
    enqueue: Any,
    worker_process: Any,
    fresh: Any,
    pid_of: Any,
    wait_for_state: Any,
    tmp_path: Path,
    short: Any,
) -> None:
    path = tmp_path / "log"
    row = enqueue(worker_tasks.hold_interpreter, str(path), "task", 6.0)
    frozen = worker_process("--member-name", "frozen", **short)
    wait_until(lambda: worker_tasks.lines(path) == ["start task"])
    frozen.wait_for_log(HELD)
    victim = pid_of(fresh(row))
    os.kill(victim, signal.SIGSTOP)
    try:
        worker_process("--member-name", "other", **short)
        finished = wait_for_state(row, State.SUCCESSFUL, 40)
        assert state_of(victim) == "T"
    finally:
        os.kill(victim, signal.SIGCONT)

    assert (finished.attempts, finished.lost_leases) == (2, 1)
    assert "is stopped or has ended: its stand-in stands back" in frozen.log
    frozen.wait_for_log("lost its lease; its outcome will be discarded")
    assert fresh(row).finished_at == finished.finished_at


def test_a_killed_worker_is_not_kept_alive(
    enqueue: Any,
    worker_process: Any,
    fresh: Any,
    pid_of: Any,
    wait_for_state: Any,
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    # The lease is long: only whoever knows that its process is gone takes the task back.
    settings = skipper_settings(CLUSTER_HEARTBEAT_INTERVAL=1, CLUSTER_LIVENESS_WINDOW=60)
    row = enqueue(worker_tasks.hold_interpreter, str(path), "task", 6.0)
    worker = worker_process("--member-name", "victim", **settings)
    worker.wait_for_log(HELD)
    victim = pid_of(fresh(row))
    started = time.monotonic()

    os.kill(victim, signal.SIGKILL)

    wait_until(lambda: worker_tasks.lines(path) == ["start task", "start task"])
    assert time.monotonic() - started < 15
    row = wait_for_state(row, State.SUCCESSFUL, 40)
    assert (row.attempts, row.lost_leases) == (2, 1)
    assert "died (SIGKILL)" in worker.log
