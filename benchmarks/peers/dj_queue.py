"""dj-queue."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.peers.base import DJANGO, PROCESSES_VARIABLE
from benchmarks.peers.django_peer import DjangoPeer, portions


class DjQueue(DjangoPeer):
    name = "dj-queue"
    requirements = ("dj-queue", *DJANGO)
    setting = (
        "`dj_queue` with N worker processes of 3 threads and a dispatcher, its defaults; "
        "persistent connections, as it recommends; LISTEN/NOTIFY on PostgreSQL"
    )
    bulk = backlog = deferring = True
    apps = ("dj_queue",)

    def backend(self) -> dict[str, Any]:
        processes = int(os.environ.get(PROCESSES_VARIABLE, "1"))
        options = {"workers": [{"queues": "*", "threads": 3, "processes": processes}]}
        return {"BACKEND": "dj_queue.backend.DjQueueBackend", "QUEUES": [], "OPTIONS": options}

    def settings(self) -> dict[str, Any]:
        return {"DATABASE_ROUTERS": ["dj_queue.routers.DjQueueRouter"]}

    def fill(self, numbers: range) -> None:
        self._many(self.noop, numbers)

    def defer(self, count: int) -> None:
        self._many(self.noop_later, range(count))

    def _many(self, task: Any, numbers: range) -> None:
        for some in portions(numbers, 5_000):
            task.get_backend().enqueue_all([(task, [number], {}) for number in some])

    def left(self) -> int:
        from dj_queue.models import Job
        from django.utils import timezone

        return Job.objects.filter(finished_at=None).exclude(scheduled_at__gt=timezone.now()).count()

    def workers(self, processes: int) -> list[list[str]]:
        return [["env", f"{PROCESSES_VARIABLE}={processes}", *self.command("dj_queue", "-v", "0")]]
