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

from skipper_django.models import Member, Task
from tests import tasks
from tests.proxy import Proxy
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks
from tests.worker.conftest import ProcessWorker, skipper_settings

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
State = Task.State

SHORT = {"LEASE_DURATION": 2, "CLUSTER_HEARTBEAT_INTERVAL": 1, "CLUSTER_LIVENESS_WINDOW": 3}
HELD = "a task holds the interpreter"
FREE = "has its interpreter back"


@pytest.fixture
def short() -> dict[str, str]:
    """Leases and a liveness window that a few seconds of silence would end."""
    return skipper_settings(**SHORT)


def state_of(pid: int) -> str:
    """The system's letter for it; empty if it is gone or only waits to be reaped."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    return "" if letter in "ZX" else letter


def children_of(pid: int) -> set[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return {int(child) for child in path.read_text().split()}


def stand_in_of(worker: ProcessWorker, alias: str) -> int:
    members = set(Member.objects.using(alias).values_list("pid", flat=True))
    (pid,) = children_of(worker.process.pid) - members
    return pid


def beaten(alias: str) -> Any:
    return Member.objects.using(alias).order_by("started_at")[0].heartbeat_at


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


@pytest.mark.parametrize("held", [False, True], ids=["idle", "held"])
def test_a_stopped_command_leaves_no_process(
    alias: str, enqueue: Any, worker_process: Any, tmp_path: Path, short: Any, held: bool
) -> None:
    path = tmp_path / "log"
    worker = worker_process("--processes", "2", **short)
    if held:
        enqueue(worker_tasks.hold_interpreter, str(path), "task", 4.0)
        worker.wait_for_log(HELD)
    wait_until(lambda: Member.objects.using(alias).count() == 2)
    children = children_of(worker.process.pid)
    assert len(children) == 3
    wait_until(lambda: ignores(stand_in_of(worker, alias), signal.SIGTERM, signal.SIGINT))
    for pid in children:  # as systemd does: to all of them
        os.kill(pid, signal.SIGTERM)

    worker.send(signal.SIGTERM)

    started = time.monotonic()
    assert worker.wait() == 0
    assert time.monotonic() - started < 4 + 4 * held
    assert not any(map(state_of, children))
    assert not held or worker_tasks.lines(path) == ["start task", "end task"]


def ignores(pid: int, *numbers: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(next(line.split()[1] for line in status.splitlines() if "SigIgn" in line), 16)
    return all(mask >> number - 1 & 1 for number in numbers)


def test_a_killed_supervisor_leaves_no_process(
    alias: str, enqueue: Any, worker_process: Any, wait_for_state: Any, tmp_path: Path, short: Any
) -> None:
    row = enqueue(worker_tasks.hold_interpreter, str(tmp_path / "log"), "task", 12.0)
    worker = worker_process(**short)
    worker.wait_for_log(HELD)
    worker_process(**short)
    wait_until(lambda: Member.objects.using(alias).count() == 2)
    children = children_of(worker.process.pid)

    worker.process.kill()
    worker.wait()

    # The task holds on, and its stand-in with it; then all of them end.
    row = wait_for_state(row, State.SUCCESSFUL, 40)
    assert row.lost_leases == 0
    wait_until(lambda: not any(map(state_of, children)), 20, "worker and stand-in have ended")


def test_a_killed_stand_in_is_replaced(
    alias: str, enqueue: Any, worker_process: Any, wait_for_state: Any, tmp_path: Path, short: Any
) -> None:
    worker = worker_process(**short)
    wait_until(lambda: Member.objects.using(alias).count() == 1)
    row = enqueue(worker_tasks.hold_interpreter, str(tmp_path / "log"), "task", 8.0)
    worker.wait_for_log(HELD)

    os.kill(stand_in_of(worker, alias), signal.SIGKILL)

    row = wait_for_state(row, State.SUCCESSFUL, 40)
    assert "stand-in process" in worker.log
    assert (worker.log.count(HELD), row.lost_leases, row.attempts) == (2, 0, 1)


def test_it_has_no_session_while_its_worker_is_well(
    alias: str, enqueue: Any, worker_process: Any, wait_for_state: Any, tmp_path: Path, short: Any
) -> None:
    worker = worker_process(**short)
    wait_until(lambda: Member.objects.using(alias).count() == 1)
    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)
    pid = stand_in_of(worker, alias)
    before = beaten(alias)
    wait_until(lambda: beaten(alias) > before)

    assert links_of(pid) == set()
    enqueue(worker_tasks.hold_interpreter, str(tmp_path / "log"), "task", 4.0)
    worker.wait_for_log(HELD)
    wait_until(lambda: links_of(pid))
    worker.wait_for_log(FREE)
    wait_until(lambda: not links_of(pid))


def links_of(pid: int) -> set[str]:
    """What it has open that may lead to a database: sockets, and the file of SQLite."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith("socket:") or "test_skipper" in target:
            found.add(target)
    return found


def test_it_survives_an_outage(
    proxy: Proxy,
    through: Any,
    enqueue: Any,
    worker_process: Any,
    wait_for_state: Any,
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    settings = skipper_settings(**SHORT | {"LEASE_DURATION": 6})
    row = enqueue(worker_tasks.hold_interpreter, str(path), "task", 12.0)
    worker = worker_process(**settings, **through)
    worker.wait_for_log(HELD)
    proxy.down()
    worker.wait_for_log("database unavailable while trying to stand in")

    proxy.up()

    worker.wait_for_log("database is back: can stand in")
    row = wait_for_state(row, State.SUCCESSFUL, 40)
    assert (row.attempts, row.lost_leases) == (1, 0)
    assert worker_tasks.lines(path) == ["start task", "end task"]
    assert "died" not in worker.log


def test_a_timeout_is_stored_after_an_outage_by_another_stand_in_if_need_be(
    alias: str,
    proxy: Proxy,
    through: Any,
    enqueue: Any,
    worker_process: Any,
    fresh: Any,
    pid_of: Any,
    wait_for_state: Any,
    tmp_path: Path,
) -> None:
    settings = skipper_settings(**SHORT | {"LEASE_DURATION": 40})
    row = enqueue(worker_tasks.hold_past_timeout, str(tmp_path / "log"), 60.0)
    worker = worker_process(**settings, **through)
    worker.wait_for_log(HELD)
    victim = pid_of(fresh(row))
    stand_in = stand_in_of(worker, alias)
    proxy.down()
    wait_until(lambda: state_of(victim) == "T", 20, "its worker is stopped")
    os.kill(stand_in, signal.SIGKILL)
    worker.wait_for_log("stand-in process")
    assert state_of(victim) == "T"

    proxy.up()

    row = wait_for_state(row, State.FAILED, 40)
    assert (row.reason, row.attempts, row.lost_leases) == ("timeout", 1, 0)
    wait_until(lambda: not state_of(victim))
    assert wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL).lost_leases == 0
