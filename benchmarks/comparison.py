"""The comparison as tables: every target with our ratio, and every figure of every queue."""

from __future__ import annotations

from pathlib import Path

from benchmarks import results
from benchmarks.peers import OURS, PEERS, load
from benchmarks.results import Results
from benchmarks.targets import TARGETS, Known, entry

LAST = "compare.json"

__all__ = ["LAST", "entry", "load_last", "render"]

# Figures of a queue: heading, template, keys.
COLUMNS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("enqueue/s", "{:,.0f}", ("enqueue_single",)),
    ("bulk/s", "{:,.0f}", ("enqueue_bulk",)),
    ("drain/s, 1 process", "{:,.0f}", ("drain_1",)),
    ("2", "{:,.0f}", ("drain_2",)),
    ("4", "{:,.0f}", ("drain_4",)),
    ("2, backlog", "{:,.0f}", ("drain_backlog",)),
    ("2, deferred", "{:,.0f}", ("drain_deferred",)),
    ("statements a task", "{:.3f}", ("statements_per_task",)),
    (
        "pick-up p50 / p95 / p99 ms",
        "{:.1f} / {:.1f} / {:.1f}",
        ("pick_up_p50", "pick_up_p95", "pick_up_p99"),
    ),
    ("idle statements/s", "{:.1f}", ("idle_statements",)),
    ("idle % of a core", "{:.1f}", ("idle_cpu",)),
)


def load_last(directory: Path = results.DIRECTORY) -> Results:
    """The last comparison; FileNotFoundError if there was none."""
    return results.load(directory, LAST)


def render(found: Results, directory: Path = results.DIRECTORY) -> str:
    """The targets, then a table for each database, then who ran and what could not be measured.

    Targets without a peer take our figures from the last `run`, in the same directory.
    """
    try:
        run = results.load(directory).figures
    except FileNotFoundError:
        run = {}
    known = Known(found.figures, run)
    lines = [line for target in TARGETS for line in target.lines(known)]
    header = "| what | best peer | ours | ratio | target | reached |"
    blocks = ["\n".join([header, "|---|---|--:|--:|---|---|", *lines])]
    blocks += [
        _figures_on(name, found) for name in ("sqlite", "mariadb", "mysql", "postgresql", "redis")
    ]
    return "\n\n".join(block for block in [*blocks, _circumstances(found)] if block)


def _figures_on(database: str, found: Results) -> str:
    rows = []
    for key in (OURS, *PEERS):
        figures = found.figures.get(entry(key, database))
        if figures:
            cells = [
                template.format(*(figures[name] for name in names))
                if set(names) <= set(figures)
                else "-"
                for _, template, names in COLUMNS
            ]
            rows.append(f"| {key} | {' | '.join(cells)} |")
    if not rows:
        return ""
    headings = [found.versions.get(database, database), *(heading for heading, _, _ in COLUMNS)]
    return "\n".join([f"| {' | '.join(headings)} |", "|---|" + "--:|" * len(COLUMNS), *rows])


def _circumstances(found: Results) -> str:
    plan = found.plan
    peers = [
        f"- {key}: {found.versions[key]}. {load(key).setting}."
        for key in (OURS, *PEERS)
        if key in found.versions
    ]
    missing = [
        f"- Not measured: {what}: {' '.join(why.split())}" for what, why in found.missing.items()
    ]
    said = (
        f"Drains of about {plan['seconds']:g} s, backlog and deferred {plan['waiting']:,} tasks, "
        f"{plan['samples']} pick-ups; rounds, of which figures are medians: {plan['rounds']}. "
        f"{'; '.join(found.machine.values())}."
    )
    return "\n".join([said, "", *peers, *missing])
