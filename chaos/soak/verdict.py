"""What counts as steady and flat: bounds, set before the first run, and what breaks them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from chaos.soak.watch import Sample

# PostgreSQL looks once a minute what it may vacuum; a few rounds of that have to be compared.
LEAST_SECONDS = 600.0
# Until caches are warm, retention has begun to bite and the first vacuum has come.
WARM_UP = 0.1
# The load is steady, so what is done falls behind it only where the queue does.
LEAST_RATE = 0.95
# The range of a worker that has gone rests for up to five seconds (STEAL_AFTER): of three workers
# a third of the load, often. This is three times as much, and not at one moment but most of them.
MOST_WAITING_SECONDS = 5.0
# Python gives little back to the system. A leak of 100 bytes a task would add 30 MB.
MOST_MEMORY = 1.1
# A worker that is leaving overlaps with the one that replaces it.
MORE_SESSIONS = 4
# A table grows by whole extents, InnoDB's by 4 MB, and it depends on when a vacuum came.
MOST_SIZE = 1.25
MORE_MEGABYTES = 4.0
# It rises between two vacuums and falls: only the highest points can be compared, and roughly.
MOST_LAG = 1.5
MORE_LAG = 10_000


@dataclass(frozen=True)
class Figures:
    """The first and the last quarter after the warm-up: of what rises and falls by itself the
    highest point, of the rest the median."""

    rate: tuple[float, float]
    waiting: tuple[float, float]
    memory: tuple[float, float]
    sessions: tuple[float, float]
    table: tuple[float, float]
    indexes: tuple[float, float]
    purge_lag: tuple[float, float]
    most_sessions: int


def figures(samples: Sequence[Sample]) -> Figures:
    """ValueError where there are too few to compare."""
    warm = [sample for sample in samples if sample.seconds >= WARM_UP * samples[-1].seconds]
    if len(warm) < 8:
        raise ValueError(f"{len(warm)} samples after the warm-up are too few for a verdict")
    part = len(warm) // 4
    first, last = warm[: part + 1], warm[-part - 1 :]

    def medians(value: Callable[[Sample], float]) -> tuple[float, float]:
        return median(map(value, first)), median(map(value, last))

    def highest(value: Callable[[Sample], float]) -> tuple[float, float]:
        return max(map(value, first)), max(map(value, last))

    return Figures(
        rate=(_rate(first), _rate(last)),
        waiting=medians(lambda sample: sample.waiting),
        memory=medians(lambda sample: sample.memory),
        sessions=medians(lambda sample: sample.sessions),
        table=highest(lambda sample: sample.table),
        indexes=highest(lambda sample: sample.indexes),
        purge_lag=highest(lambda sample: sample.purge_lag),
        most_sessions=max(sample.sessions for sample in samples),
    )


def _rate(samples: Sequence[Sample]) -> float:
    start, end = samples[0], samples[-1]
    return (end.done - start.done) / (end.seconds - start.seconds)


def growth(found: Figures, rate: float) -> list[str]:
    """What is not flat, in words; `rate`: tasks enqueued a second."""
    size = (MOST_SIZE, MORE_MEGABYTES)
    waiting = MOST_WAITING_SECONDS * rate
    complaints = [
        _more("memory (MB)", found.memory, MOST_MEMORY, 0),
        _more("sessions", found.sessions, 1, MORE_SESSIONS),
        _more("table (MB)", found.table, *size),
        _more("indexes (MB)", found.indexes, *size),
        _more("purge lag", found.purge_lag, MOST_LAG, MORE_LAG),
    ]
    if found.rate[1] < LEAST_RATE * found.rate[0]:
        complaints.append(f"throughput fell from {found.rate[0]:,.0f} to {found.rate[1]:,.0f}/s")
    if found.waiting[1] > waiting:
        complaints.append(f"{found.waiting[1]:,.0f} tasks wait, more than {waiting:,.0f}")
    return [complaint for complaint in complaints if complaint]


def _more(what: str, values: tuple[float, float], factor: float, beyond: float) -> str:
    """A complaint if the later value is above `factor` times the earlier one and `beyond`."""
    before, after = values
    bound = factor * before + beyond
    return f"{what} grew from {before:,.0f} to {after:,.0f}" if after > bound else ""
