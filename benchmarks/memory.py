"""The resident memory of one worker process, from its first task to its last."""

from __future__ import annotations

from benchmarks.processes import resident_megabytes, wait_until, worker
from benchmarks.queue import Bench, Figures

# Parts of the tasks after which to look; of 100,000 these are 10,000, 50,000 and all.
LOOKS = {"memory_tenth": 0.1, "memory_half": 0.5, "memory_end": 1.0}


def measure(bench: Bench) -> Figures:
    count = bench.plan.memory_tasks
    bench.clear()
    bench.fill(count)
    figures: Figures = {}
    with worker(bench.target.directory) as running:
        wait_until(lambda: len(bench.effects) > 0)
        child = running.child()
        figures["memory_start"] = resident_megabytes(child)
        for name, part in LOOKS.items():
            reached = int(count * part)
            wait_until(lambda reached=reached: len(bench.effects) >= reached)  # type: ignore[misc]
            figures[name] = resident_megabytes(child)
        running.stop()
    bench.check(count)
    return figures
