"""Install the peers, run them beside us on the same servers, and print every target and ratio."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median

from benchmarks import arguments, comparison, databases, machine, redis, targets, venvs
from benchmarks.contender import Contender, PeerFailed, Place
from benchmarks.contest import PARTS, QUICK, Figures, Plan
from benchmarks.effects import NotExactlyOnce
from benchmarks.peers import OURS, PEERS, load
from benchmarks.results import Results

NAMES = (*databases.NAMES, "redis")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, several = parser.add_argument, arguments.several
    add("--peer", type=several(list(PEERS)), default=list(PEERS), help=", ".join(PEERS))
    add("--database", type=several(NAMES), default=list(NAMES), help=", ".join(NAMES))
    add("--only", type=several(list(PARTS)), default=list(PARTS), help=", ".join(PARTS))
    add("--rounds", type=int, help="figures are medians of so many rounds (default: 3)")
    add("--quick", action="store_true", help="a small run, in minutes")
    add("--renew", action="store_true", help="install the peers anew, in their newest versions")
    arguments.add_output(parser)


def main(options: argparse.Namespace) -> None:
    plan = QUICK if options.quick else Plan()
    rounds = options.rounds or (1 if options.quick else 3)
    found = Results(machine.describe(), {**asdict(plan), "rounds": rounds})
    pythons = {OURS: sys.executable, **_install(options.peer, found, renew=options.renew)}
    loads: list[str] = []
    with _databases(options.database, found) as running:
        for database, where in running.items():
            loads.append(f"{os.getloadavg()[0]:.0f} before {database}")
            keys = [key for key in pythons if database in load(key).databases]
            figures: dict[str, list[Figures]] = {key: [] for key in keys}
            # All of them in each round: a machine that is busy for a while is so for all.
            for _, key in itertools.product(range(rounds), keys):
                contender = Contender(key, load(key), Place.of(database, where, key), pythons[key])
                figures[key].append(_measure(contender, plan, options.only, found))
            for key in keys:
                found.figures[targets.entry(key, database)] = _medians(figures[key])
    found.machine["load"] = f"load average {', '.join(loads)}"
    found.keep(comparison.render(found, options.output), options.output, comparison.LAST)


def _medians(rounds: list[Figures]) -> Figures:
    names = {name: None for figures in rounds for name in figures}
    return {name: median(figures[name] for figures in rounds if name in figures) for name in names}


def _install(names: list[str], found: Results, *, renew: bool) -> dict[str, str]:
    """The interpreter of each peer that can be had; `found` is told why the others cannot."""
    pythons, made = {}, set()
    for name in names:
        peer = load(name)
        again = renew and peer.name not in made
        try:
            pythons[name] = str(venvs.python_of(peer.name, peer.requirements, renew=again))
        except venvs.NotInstalled as reason:
            found.missing[name] = f"cannot be installed: {reason}"
        made.add(peer.name)
    return pythons


@contextlib.contextmanager
def _databases(names: list[str], found: Results) -> Iterator[dict[str, databases.Target | Place]]:
    """What can be had of the databases; `found` is told the versions, and why others are not."""
    with contextlib.ExitStack() as stack:
        own = [name for name in names if name != "redis"]
        started, missing = stack.enter_context(databases.running(own))
        running: dict[str, databases.Target | Place] = {**started}
        found.missing |= missing
        for name, target in started.items():
            target.create()
            found.versions[name] = target.version()
        if "redis" in names:
            directory = Path(tempfile.mkdtemp(prefix="skipper-bench-"))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            try:
                address = stack.enter_context(redis.running(directory / "server"))
                running["redis"] = Place("redis", directory, address)
                found.versions["redis"] = redis.version()
            except venvs.NotInstalled as reason:
                found.missing["redis"] = f"cannot be had: {reason}"
        yield running


def _measure(contender: Contender, plan: Plan, parts: list[str], found: Results) -> Figures:
    """All parts; what a peer fails at is told in place of its figure. We may not fail."""
    name = targets.entry(contender.key, contender.place.database)
    figures: Figures = {}
    with _failing(contender, name, found), contender:
        found.versions[contender.key] = contender.software
        for part in parts:
            with _failing(contender, f"{name}, {part}", found):
                started = time.monotonic()
                measured = PARTS[part](contender, plan)
                _say(f"{name}, {part} ({time.monotonic() - started:.0f} s)", measured)
                figures |= measured
    return figures


@contextlib.contextmanager
def _failing(contender: Contender, what: str, found: Results) -> Iterator[None]:
    try:
        yield
    except (PeerFailed, NotExactlyOnce, TimeoutError) as failed:
        if contender.key == OURS:
            raise
        found.missing[what] = f"{type(failed).__name__}: {failed}"
        print(f"{what}: {failed}", file=sys.stderr, flush=True)


def _say(what: str, figures: Figures) -> None:
    shown = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
    print(f"{what}: {shown or 'not for it'}", file=sys.stderr, flush=True)
