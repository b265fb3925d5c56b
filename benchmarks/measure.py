"""Everything that is measured on one database, in a process of its own."""

from __future__ import annotations

import importlib
import os
import sys
import time

from benchmarks.databases import Target
from benchmarks.effects import PATH_VARIABLE, Effects
from benchmarks.plan import Plan

# Name to function; a module is imported once Django is set up.
PARTS = {
    "enqueue": "benchmarks.enqueue:measure",
    "drain": "benchmarks.drain:measure",
    "statements": "benchmarks.drain:measure_statements",
    "capacity": "benchmarks.capacity:measure",
    "many": "benchmarks.cluster:measure_many",
    "claim": "benchmarks.claim:measure",
    "idle": "benchmarks.idle:measure",
    "polling": "benchmarks.idle:measure_polling",
    "sleeping": "benchmarks.sleeping:measure",
    "start": "benchmarks.idle:measure_start",
    "memory": "benchmarks.memory:measure",
    "contention": "benchmarks.cluster:measure_contention",
    "rolling": "benchmarks.cluster:measure_rolling",
}
# These have a table of their own, in docs/scaling-out.md, and take minutes: only when asked for.
OF_CLUSTERS = ("contention", "rolling")
USUAL_PARTS = [name for name in PARTS if name not in OF_CLUSTERS]


def measure(target: Target, plan: Plan, parts: list[str]) -> dict[str, float]:
    """All figures of one database; every task that ran for them was counted."""
    effects = target.directory / "effects"
    os.environ.update(target.environment(), **{PATH_VARIABLE: str(effects)})
    target.create()
    set_up()
    from benchmarks.queue import Bench

    bench = Bench(target, plan, Effects(effects))
    figures = {"load_before": os.getloadavg()[0]}
    for part in parts:
        module, _, function = PARTS[part].partition(":")
        started = time.monotonic()
        found = getattr(importlib.import_module(module), function)(bench)
        figures |= found
        _say(target.name, part, time.monotonic() - started, found)
    return {**figures, "tasks_checked": bench.checked}


def set_up() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def _say(database: str, part: str, seconds: float, figures: dict[str, float]) -> None:
    shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
    print(f"{database} {part} ({seconds:.0f} s): {shown}", file=sys.stderr, flush=True)
