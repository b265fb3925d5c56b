"""steady-queue: Solid Queue of Rails, for Django."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.peers.base import DJANGO, PROCESSES_VARIABLE
from benchmarks.peers.django_peer import DjangoPeer


class SteadyQueue(DjangoPeer):
    name = "steady-queue"
    requirements = ("steady-queue", *DJANGO)
    setting = (
        "`steady_queue` with N worker processes of 3 threads and a dispatcher, its defaults; "
        "persistent connections"
    )
    apps = ("django.contrib.contenttypes", "steady_queue")

    def backend(self) -> dict[str, Any]:
        return {"BACKEND": "steady_queue.backend.SteadyQueueBackend", "QUEUES": ["default"]}

    def settings(self) -> dict[str, Any]:
        from steady_queue.configuration import Configuration

        processes = int(os.environ.get(PROCESSES_VARIABLE, "1"))
        workers = [Configuration.Worker(processes=processes)]
        return {"STEADY_QUEUE": Configuration.Options(workers=workers)}

    def left(self) -> int:
        from steady_queue.models import Job

        return Job.objects.filter(finished_at=None).count()

    def workers(self, processes: int) -> list[list[str]]:
        # It would import every app's `tasks`, and with it our package.
        command = self.command("steady_queue", "-v", "0", "--disable-autoload")
        return [["env", f"{PROCESSES_VARIABLE}={processes}", *command]]
