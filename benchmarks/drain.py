"""Draining: how fast workers empty a full queue, and with how many statements."""

from __future__ import annotations

from statistics import median

from benchmarks import raw
from benchmarks.databases import StatementCounter
from benchmarks.effects import middle_rate
from benchmarks.processes import worker
from benchmarks.queue import Bench, Figures, medians


def measure(bench: Bench) -> Figures:
    figures: Figures = {}
    for processes in bench.plan.processes:
        figures |= medians(lambda n=processes: drain(bench, n), bench.plan.repeats)  # type: ignore[misc]
    figures["raw_limit"] = median(raw.rate(bench) for _ in range(bench.plan.repeats))
    figures["drain_share"] = figures["drain_1"] / figures["raw_limit"]
    return figures


def drain(bench: Bench, processes: int) -> Figures:
    """The rate over the middle 90 % of the starts, by the log of starts that the tasks write."""
    count = bench.plan.tasks
    bench.clear()
    bench.fill(count)
    with worker(bench.target.directory, "--drain", "--processes", str(processes)) as running:
        running.wait()
    bench.check(count)
    effects = bench.effects.check(range(count))
    figures = {f"drain_{processes}": middle_rate(effects)}
    if processes == 1:
        figures["first_start"] = effects[0].started - running.started
    return figures


def measure_statements(bench: Bench) -> Figures:
    """Statements a task over a whole drain with one process, its start and end included."""
    bench.clear()
    bench.fill(bench.plan.tasks)
    with StatementCounter(bench.target) as counter:
        before = counter.read()
        with worker(bench.target.directory, "--drain") as running:
            running.wait()
        statements = counter.read() - before
    bench.check(bench.plan.tasks)
    return {"statements_per_task": statements / bench.plan.tasks}
