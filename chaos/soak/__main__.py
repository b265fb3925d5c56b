"""python -m chaos.soak: see `chaos.soak`. Exit status 1 where something was lost or not flat."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "chaos.settings"
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402

from benchmarks import machine  # noqa: E402
from chaos.bed import Bed  # noqa: E402
from chaos.databases import SERVERS, Database  # noqa: E402
from chaos.soak import report  # noqa: E402
from chaos.soak.run import Plan, Soak  # noqa: E402

DIRECTORY = report.LAST.parent  # effects and the logs of all workers stay there


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--tasks", type=int, default=1_000_000, help="on each database")
    parser.add_argument("--databases", type=_databases, default=["mariadb", "postgresql"],
        metavar="NAME[,NAME]", help=f"side by side; of {', '.join(SERVERS)}")  # fmt: skip
    parser.add_argument("--workers", type=int, default=3, help="commands on each database")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="of all chances")
    parser.add_argument("--report", type=Path, metavar="FILE", help="put the figures in there, too")
    return parser.parse_args()


def _databases(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names).difference(SERVERS):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return names


def soak(options: argparse.Namespace, databases: Sequence[Database]) -> list[report.Soaked]:
    """All of them at once; what fails on one leaves the figures of the others."""
    plan = Plan(60 * options.minutes, options.tasks, options.workers, options.concurrency)
    stop = threading.Event()

    def one(database: Database) -> report.Soaked:
        call_command("migrate", database=database.name, verbosity=0)
        directory = DIRECTORY / database.name
        directory.mkdir()
        bed = Bed(database, directory, Random(f"{options.seed}/{database.name}"), short=False)
        with closing(bed):
            soaked = Soak(bed, plan, stop).run(database.version(), _circumstances(options))
        connections[database.name].close()
        return soaked

    seen = []
    with ThreadPoolExecutor(len(databases)) as pool:
        try:
            for future in [pool.submit(one, database) for database in databases]:
                try:
                    seen.append(future.result())
                except Exception:
                    traceback.print_exc()
        finally:  # or, interrupted, the pool would wait for half an hour
            stop.set()
    return seen


def _circumstances(options: argparse.Namespace) -> str:
    facts = machine.describe()
    return (
        f"{options.minutes:g} minutes, {options.workers} workers of {options.concurrency} threads, "
        f"{len(options.databases)} databases at once, seed {options.seed}, {facts['date']}; "
        f"load average before {os.getloadavg()[0]:.1f}; {facts['processor']}; {facts['memory']}; "
        f"{facts['system']}; {facts['disk']}; {facts['software']}"
    )


def main() -> int:
    options = arguments()
    print(f"seed: {options.seed}; effects and logs: {DIRECTORY}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing outlives this
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir(parents=True)
    with ExitStack() as stack:
        databases = [
            stack.enter_context(closing(Database(name, DIRECTORY))) for name in options.databases
        ]
        seen = soak(options, databases)
    report.save(seen)
    print(report.render(seen))
    if options.report:
        report.write(options.report, seen)
    failed = len(seen) < len(databases) or any(one.verdict() for one in seen)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
