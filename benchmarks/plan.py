"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sizes of a run; each rate is the median of `repeats`."""

    tasks: int = 20_000  # in each drain
    singles: int = 2_000  # enqueued one by one in each repeat
    bulk: int = 10_000  # in one call of enqueue_many
    memory_tasks: int = 100_000
    processes: tuple[int, ...] = (1, 2, 4)
    repeats: int = 3
    samples: int = 60  # of the pick-up latency
    rest_seconds: float = 12.0  # until an idle worker has come to its longest rest
    idle_seconds: float = 20.0
    members: int = 16  # that contend
    contention_tasks: int = 40_000


def full(tasks: int | None) -> Plan:
    if not tasks:
        return Plan()
    return Plan(tasks=tasks, memory_tasks=5 * tasks, contention_tasks=2 * tasks)


def quick(tasks: int | None) -> Plan:
    """Seconds instead of minutes: to see that it works, and roughly where it stands."""
    count = tasks or 2_000
    return Plan(
        tasks=count,
        singles=min(500, count),
        bulk=count,
        memory_tasks=count,
        repeats=1,
        processes=(1, 2),
        samples=5,
        rest_seconds=1.0,
        idle_seconds=1.0,
        members=3,
        contention_tasks=count,
    )
