"""Measure the queue on each database, and print the table."""

from __future__ import annotations

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from benchmarks import arguments, databases, machine, plan, report, results
from benchmarks.measure import PARTS, USUAL_PARTS, measure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, names = parser.add_argument, databases.NAMES
    add("--database", type=arguments.several(names), default=list(names), help=", ".join(names))
    add("--tasks", type=int, help="how many tasks each drain has (default: 20000)")
    add("--quick", action="store_true", help="a small run, in seconds")
    usual = f"{', '.join(PARTS)} (default: {', '.join(USUAL_PARTS)})"
    add("--only", type=arguments.several(list(PARTS)), default=USUAL_PARTS, help=usual)
    arguments.add_output(parser)


def main(options: argparse.Namespace) -> None:
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
    found.keep(report.render(found), options.output)
