"""What is to be reached (issue 4), as lines of a table.

A ratio says how many times better we are: of rates ours by theirs, of costs theirs by ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.peers import OURS, PEERS

DATABASES = ("sqlite", "mariadb", "mysql", "postgresql")
ALL = (*DATABASES, "redis")
DRAINS = ("drain_1", "drain_2", "drain_4")
DJANGO_PEERS = ("django-tasks-db", "dj-queue", "steady-queue", "django-ox")

Figures = dict[str, dict[str, float]]


def entry(key: str, database: str) -> str:
    """The name under which figures of a queue on a database are kept."""
    return f"{key} on {database}"


@dataclass(frozen=True)
class Known:
    """The figures of a comparison by `entry`, and of the last `run` by database."""

    compared: Figures
    run: Figures = field(default_factory=dict)

    def of(self, key: str, database: str, names: Iterable[str], *, least: bool) -> float | None:
        """The best of the figures of a queue on a database; ours on any, beside Redis."""
        places = DATABASES if (key, database) == (OURS, "redis") else (database,)
        found = [self.compared.get(entry(key, place), {}) for place in places]
        values = [figures[name] for figures in found for name in names if name in figures]
        return (min if least else max)(values) if values else None


class Line(Protocol):
    """Something that makes lines of the table."""

    def lines(self, known: Known) -> list[str]: ...


@dataclass(frozen=True)
class Against:
    """Our figure against the best one of peers, on each database."""

    what: str
    names: tuple[str, ...]
    databases: tuple[str, ...] = DATABASES
    peers: tuple[str, ...] = tuple(PEERS)
    times: float = 1.0  # how many times better than the best of them
    bound: float | None = None  # and at least, or for costs at most
    costs: bool = False  # less is better
    template: str = "{:,.0f}/s"

    def lines(self, known: Known) -> list[str]:
        return [line for database in self.databases if (line := self._line(known, database))]

    def _line(self, known: Known, database: str) -> str:
        ours = known.of(OURS, database, self.names, least=self.costs)
        found = [
            (value, peer)
            for peer in self.peers
            if (value := known.of(peer, database, self.names, least=self.costs)) is not None
        ]
        if not found and (ours is None or database == "redis"):
            return ""
        best = (min if self.costs else max)(found, default=None)
        theirs = f"{best[1]} {self.template.format(best[0])}" if best else "-"
        ratio = self._ratio(ours, best[0] if best else None)
        return row(
            f"{self.what}, {database}",
            theirs,
            self.template.format(ours) if ours is not None else "-",
            f"{ratio:.1f}" if ratio is not None else "-",
            self._target(),
            self._reached(ours, ratio),
        )

    def _ratio(self, ours: float | None, theirs: float | None) -> float | None:
        if ours is None or theirs is None:
            return None
        above, below = (theirs, ours) if self.costs else (ours, theirs)
        return above / max(below, 1e-9)

    def _target(self) -> str:
        wanted = [f">= {self.times:g} x"]
        if self.bound is not None:
            wanted.append(f"{'<=' if self.costs else '>='} {self.template.format(self.bound)}")
        return ", ".join(wanted)

    def _reached(self, ours: float | None, ratio: float | None) -> bool | None:
        if ours is None or (ratio is None and self.bound is None):
            return None
        ahead = ratio is None or ratio >= self.times
        if self.bound is None:
            return ahead
        return ahead and (ours <= self.bound if self.costs else ours >= self.bound)


@dataclass(frozen=True)
class Ours:
    """One of our own figures by another: how flat, or how much of it is kept."""

    what: str
    above: tuple[str, str]  # database, figure
    below: tuple[str, str]
    least: float

    def lines(self, known: Known) -> list[str]:
        above, below = (
            known.compared.get(entry(OURS, database), {}).get(name)
            for database, name in (self.above, self.below)
        )
        if above is None or below is None:
            return []
        ratio = above / max(below, 1e-9)
        ours = f"{above:,.0f}/s by {below:,.0f}/s"
        return [
            row(self.what, "-", ours, f"{ratio:.2f}", f">= {self.least:.2g}", ratio >= self.least)
        ]


@dataclass(frozen=True)
class OfRun:
    """A figure of the last `run`, on each database."""

    what: str
    value: Callable[[dict[str, float]], float]
    least: float | None = None
    most: float | None = None
    template: str = "{:.2f}"

    def lines(self, known: Known) -> list[str]:
        wanted = f"<= {self.template.format(self.most)}" if self.most is not None else ""
        if self.least is not None:
            wanted = f">= {self.template.format(self.least)}"
        if not known.run:
            return [row(self.what, "-", "`run`", "-", wanted, None)]
        return [
            row(
                f"{self.what}, {database}",
                "-",
                self.template.format(ours),
                "-",
                wanted,
                self._reached(ours),
            )
            for database in DATABASES
            if (ours := self._of(known.run.get(database, {}))) is not None
        ]

    def _of(self, figures: dict[str, float]) -> float | None:
        try:
            return self.value(figures)
        except KeyError:
            return None

    def _reached(self, ours: float) -> bool:
        return ours >= self.least if self.least is not None else ours <= (self.most or 0)


def row(what: str, theirs: str, ours: str, ratio: str, target: str, reached: bool | None) -> str:
    said = {True: "yes", False: "**no**", None: "-"}[reached]
    return f"| {what} | {theirs} | {ours} | {ratio} | {target} | {said} |"


MS, A_SECOND, PERCENT = "{:.1f} ms", "{:.1f}/s", "{:.1f} %"
A_SECOND_WHOLE = "{:,.0f}/s"

TARGETS: tuple[Line, ...] = (
    Against("drain, 1 process", ("drain_1",), ("mariadb",), ("django-tasks-db",), 30, 8_000),
    Against("drain, 1 process", ("drain_1",), ("postgresql",), ("pgqueuer",), 1.5),
    Against("drain, 1 process", ("drain_1",), ("postgresql",), ("pgqueuer-100",)),
    Against("drain, 1 process", ("drain_1",), ("postgresql",), ("procrastinate",)),
    Against("drain, 1 process", ("drain_1",), ("sqlite",), ("huey",), 3),
    Against(
        "drain, best of 1, 2, 4 processes, Django's rivals", DRAINS, DATABASES, DJANGO_PEERS, 10
    ),
    Against("drain, best of 1, 2, 4 processes, all", DRAINS, ALL),
    Against(
        "drain, 2 processes, 100k waiting, Django's rivals",
        ("drain_backlog",),
        DATABASES,
        DJANGO_PEERS,
        10,
    ),
    Against("drain, 2 processes, 100k waiting, all", ("drain_backlog",)),
    *(
        Ours(f"flat with 100k waiting, {name}", (name, "drain_backlog"), (name, "drain_2"), 1 / 1.5)
        for name in DATABASES
    ),
    Against("drain, 2 processes, 100k deferred", ("drain_deferred",), times=10),
    *(
        Ours(
            f"flat with 100k deferred, {name}", (name, "drain_deferred"), (name, "drain_2"), 1 / 1.5
        )
        for name in DATABASES
    ),
    Ours("drain, MySQL by MariaDB", ("mysql", "drain_1"), ("mariadb", "drain_1"), 0.7),
    OfRun(
        "drain, as a share of the raw claim and finish limit",
        lambda f: 100 * f["drain_share"],
        least=30,
        template="{:.0f} %",
    ),
    *(
        Ours(f"2 processes by 1, {name}", (name, "drain_2"), (name, "drain_1"), 1.0)
        for name in DATABASES
    ),
    *(
        Ours(f"4 processes by 2, {name}", (name, "drain_4"), (name, "drain_2"), 0.9)
        for name in DATABASES
    ),
    OfRun("16 processes by 2", lambda f: f["many_rate"] / f["drain_2"], least=0.9),
    OfRun("lost races of 16 processes with ranges", lambda f: f["many_lost"], most=0),
    Against("enqueue, one commit each", ("enqueue_single",), ALL),
    OfRun(
        "enqueue, as a share of the raw rate",
        lambda f: 100 * f["enqueue_share"],
        least=60,
        template="{:.0f} %",
    ),
    Against("enqueue, bulk", ("enqueue_bulk",), bound=40_000),
    Against("idle pick-up p50", ("pick_up_p50",), ALL, bound=3, costs=True, template=MS),
    Against("idle pick-up p95", ("pick_up_p95",), ALL, costs=True, template=MS),
    Against("idle pick-up p99", ("pick_up_p99",), ALL, bound=15, costs=True, template=MS),
    OfRun(
        "idle pick-up p50, worker on another host",
        lambda f: f["polling_pick_up_p50"],
        most=50,
        template=MS,
    ),
    Against(
        "idle statements",
        ("idle_statements",),
        ("sqlite", "postgresql"),
        bound=1,
        costs=True,
        template=A_SECOND,
    ),
    Against(
        "idle statements",
        ("idle_statements",),
        ("mariadb", "mysql"),
        bound=12,
        costs=True,
        template=A_SECOND,
    ),
    Against("idle, of a core", ("idle_cpu",), ALL, bound=1, costs=True, template=PERCENT),
    Against(
        "statements a task, draining",
        ("statements_per_task",),
        bound=0.05,
        costs=True,
        template="{:.3f}",
    ),
    OfRun("claim of 100, backlog 1k to 1M", lambda f: f["span_backlog"], most=1.5),
    OfRun("claim of 100, share 1/1 to 1/64", lambda f: f["span_share"], most=2),
    OfRun("look into an empty share", lambda f: f["claim_empty"], most=1, template=MS),
    OfRun(
        "claim of 100, with history, future, other queues and tenants",
        lambda f: f["span_others"],
        most=1.5,
    ),
    OfRun(
        "tasks of 1 ms, concurrency 32",
        lambda f: f["sleeping_threads"],
        least=5_000,
        template=A_SECOND_WHOLE,
    ),
    OfRun(
        "async tasks of 100 ms, 2,000 at once",
        lambda f: f["sleeping_async"],
        least=15_000,
        template=A_SECOND_WHOLE,
    ),
    OfRun(
        "memory above bare Django at the start, MB",
        lambda f: f["memory_start"] - f["django_memory"],
        most=25,
    ),
    OfRun(
        "memory at the end by that at a tenth",
        lambda f: f["memory_end"] / f["memory_tenth"],
        most=1.05,
    ),
    OfRun(
        "start to first task after Django's own start, s",
        lambda f: f["first_start"] - f["django_start"],
        most=1,
    ),
)
