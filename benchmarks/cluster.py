"""Many members: how often they choose the same tasks, and how long a restart leaves tasks alone."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import Sum

from benchmarks.effects import middle_rate
from benchmarks.gate import START_VARIABLE
from benchmarks.processes import Running, wait_until, worker
from benchmarks.queue import Bench, Figures
from benchmarks.settings import SETTINGS_VARIABLE
from benchmarks.tasks import noop
from skipper_django.core.buckets import BUCKETS
from skipper_django.core.states import TaskState
from skipper_django.models import Member, Task
from skipper_django.store.clock import clock_of

ROLLING_MEMBERS = ("a", "b", "c")
HEARTBEAT_SECONDS = 2
SETTINGS = {"CLUSTER_HEARTBEAT_INTERVAL": HEARTBEAT_SECONDS}
TRICKLE_PAUSE_SECONDS = 0.01


def measure_many(bench: Bench) -> Figures:
    """How fast as many members drain, each its own range, and how often they were in the way."""
    figures = _contention(bench, "ranges", {"STEAL_AFTER": None})
    return {f"many_{name}": figures[f"contention_ranges_{name}"] for name in ("rate", "lost")}


def measure_contention(bench: Bench) -> Figures:
    """Lost races of many members with ranges of their own, and of as many without."""
    return {**_contention(bench, "ranges"), **_contention(bench, "whole_queue")}


def _contention(bench: Bench, gate: str, others: dict[str, Any] | None = None) -> Figures:
    """All members have joined before the first of them fetches."""
    plan = bench.plan
    bench.clear()
    bench.fill(plan.contention_tasks)
    start = bench.target.directory / "start"
    start.unlink(missing_ok=True)
    os.environ[START_VARIABLE] = str(start)
    processes = ("--processes", str(plan.members))
    settings = {**SETTINGS, "TASK_PARTITIONING": f"benchmarks.gate.{gate}", **(others or {})}
    with _skipper(settings), worker(bench.target.directory, *processes) as running:
        wait_until(lambda: Member.objects.count() == plan.members)
        _wait_for_heartbeats()  # now each has seen all others
        start.touch()
        wait_until(lambda: len(bench.effects) >= plan.contention_tasks)
        wait_until(lambda: not Task.objects.exclude(status=TaskState.SUCCESSFUL.value).exists())
        _wait_for_heartbeats()  # now each has told all it has counted
        names = ("claimed", "stolen", "lost_races")
        counted = Member.objects.aggregate(**{name: Sum(name) for name in names})
        running.stop()
    bench.check(plan.contention_tasks)
    assert counted["claimed"] >= plan.contention_tasks, counted
    effects = bench.effects.check(range(plan.contention_tasks))
    return {
        f"contention_{gate}_lost": counted["lost_races"],
        f"contention_{gate}_stolen": counted["stolen"],
        f"contention_{gate}_rate": middle_rate(effects),
    }


def _wait_for_heartbeats() -> None:
    """One of each member."""
    now = clock_of("default").now()
    wait_until(lambda: not Member.objects.filter(heartbeat_at__lte=now).exists())


def measure_rolling(bench: Bench) -> Figures:
    """The longest time from ready to start while three members are replaced one by one, repeatedly.

    Nobody steals: whatever becomes ready in the range of one that leaves waits for its heirs. How
    long depends on when their next heartbeat is due, so each is stopped at a random moment.
    """
    bench.clear()
    with _skipper({**SETTINGS, "STEAL_AFTER": None}), contextlib.ExitStack() as workers:
        count = _restart_all(bench, workers)
    bench.check(count)
    times = Task.objects.values_list("run_after", "started_at")
    waits = [started - ready for ready, started in times if started is not None]
    return {"rolling_gap": max(waits).total_seconds(), "rolling_tasks": count}


def _restart_all(bench: Bench, workers: contextlib.ExitStack) -> int:
    """One member after the other, in rounds, under a trickle of tasks; how many tasks that was."""
    numbers = itertools.count()

    def trickle_until(fact: Callable[[], bool]) -> None:
        while not fact():
            noop.enqueue(next(numbers))
            time.sleep(TRICKLE_PAUSE_SECONDS)

    def start(name: str) -> Running:
        directory = bench.target.directory / name
        directory.mkdir(exist_ok=True)
        return workers.enter_context(worker(directory, "--member-name", name))

    running = {name: start(name) for name in ROLLING_MEMBERS}
    wait_until(lambda: _is_settled(3))
    for name in ROLLING_MEMBERS * bench.plan.repeats:
        moment = time.monotonic() + random.uniform(0, HEARTBEAT_SECONDS)
        trickle_until(lambda moment=moment: time.monotonic() >= moment)  # type: ignore[misc]
        old = running[name]
        old.process.send_signal(signal.SIGTERM)
        trickle_until(lambda old=old: old.process.poll() is not None)  # type: ignore[misc]
        old.wait()
        trickle_until(lambda: _is_settled(2))
        running[name] = start(name)
        trickle_until(lambda: _is_settled(3))
    count = next(numbers)
    wait_until(lambda: len(bench.effects) >= count)
    for new in running.values():
        new.stop()
    return count


@contextlib.contextmanager
def _skipper(settings: dict[str, Any]) -> Iterator[None]:
    """Workers that start within have these settings."""
    os.environ[SETTINGS_VARIABLE] = json.dumps(settings)
    try:
        yield
    finally:
        del os.environ[SETTINGS_VARIABLE]


def _is_settled(members: int) -> bool:
    """Do so many members say that they have divided all buckets among them?"""
    rows = list(Member.objects.values_list("range_start", "range_stop"))
    return len(rows) == members and sum(stop - start for start, stop in rows) == BUCKETS
