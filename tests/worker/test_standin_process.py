"""The stand-in as a process: what it has open, what ends it, what it lives through."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from skipper_django.models import Member, Task
from tests import tasks
from tests.proxy import Proxy
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks
from tests.worker.conftest import skipper_settings
from tests.worker.processes import (
    FREE,
    HELD,
    SHORT,
    beaten,
    children_of,
    ignores,
    links_of,
    stand_in_of,
    state_of,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
State = Task.State


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
