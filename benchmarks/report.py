"""Print the last tables, or write them into documents between their markers."""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks import arguments, comparison, profile, results
from benchmarks.databases import NAMES
from benchmarks.results import Results

ALWAYS = {"load_before", "tasks_checked"}


@dataclass(frozen=True)
class Row:
    """One line of the table: what it is called, and its figures as text."""

    label: str
    template: str
    keys: tuple[str, ...]

    def cell(self, figures: dict[str, float]) -> str:
        if any(key not in figures for key in self.keys):
            return "-"
        return self.template.format(*(figures[key] for key in self.keys))


ROWS = (
    Row("enqueue, one commit each (tasks/s)", "{:,.0f}", ("enqueue_single",)),
    Row("the plain driver's insert of such a row (rows/s)", "{:,.0f}", ("enqueue_raw",)),
    Row("enqueue as a share of it", "{:.0%}", ("enqueue_share",)),
    Row("enqueue_many (tasks/s)", "{:,.0f}", ("enqueue_bulk",)),
    Row("drain, 1 process (tasks/s)", "{:,.0f}", ("drain_1",)),
    Row("drain, 2 processes (tasks/s)", "{:,.0f}", ("drain_2",)),
    Row("drain, 4 processes (tasks/s)", "{:,.0f}", ("drain_4",)),
    Row("drain, 16 processes that begin together (tasks/s)", "{:,.0f}", ("many_rate",)),
    Row("their lost races", "{:,.0f}", ("many_lost",)),
    Row(
        "processor time a task, worker + server (µs)",
        "{:.0f} + {:.0f}",
        ("cost_worker", "cost_server"),
    ),
    Row("what the cores can do by that (tasks/s)", "{:,.0f}", ("capacity_predicted",)),
    Row(
        "claim and finish alone, plain driver, batches of 100 (tasks/s)", "{:,.0f}", ("raw_limit",)
    ),
    Row("drain, 1 process, as a share of it", "{:.0%}", ("drain_share",)),
    Row("statements a task, draining", "{:.3f}", ("statements_per_task",)),
    Row("pick-up when idle, p50 / p99 (ms)", "{:.1f} / {:.1f}", ("pick_up_p50", "pick_up_p99")),
    Row("statements/s when idle", "{:.1f}", ("idle_statements",)),
    Row("processor when idle (% of a core)", "{:.1f}", ("idle_cpu",)),
    Row(
        "pick-up without wake-ups, p50 / p99 (ms)",
        "{:.1f} / {:.1f}",
        ("polling_pick_up_p50", "polling_pick_up_p99"),
    ),
    Row("statements/s when idle, without wake-ups", "{:.1f}", ("polling_idle_statements",)),
    Row("tasks of 1 ms (sleep) in 32 threads (tasks/s)", "{:,.0f}", ("sleeping_threads",)),
    Row("async tasks of 100 ms, 2,000 at once (tasks/s)", "{:,.0f}", ("sleeping_async",)),
    Row(
        "claim of 100, backlog 1k / 10k / 100k / 1M (ms)",
        "{:.2f} / {:.2f} / {:.2f} / {:.2f}",
        ("claim_1k", "claim_10k", "claim_100k", "claim_1000k"),
    ),
    Row("the most as a multiple of the least", "{:.2f}", ("span_backlog",)),
    Row(
        "claim of 100, share 1/4 / 1/16 / 1/64 of 100k (ms)",
        "{:.2f} / {:.2f} / {:.2f}",
        ("claim_share_4", "claim_share_16", "claim_share_64"),
    ),
    Row("the same, the whole included", "{:.2f}", ("span_share",)),
    Row("look into an empty share (ms)", "{:.2f}", ("claim_empty",)),
    Row(
        "claim of 100 of 100k beside 100k future / of another queue / of another tenant / "
        "1M finished (ms)",
        "{:.2f} / {:.2f} / {:.2f} / {:.2f}",
        ("claim_future", "claim_queue", "claim_tenant", "claim_finished"),
    ),
    Row("the same, alone included", "{:.2f}", ("span_others",)),
    Row(
        "start of the command to first task; Django alone (s)",
        "{:.2f}; {:.2f}",
        ("first_start", "django_start"),
    ),
    Row(
        "memory at the first task; Django alone (MB)",
        "{:.0f}; {:.0f}",
        ("memory_start", "django_memory"),
    ),
    Row(
        "memory after 10 %, 50 %, 100 % of the tasks (MB)",
        "{:.0f}, {:.0f}, {:.0f}",
        ("memory_tenth", "memory_half", "memory_end"),
    ),
    Row("lost races, ranges", "{:,.0f}", ("contention_ranges_lost",)),
    Row("lost races, whole queue", "{:,.0f}", ("contention_whole_queue_lost",)),
    Row("drain, ranges (tasks/s)", "{:,.0f}", ("contention_ranges_rate",)),
    Row("drain, whole queue (tasks/s)", "{:,.0f}", ("contention_whole_queue_rate",)),
    Row(
        "stolen, ranges; whole queue",
        "{:,.0f}; {:,.0f}",
        ("contention_ranges_stolen", "contention_whole_queue_stolen"),
    ),
    Row("longest wait in rolling restarts (s)", "{:.2f}", ("rolling_gap",)),
    Row("load average before", "{:.1f}", ("load_before",)),
    Row("tasks run, each exactly once", "{:,.0f}", ("tasks_checked",)),
)


def render(results: Results) -> str:
    """A table, a column for each database, and what it was measured on."""
    names = [name for name in NAMES if name in results.figures]
    header = [results.versions.get(name, name) for name in names]
    lines = [
        f"| | {' | '.join(header)} |",
        f"|---|{'--:|' * len(names)}",
    ]
    for row in ROWS:
        cells = [row.cell(results.figures[name]) for name in names]
        if any(cell != "-" for cell in cells):
            lines.append(f"| {row.label} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", _circumstances(results)])


def _circumstances(results: Results) -> str:
    missing = [f"No {name}: {reason}." for name, reason in results.missing.items()]
    return " ".join([*_sizes(results), f"{'; '.join(results.machine.values())}.", *missing])


def _sizes(results: Results) -> list[str]:
    """How much was measured, of what was measured."""
    plan = results.plan
    measured = {key for figures in results.figures.values() for key in figures} - ALWAYS
    of_clusters = {key for key in measured if key.startswith(("contention_", "rolling_"))}
    sizes = []
    if measured - of_clusters:
        sizes.append(
            f"Drains of {plan['tasks']:,} no-op tasks, memory over {plan['memory_tasks']:,}, "
            f"{plan['samples']} pick-ups; rates are medians of {plan['repeats']}."
        )
    if of_clusters:
        sizes.append(
            f"{plan['contention_tasks']:,} no-op tasks and {plan['members']} members that begin at "
            "the same moment, once; three members replaced by turns; heartbeats every 2 s."
        )
    return sizes


def insert(path: Path, block: str, kind: str = "benchmarks") -> None:
    """Replace what stands between the markers of a document; ValueError where there are none."""
    opening, closing = markers(kind)
    text = path.read_text()
    before, begin, rest = text.partition(opening)
    _, end, after = rest.partition(closing)
    if not begin or not end:
        raise ValueError(f"{path} has no {opening} followed by {closing}")
    path.write_text(f"{before}{opening}\n{block}\n{closing}{after}")


def markers(kind: str) -> tuple[str, str]:
    return f"<!-- {kind} -->", f"<!-- /{kind} -->"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    files = "write them between the markers of FILE"
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help=files)
    arguments.add_output(parser)


def main(options: argparse.Namespace) -> None:
    """Each table goes where its markers are; a file must have those of one at least."""
    blocks = _last_blocks(options.output)
    if not blocks:
        sys.exit(f"nothing measured yet in {options.output}: run python -m benchmarks")
    for path in options.files:
        text = path.read_text()
        wanted = [kind for kind in blocks if markers(kind)[0] in text] or list(blocks)[:1]
        for kind in wanted:
            insert(path, blocks[kind], kind)
    if not options.files:
        print("\n\n".join(blocks.values()))


def _last_blocks(directory: Path) -> dict[str, str]:
    """The tables of the last run of each kind, by the name of their markers."""
    blocks = {}
    with contextlib.suppress(FileNotFoundError):
        blocks["benchmarks"] = render(results.load(directory))
    with contextlib.suppress(FileNotFoundError):
        blocks["profile"] = profile.render(results.load(directory, profile.LAST))
    with contextlib.suppress(FileNotFoundError):
        blocks["compare"] = comparison.render(comparison.load_last(directory), directory)
    return blocks
