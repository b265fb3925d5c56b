"""python -m benchmarks [run] | report

run      measure, print the table, keep the figures in build/benchmarks/ (also without a name)
report   print the last table again, or write it into documents between their markers
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import databases, machine, plan, report, results
from benchmarks.measure import PARTS, USUAL_PARTS, measure


def run(options: argparse.Namespace) -> None:
    chosen = (plan.quick if options.quick else plan.full)(options.tasks)
    found = results.Results(machine.describe(), asdict(chosen))
    with databases.running(options.database) as (targets, missing):
        found.missing = missing
        for name, target in targets.items():
            # A process of its own: Django has one default database in a process.
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, context) as process:
                found.figures[name] = process.submit(measure, target, chosen, options.only).result()
            found.versions[name] = target.version()
    name = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    path = found.save(name, options.output)
    block = report.render(found)
    path.with_suffix(".md").write_text(f"{block}\n")
    print(block)


def show(options: argparse.Namespace) -> None:
    try:
        block = report.render(results.load(options.output))
    except FileNotFoundError:
        sys.exit(f"nothing measured yet in {options.output}: run python -m benchmarks")
    for path in options.files:
        report.insert(path, block)
    if not options.files:
        print(block)


def several(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    """The type of an argument: names out of `allowed`, separated by commas."""

    def names(text: str) -> list[str]:
        chosen = text.replace(",", " ").split()
        if not chosen or set(chosen) - set(allowed):
            raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(allowed)}")
        return chosen

    return names


def parser() -> argparse.ArgumentParser:
    main = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = main.add_subparsers(dest="command", required=True)
    add = commands.add_parser("run", help="measure and print the table").add_argument
    add("--database", type=several(databases.NAMES), default=list(databases.NAMES))
    add("--tasks", type=int, help="how many tasks each drain has (default: 20000)")
    add("--quick", action="store_true", help="a small run, in seconds")
    usual = f"{', '.join(PARTS)} (default: {', '.join(USUAL_PARTS)})"
    add("--only", type=several(list(PARTS)), default=USUAL_PARTS, help=usual)
    add("--output", type=Path, default=results.DIRECTORY)
    add = commands.add_parser("report", help="print the last table").add_argument
    add("files", type=Path, nargs="*", metavar="FILE", help="write it between the markers of FILE")
    add("--output", type=Path, default=results.DIRECTORY)
    return main


COMMANDS = {"run": run, "report": show}


def main(arguments: Sequence[str]) -> None:
    plain = not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help"))
    options = parser().parse_args(["run", *arguments] if plain else arguments)
    COMMANDS[options.command](options)


if __name__ == "__main__":
    main(sys.argv[1:])
