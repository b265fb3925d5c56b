"""The queue under measurement, from the side of who fills it and checks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from django.db import connection

from benchmarks.databases import Target
from benchmarks.effects import Effects
from benchmarks.plan import Plan
from benchmarks.tasks import noop
from skipper_django.compat import TaskResult
from skipper_django.core.states import TaskState
from skipper_django.enqueue import enqueue_many
from skipper_django.models import Task
from skipper_django.registry import SkipperTask

Figures = dict[str, float]


@dataclass
class Bench:
    """What every measurement is given; it counts the tasks that were checked."""

    target: Target
    plan: Plan
    effects: Effects
    checked: int = 0

    def clear(self) -> None:
        """An empty table and no effects."""
        delete = "DELETE FROM" if connection.vendor == "sqlite" else "TRUNCATE TABLE"
        with connection.cursor() as cursor:
            cursor.execute(f"{delete} {Task._meta.db_table}")
        self.effects.clear()

    def fill(self, count: int, task: SkipperTask = noop) -> None:
        """Enqueue the tasks 0 .. count - 1."""
        for start in range(0, count, self.plan.bulk):
            bulk(range(start, min(count, start + self.plan.bulk)), task)

    def check(self, count: int) -> None:
        """Each of the tasks ran exactly once, and its row says so, too."""
        self.effects.check(range(count))
        done = Task.objects.filter(status=TaskState.SUCCESSFUL.value, attempts=1).count()
        assert done == count, f"{done} rows of {count} say that their task ran once, and well"
        self.checked += count


def bulk(numbers: range, task: SkipperTask = noop) -> list[TaskResult]:
    return enqueue_many([(task, [number]) for number in numbers])


def medians(measure: Callable[[], Figures], repeats: int) -> Figures:
    """The median of each figure."""
    runs = [measure() for _ in range(repeats)]
    return {name: median(run[name] for run in runs) for name in runs[0]}


def percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
