"""Tasks that wait: in threads, and in the event loop."""

from __future__ import annotations

from benchmarks.effects import middle_rate
from benchmarks.processes import worker
from benchmarks.queue import Bench, Figures, medians
from benchmarks.tasks import sleep_a_millisecond, sleep_a_tenth
from skipper_django.registry import SkipperTask

THREADS, AT_ONCE = 32, 2_000


def measure(bench: Bench) -> Figures:
    def both() -> Figures:
        return {
            "sleeping_threads": _rate(bench, sleep_a_millisecond, THREADS),
            "sleeping_async": _rate(bench, sleep_a_tenth, AT_ONCE),
        }

    return medians(both, bench.plan.repeats)


def _rate(bench: Bench, task: SkipperTask, concurrency: int) -> float:
    """Tasks a second of one process."""
    count = bench.plan.sleepers
    bench.clear()
    bench.fill(count, task)
    with worker(bench.target.directory, "--drain", "--concurrency", str(concurrency)) as running:
        running.wait()
    bench.check(count)
    return middle_rate(bench.effects.check(range(count)))
