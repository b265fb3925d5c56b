"""django-ox."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.base import DJANGO
from benchmarks.peers.django_peer import DjangoPeer, portions


class DjangoOx(DjangoPeer):
    name = "django-ox"
    requirements = ("django-ox", *DJANGO)
    setting = (
        "`ox_worker --processes N`, one task at a time in each, its default; "
        "persistent connections, as it recommends"
    )
    bulk = backlog = deferring = True
    apps = ("django_ox",)

    def backend(self) -> dict[str, Any]:
        return {"BACKEND": "django_ox.backend.OxBackend"}

    def fill(self, numbers: range) -> None:
        self._many(self.noop, numbers)

    def defer(self, count: int) -> None:
        self._many(self.noop_later, range(count))

    def _many(self, task: Any, numbers: range) -> None:
        from django_ox.bulk import enqueue_many

        for some in portions(numbers, 5_000):
            enqueue_many(task, [((number,), {}) for number in some])

    def left(self) -> int:
        from django.utils import timezone
        from django_ox.models import OxTask

        tasks = OxTask.objects.exclude(status="SUCCESSFUL")
        return tasks.exclude(run_after__gt=timezone.now()).count()

    def arguments(self, processes: int) -> tuple[str, ...]:
        return ("ox_worker", "-v", "0", "--processes", str(processes))
