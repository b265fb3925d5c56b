"""python -m chaos.soak.report [FILE ...]: the last soak, or put between the markers of a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from chaos.report import insert
from chaos.soak.verdict import LEAST_SECONDS, Figures, figures, growth
from chaos.soak.watch import Sample

BEGIN, END = "<!-- soak -->", "<!-- /soak -->"
LAST = Path(__file__).parents[2] / "build" / "soak" / "last.json"
TIMES = 7  # rows of a database in the second table: every five minutes of thirty


@dataclass
class Soaked:
    """What was seen on one database."""

    version: str
    circumstances: str
    rate: float  # tasks enqueued a second
    tasks: int
    kills: int
    stops: int
    refused: int  # enqueues that raised and were repeated
    held: int  # by killed workers, at that moment
    lost: int
    doubled: int
    drained_after: float  # seconds, from the last enqueue to the last call
    samples: list[Sample]
    troubles: list[str] = field(default_factory=list)

    def figures(self) -> Figures:
        return figures(self.samples)

    @property
    def is_judged(self) -> bool:
        """Has it lasted long enough to say whether anything grows?"""
        return self.samples[-1].seconds >= LEAST_SECONDS

    def verdict(self) -> list[str]:
        """All that is wrong; nothing if it passed."""
        return [*self.troubles, *(growth(self.figures(), self.rate) if self.is_judged else [])]


def save(soaked: Sequence[Soaked]) -> None:
    LAST.parent.mkdir(parents=True, exist_ok=True)
    LAST.write_text(json.dumps([asdict(one) for one in soaked]) + "\n")


def load() -> list[Soaked]:
    stored = json.loads(LAST.read_text()) if LAST.exists() else []
    return [Soaked(**{**one, "samples": [Sample(**s) for s in one["samples"]]}) for one in stored]


def render(soaked: Sequence[Soaked]) -> str:
    lines = [
        "| | " + " | ".join(one.version for one in soaked) + " |",
        "|---|" + "--:|" * len(soaked),
    ]
    columns = [list(_column(one)) for one in soaked]
    for cells in zip(*columns, strict=True):
        lines.append(f"| {cells[0][0]} | " + " | ".join(value for _, value in cells) + " |")
    return "\n".join([*lines, "", *_course(soaked), "", *map(_about, soaked)])


def _column(one: Soaked) -> Iterator[tuple[str, str]]:
    found = one.figures()
    yield "tasks, all acknowledged", f"{one.tasks:,}"
    yield "workers killed; stopped", f"{one.kills}; {one.stops}"
    yield "lost", f"{one.lost:,}"
    yield "doubled, of those that killed workers held", f"{one.doubled:,} of {one.held:,}"
    yield "tasks/s, first and last quarter", _pair(found.rate)
    yield "waiting tasks, the same", _pair(found.waiting)
    yield "memory of the lasting worker's processes (MB), the same", _pair(found.memory)
    first, last = found.sessions
    yield "sessions, the same; most", f"{first:.0f}, {last:.0f}; {found.most_sessions}"
    yield "table at most (MB), the same", _pair(found.table)
    yield "indexes at most (MB), the same", _pair(found.indexes)
    yield "purge lag at most, the same", _pair(found.purge_lag)
    yield "seconds from the last enqueue to the last call", f"{one.drained_after:.1f}"
    yield "verdict", _verdict(one)


def _verdict(one: Soaked) -> str:
    if one.verdict():
        return "not passed"
    return "passed" if one.is_judged else "too short to be judged"


def _pair(values: tuple[float, float]) -> str:
    return f"{values[0]:,.0f}, {values[1]:,.0f}"


def _course(soaked: Sequence[Soaked]) -> Iterator[str]:
    yield (
        "| database | minute | tasks/s | waiting | memory (MB) | sessions | rows | table (MB) "
        "| indexes (MB) | purge lag |"
    )
    yield "|---|" + "--:|" * 9
    for one in soaked:
        before: Sample | None = None
        for sample in _looks(one.samples):
            yield f"| {one.version} | {_cells(sample, before)} |"
            before = sample


def _looks(samples: Sequence[Sample]) -> list[Sample]:
    last = len(samples) - 1
    return [samples[round(last * look / (TIMES - 1))] for look in range(TIMES)]


def _cells(sample: Sample, before: Sample | None) -> str:
    """The rate is that of the time since the row before."""
    rate = "" if before is None else f"{_rate(before, sample):,.0f}"
    return (
        f"{sample.seconds / 60:.1f} | {rate} | {sample.waiting:,} | {sample.memory:.0f} "
        f"| {sample.sessions} | {sample.rows:,} | {sample.table:.0f} | {sample.indexes:.0f} "
        f"| {sample.purge_lag:,}"
    )


def _rate(before: Sample, after: Sample) -> float:
    return (after.done - before.done) / max(after.seconds - before.seconds, 1e-6)


def _about(one: Soaked) -> str:
    verdict = ": ".join([_verdict(one), *filter(None, ["; ".join(one.verdict())])])
    refused = f"{one.refused} enqueues raised and were repeated"
    return f"{one.version}: {verdict}. {refused}. {one.circumstances}.\n"


def write(file: Path, soaked: Sequence[Soaked]) -> None:
    insert(file, render(soaked), BEGIN, END)


def main(files: Sequence[str]) -> None:
    soaked = load()
    if not soaked:
        sys.exit("nothing seen yet: run make soak")
    for file in files:
        write(Path(file), soaked)
    if not files:
        print(render(soaked))


if __name__ == "__main__":
    main(sys.argv[1:])
