"""django-tasks-db: the backend of Django's own Tasks framework for databases."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.base import DJANGO
from benchmarks.peers.django_peer import DjangoPeer


class DjangoTasksDb(DjangoPeer):
    name = "django-tasks-db"
    requirements = ("django-tasks-db", *DJANGO)
    setting = "N x `db_worker`; persistent connections (faster than its default)"
    apps = ("django_tasks_db",)

    def backend(self) -> dict[str, Any]:
        return {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": ["default"]}

    def left(self) -> int:
        from django_tasks_db.models import DBTaskResult

        return DBTaskResult.objects.exclude(status="SUCCESSFUL").count()

    def workers(self, processes: int) -> list[list[str]]:
        return [self.command("db_worker", "-v", "0", "--no-startup-delay")] * processes
