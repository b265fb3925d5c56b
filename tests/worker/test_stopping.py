"""SIGTERM, SIGINT and twice of either, in real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skipper_django.models import Member, Task
from tests import tasks
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_a_signal_lets_running_tasks_finish_and_hands_back_the_rest(
    number: signal.Signals,
    alias: str,
    enqueue: Any,
    worker_process: Any,
    fresh: Any,
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    rows = [enqueue(worker_tasks.slow, str(path), str(n), 1.5) for n in range(6)]
    worker = worker_process("--concurrency", "2")
    wait_until(lambda: len(worker_tasks.lines(path)) == 2)

    worker.send(number)

    assert worker.wait() == 0
    assert sorted(worker_tasks.lines(path)) == ["end 0", "end 1", "start 0", "start 1"]
    assert [fresh(row).status for row in rows] == [State.SUCCESSFUL] * 2 + [State.READY] * 4
    assert [fresh(row).attempts for row in rows] == [1, 1, 0, 0, 0, 0]


def test_what_does_not_finish_in_time_is_released_uncounted(
    enqueue: Any, worker_process: Any, fresh: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    row = enqueue(worker_tasks.slow, str(path), "long", 60)
    worker = worker_process("--shutdown-timeout", "0.5")
    wait_until(lambda: worker_tasks.lines(path))

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    assert fresh(row).status == State.READY
    assert (fresh(row).attempts, fresh(row).worker_ids, fresh(row).started_at) == (0, "", None)
    assert fresh(row).lost_leases == 0


def test_a_second_signal_does_not_wait(
    enqueue: Any, worker_process: Any, fresh: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    row = enqueue(worker_tasks.slow, str(path), "long", 60)
    worker = worker_process("--shutdown-timeout", "60")
    wait_until(lambda: worker_tasks.lines(path))
    worker.send(signal.SIGTERM)
    worker.wait_for_log("draining")

    worker.send(signal.SIGTERM)

    assert worker.wait(10) == 1
    assert (fresh(row).status, fresh(row).attempts) == (State.READY, 0)


def test_an_idle_worker_stops_at_once_and_says_little(worker_process: Any) -> None:
    worker = worker_process()
    worker.wait_for_log("started")

    worker.send(signal.SIGTERM)

    assert worker.wait(10) == 0
    assert len(worker.log.splitlines()) == 3, worker.log


def test_each_of_several_processes_takes_part_and_stops(
    alias: str, enqueue: Any, worker_process: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    worker = worker_process("--processes", "3", "--concurrency", "1")
    wait_until(lambda: Member.objects.using(alias).count() == 3, 30, "three members")
    for number in range(60):
        enqueue(worker_tasks.slow, str(path), str(number), 0.05)
    done = Task.objects.using(alias).filter(status=State.SUCCESSFUL)
    wait_until(lambda: done.count() == 60, 40, "all are done")

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    assert len(set(done.values_list("worker_ids", flat=True))) == 3


def test_a_worker_whose_supervisor_was_killed_stops(
    enqueue: Any, worker_process: Any, wait_for_state: Any, tmp_path: Path
) -> None:
    worker = worker_process()
    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)

    worker.process.kill()

    worker.wait_for_log("the supervisor is gone, stopping")
    worker.wait_for_log("stopped")


HANDLER_UNDER_FIRE = """
import sys
from skipper_django.worker.shutdown import Shutdown
shutdown = Shutdown()
shutdown.listen()
print("ready", flush=True)
sys.stdin.readline()
print(shutdown.forced.is_set(), flush=True)
"""


def test_signals_that_interrupt_each_other_s_handler_do_not_block_the_process() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HANDLER_UNDER_FIRE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    for _ in range(3000):
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
    output, _ = process.communicate("\n", timeout=20)

    assert output == "True\n"
