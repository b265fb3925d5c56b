"""Where a draining worker spends its time: the steps that hold the interpreter, on each database.

`py-spy` samples the process that runs tasks from outside, and counts only threads that hold the
interpreter; it comes into a virtual environment of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from benchmarks import arguments, databases, machine, measure, plan
from benchmarks.databases import NAMES, Target
from benchmarks.effects import PATH_VARIABLE, Effects
from benchmarks.processes import wait_until, worker
from benchmarks.results import Results
from benchmarks.venvs import python_of

LAST = "profile.json"
SAMPLES_PER_SECOND = 500
SECONDS = 4
TASKS = 100_000  # more than it can drain meanwhile
HELD, OTHER = "the interpreter is held, of the time", "the rest"

# Step to functions, as `name (end of path`; a sample belongs to its innermost one.
STEPS: dict[str, tuple[str, ...]] = {
    "the task itself: a line appended to a file": ("noop (tasks.py",),
    "claim: statements, rows to leases": (
        "choose (store/claim.py",
        "take (store/claim.py",
    ),
    "settle: statements": ("settle (store/settle.py",),
    "prepare: definition, arguments from JSON, TaskResult": ("prepare (worker/execute.py",),
    "signals and their receivers": ("send_robust (dispatcher.py",),
    "log records": ("_log (worker/execute.py", "log_task_started (", "log_task_finished ("),
    "outcome: the result as JSON": ("_returned (worker/execute.py",),
    "the connections of the thread": (
        "before_task (worker/connections.py",
        "after_task (worker/connections.py",
    ),
    "custody: what is held, as the stand-in sees it": (
        "add (worker/custody.py",
        "remove (worker/custody.py",
        "began (worker/custody.py",
        "ended (worker/custody.py",
    ),
    "from thread to thread": (
        "_next (worker/slots.py",
        "put (worker/arrivals.py",
        "take (worker/arrivals.py",
    ),
    "the attempt around the task: its thread, its times": (
        "run (worker/execute.py",
        "_work (worker/slots.py",
        "submit (worker/slots.py",
    ),
    "the loop: rounds, batches": ("round (worker/loop.py",),
    "heartbeat, renewals, upkeep, wake-ups": (
        "_run (worker/cluster.py",
        "_run (worker/leases.py",
        "_run (worker/upkeep.py",
        "_run (worker/alarm.py",
        "_run (worker/pulse.py",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    several = arguments.several(NAMES)
    parser.add_argument("--database", type=several, default=list(NAMES), help=", ".join(NAMES))
    arguments.add_output(parser)


def main(options: argparse.Namespace) -> None:
    python = python_of("py-spy", ("py-spy",))
    found = Results(machine.describe(), asdict(plan.full(None)))
    with databases.running(options.database) as (targets, missing):
        found.missing = missing
        for name, target in targets.items():
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, context) as process:
                found.figures[name] = process.submit(_measure, target, python).result()
            found.versions[name] = target.version()
    found.keep(render(found), options.output, LAST)


def _measure(target: Target, python: Path) -> dict[str, float]:
    effects = Effects(target.directory / "effects")
    os.environ.update(target.environment(), **{PATH_VARIABLE: str(target.directory / "effects")})
    target.create()
    measure.set_up()
    from benchmarks.queue import Bench

    bench = Bench(target, plan.full(None), effects)
    bench.clear()
    bench.fill(TASKS)
    stacks = target.directory / "stacks"
    with worker(target.directory) as running:
        wait_until(lambda: len(effects) > TASKS // 20)
        command = [str(python.with_name("py-spy")), "record", "--gil", "--format", "raw"]
        command += ["--rate", str(SAMPLES_PER_SECOND), "--duration", str(SECONDS)]
        command += ["--pid", str(running.child()), "--output", str(stacks)]
        subprocess.run(command, check=True, capture_output=True)
        assert len(effects) < TASKS, "it was done before the last sample"
        running.stop()
    return shares(stacks.read_text())


def shares(stacks: str) -> dict[str, float]:
    """The share of each step, from lines of `frame;frame;... count`, outermost first."""
    counts: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        counts[_step(stack.split(";"))] += int(count)
    held = counts.total()
    assert held, "py-spy has seen nothing"
    found = {step: counts[step] / held for step in (*STEPS, OTHER)}
    return {HELD: held / (SAMPLES_PER_SECOND * SECONDS), **found}


def _step(frames: list[str]) -> str:
    for frame in reversed(frames):
        for step, functions in STEPS.items():
            if any(_is_in(frame, function) for function in functions):
                return step
    return OTHER


def _is_in(frame: str, function: str) -> bool:
    """`Executor.run (skipper_django/worker/execute.py:20)` is in `run (worker/execute.py`."""
    name, _, place = frame.partition(" (")
    wanted, _, path = function.partition(" (")
    return name.rpartition(".")[2] == wanted and place.partition(":")[0].endswith(path)


def render(found: Results) -> str:
    """The steps, a column for each database."""
    names = [name for name in NAMES if name in found.figures]
    lines = [
        f"| | {' | '.join(found.versions[name] for name in names)} |",
        f"|---|{'--:|' * len(names)}",
    ]
    for step in (HELD, *STEPS, OTHER):
        cells = [f"{found.figures[name][step]:.0%}" for name in names]
        lines.append(f"| {step} | {' | '.join(cells)} |")
    missing = [f"No {name}: {reason}." for name, reason in found.missing.items()]
    told = f"{SAMPLES_PER_SECOND} samples a second, {SECONDS} s, one process, 4 threads."
    return "\n".join(
        [*lines, "", " ".join([told, f"{'; '.join(found.machine.values())}.", *missing])]
    )
