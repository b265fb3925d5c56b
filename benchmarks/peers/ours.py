"""Ourselves, measured by the same calls."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.django_peer import DjangoPeer, portions


class Ours(DjangoPeer):
    name = "skipper-django"
    setting = "`skipper_worker --processes N`, 4 threads each, the defaults"
    bulk = backlog = deferring = True
    apps = ("skipper_django",)
    tasks_app = "benchmarks"
    tasks_module = "benchmarks.tasks"

    def backend(self) -> dict[str, Any]:
        return {"BACKEND": "skipper_django.backend.SkipperBackend", "QUEUES": []}

    def django_databases(self) -> dict[str, dict[str, Any]]:
        return {"default": self.connection}

    def fill(self, numbers: range) -> None:
        self._many(self.noop, numbers)

    def defer(self, count: int) -> None:
        self._many(self.noop_later, range(count))

    def _many(self, task: Any, numbers: range) -> None:
        from skipper_django.enqueue import enqueue_many

        for some in portions(numbers, 10_000):
            enqueue_many([(task, [number]) for number in some])

    def left(self) -> int:
        from skipper_django.core.states import TaskState
        from skipper_django.models import Task

        kept = (TaskState.SUCCESSFUL.value, TaskState.SCHEDULED.value)
        return Task.objects.exclude(status__in=kept).count()

    def arguments(self, processes: int) -> tuple[str, ...]:
        return ("skipper_worker", "-v", "0", "--processes", str(processes))
