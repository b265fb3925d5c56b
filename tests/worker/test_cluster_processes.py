"""The cluster as its users run it: real processes that join, stop, and are killed under load."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from skipper_django.core.partition import partition
from skipper_django.models import Member, Task
from tests import tasks
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks
from tests.worker.conftest import ProcessWorker, skipper_settings

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State

QUICK = {"CLUSTER_HEARTBEAT_INTERVAL": 0.3, "CLUSTER_LIVENESS_WINDOW": 3, "LEASE_DURATION": 60}
THREE = [(0, 334), (334, 667), (667, 1000)]
TWO = [(0, 500), (500, 1000)]


@pytest.fixture
def ranges(alias: str) -> Callable[[], list[tuple[int, int]]]:
    """The ranges that live members show, in the order of their names."""
    rows = Member.objects.using(alias).exclude(state=Member.State.DEAD).order_by("member_id")
    return lambda: list(rows.values_list("range_start", "range_stop"))


@pytest.fixture
def start_member(worker_process: Any) -> Callable[..., ProcessWorker]:
    def start(name: str, **changed: Any) -> ProcessWorker:
        worker: ProcessWorker = worker_process(
            "--member-name", name, "--concurrency", "2", **skipper_settings(**{**QUICK, **changed})
        )
        return worker

    return start


def test_a3_a5_a7_a8_three_workers_share_the_queue_through_stop_and_kill(
    alias: str, enqueue: Any, start_member: Any, ranges: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    workers = {name: start_member(name, STEAL_AFTER=None) for name in ("a", "b", "c")}
    wait_until(lambda: ranges() == THREE, 40, "three ranges")
    rows = [enqueue(worker_tasks.record, str(path), str(n)) for n in range(60)]
    done = Task.objects.using(alias).filter(status=State.SUCCESSFUL)
    wait_until(lambda: done.count() == 60, 40)

    owners = partition(["a", "b", "c"])
    assert all(row.bucket in owners[row.worker_ids.strip()] for row in done.all())
    assert Counter(worker_tasks.lines(path)) == Counter(str(n) for n in range(60))

    workers["a"].send(signal.SIGTERM)
    assert workers["a"].wait() == 0
    wait_until(lambda: ranges() == [(0, 500), (500, 1000)], 10, "survivors take the range")
    assert not Member.objects.using(alias).filter(member_id="a").exists()

    # The whole host goes: nobody can see that the processes are gone.
    killed = Member.objects.using(alias).filter(member_id="b")
    workers["b"].process.kill()
    killed.update(host_key="another host")
    os.kill(killed.get().pid, signal.SIGKILL)
    more = [enqueue(worker_tasks.record, str(path), f"more {n}") for n in range(20)]
    wait_until(lambda: done.count() == 80, 30, "the range of the dead is taken over")
    assert {row.worker_ids for row in done.filter(pk__in=[row.pk for row in more])} == {"c\n"}
    assert len(worker_tasks.lines(path)) == 80
    assert len(rows) == 60


@pytest.mark.case("R14")
def test_a8_what_a_killed_process_ran_runs_elsewhere_at_once_on_the_same_host(
    enqueue: Any, start_member: Any, wait_for_state: Any, pid_of: Any, fresh: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    members = {name: start_member(name) for name in ("a", "b")}
    for member in members.values():
        member.wait_for_log("started")
    row = enqueue(worker_tasks.slow, str(path), "task", 2.0)
    wait_until(lambda: worker_tasks.lines(path))
    holder = fresh(row).worker_ids.strip()
    (other,) = set(members) - {holder}
    victim = pid_of(fresh(row))
    members[holder].process.kill()

    os.kill(victim, signal.SIGKILL)
    row = wait_for_state(row, State.SUCCESSFUL, 20)

    assert row.worker_ids.splitlines() == [holder, other]
    assert (row.attempts, row.lost_leases) == (2, 1)


def test_a18_a_rolling_restart_loses_and_doubles_nothing(
    alias: str, enqueue: Any, start_member: Any, ranges: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    names = ("a", "b", "c")
    workers = {name: start_member(name) for name in names}
    wait_until(lambda: ranges() == THREE, 40)
    number = 0
    for name in names:
        for _ in range(15):
            enqueue(worker_tasks.slow, str(path), str(number), 0.05)
            number += 1
        workers[name].send(signal.SIGTERM)
        assert workers[name].wait() == 0
        workers[name] = start_member(name)
        wait_until(lambda: ranges() == THREE, 40, "all three again")

    done = Task.objects.using(alias).filter(status=State.SUCCESSFUL)
    wait_until(lambda: done.count() == number, 40)

    assert set(done.values_list("attempts", "lost_leases")) == {(1, 0)}
    ends = Counter(line for line in worker_tasks.lines(path) if line.startswith("end"))
    assert ends == Counter(f"end {n}" for n in range(number))


class Pulse:
    """The heartbeats of all members, as often as it looked: the longest time between two of one."""

    def __init__(self, alias: str) -> None:
        self._rows = Member.objects.using(alias)
        self._last: dict[int, datetime] = {}
        self.longest = 0.0

    def look(self) -> None:
        for incarnation, beaten in self._rows.values_list("incarnation", "heartbeat_at"):
            before = self._last.get(incarnation, beaten)
            self.longest = max(self.longest, (beaten - before).total_seconds())
            self._last[incarnation] = beaten


@pytest.mark.slow
def test_a18_no_gap_of_a_rolling_restart_is_longer_than_an_interval(
    alias: str, enqueue: Any, start_member: Any, ranges: Any
) -> None:
    """Whatever becomes ready while three members are replaced, an heir has it one heartbeat later.

    An interval is what it really was: a machine that holds up the tasks holds up the heartbeats,
    too. A second is added for what follows a heartbeat: a poll, the start of the task. Without
    the hand-over a task would wait for the liveness window, as nobody steals.
    `python -m benchmarks --only rolling` has the figure itself.
    """
    interval, names = 1.0, ("a", "b", "c")
    settings = {
        "CLUSTER_HEARTBEAT_INTERVAL": interval,
        "CLUSTER_LIVENESS_WINDOW": 60,
        "STEAL_AFTER": None,
    }
    workers = {name: start_member(name, **settings) for name in names}
    wait_until(lambda: ranges() == THREE, 40)
    pulse = Pulse(alias)

    def trickle(fact: Callable[[], bool]) -> bool:
        enqueue(tasks.noop)
        pulse.look()
        return fact()

    for name in names:
        worker = workers[name]
        worker.send(signal.SIGTERM)
        wait_until(lambda w=worker: trickle(lambda: w.process.poll() is not None), 40)  # type: ignore[misc]
        assert worker.wait() == 0
        wait_until(lambda: trickle(lambda: ranges() == TWO), 40, "the survivors' ranges")
        workers[name] = start_member(name, **settings)
        wait_until(lambda: trickle(lambda: ranges() == THREE), 40, "all three again")

    rows = Task.objects.using(alias)
    wait_until(lambda: not rows.exclude(status=State.SUCCESSFUL).exists(), 40)
    assert set(rows.values_list("attempts", "lost_leases")) == {(1, 0)}
    assert {row.bucket * 3 // 1000 for row in rows} == {0, 1, 2}
    waits = [(row.started_at - row.run_after).total_seconds() for row in rows if row.started_at]
    assert len(waits) == rows.count()
    assert max(waits) <= pulse.longest + 1


def test_a12_a_chosen_name_in_use_ends_the_command_with_a_clear_error(
    start_member: Any, enqueue: Any, wait_for_state: Any
) -> None:
    start_member("web")
    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)

    second = start_member("web")

    assert second.wait() == 78
    assert "member name 'web' is in use by process" in second.log
    assert "Traceback" not in second.log


def test_children_are_members_and_a_killed_child_takes_its_name_back_at_once(
    alias: str, worker_process: Any, ranges: Any
) -> None:
    worker_process("--processes", "2", "--member-name", "w", **skipper_settings(**QUICK))
    wait_until(lambda: ranges() == [(0, 500), (500, 1000)], 40)
    rows = Member.objects.using(alias)
    assert list(rows.order_by("member_id").values_list("member_id", flat=True)) == ["w-1", "w-2"]
    before = rows.get(member_id="w-1")

    os.kill(before.pid, signal.SIGKILL)

    wait_until(
        lambda: rows.filter(member_id="w-1").exclude(incarnation=before.incarnation).exists(),
        20,
        "the replacement has the name of the dead",
    )
    assert rows.count() == 2
