"""An idle worker: how soon it picks up a task, and what it costs meanwhile."""

from __future__ import annotations

import random
import time
from statistics import median

from benchmarks.databases import StatementCounter
from benchmarks.processes import bare_django, cpu_seconds, wait_until, worker
from benchmarks.queue import Bench, Figures, percentile
from benchmarks.tasks import noop

# Long enough for a worker that polls less and less often to have come to rest.
REST_SECONDS = (0.3, 0.8)


def measure(bench: Bench) -> Figures:
    plan = bench.plan
    bench.clear()
    with StatementCounter(bench.target) as counter, worker(bench.target.directory) as running:
        latencies = [_pick_up(bench, number) for number in range(plan.samples + 1)][1:]
        time.sleep(plan.rest_seconds)
        child = running.child()
        begun, cpu, statements = time.monotonic(), cpu_seconds(child), counter.read()
        time.sleep(plan.idle_seconds)
        seconds = time.monotonic() - begun
        cpu, statements = cpu_seconds(child) - cpu, counter.read() - statements
        running.stop()
    bench.check(plan.samples + 1)
    return {
        "pick_up_p50": percentile(latencies, 50) * 1000,
        "pick_up_p99": percentile(latencies, 99) * 1000,
        "idle_statements": statements / seconds,
        "idle_cpu": 100 * cpu / seconds,
    }


def _pick_up(bench: Bench, number: int) -> float:
    """From the commit of an enqueue to the start of its task, at a random moment."""
    time.sleep(random.uniform(*REST_SECONDS))
    noop.enqueue(number)
    committed = time.monotonic()
    wait_until(lambda: len(bench.effects) > number)
    return max(0.0, bench.effects.read()[-1].started - committed)


def measure_start(bench: Bench) -> Figures:
    """What Django itself takes to start: the part of a worker's start that is not ours."""
    starts = [bare_django() for _ in range(bench.plan.repeats)]
    return {
        "django_start": median(seconds for seconds, _ in starts),
        "django_memory": median(megabytes for _, megabytes in starts),
    }
