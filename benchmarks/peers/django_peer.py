"""Peers that are Django apps: their tables by migration, their workers by management command."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

from benchmarks.peers.base import Peer


class DjangoPeer(Peer):
    """Persistent connections for all of them: dj-queue and django-ox recommend them."""

    apps: ClassVar[tuple[str, ...]]
    tasks_app: ClassVar[str] = "benchmarks.peers.apps.PeersConfig"
    tasks_module: ClassVar[str] = "benchmarks.peers.tasks"

    def backend(self) -> dict[str, Any]:
        """The backend among Django's TASKS."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Further settings."""
        return {}

    def django_databases(self) -> dict[str, dict[str, Any]]:
        return {"default": {**self.connection, "CONN_MAX_AGE": None}}

    def set_up(self) -> None:
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)

    def clear(self) -> None:
        from django.core.management import call_command

        call_command("flush", interactive=False, verbosity=0)

    @property
    def noop(self) -> Any:
        return importlib.import_module(self.tasks_module).noop

    @property
    def noop_later(self) -> Any:
        """The task, due in hours."""
        from datetime import timedelta

        from django.utils import timezone

        return self.noop.using(run_after=timezone.now() + timedelta(hours=5))

    def enqueue(self, number: int) -> None:
        self.noop.enqueue(number)

    def fill(self, numbers: range) -> None:
        from django.db import transaction

        for some in portions(numbers, 5_000):
            with transaction.atomic():
                self.singles(some)

    def workers(self, processes: int) -> list[list[str]]:
        return [self.command(*self.arguments(processes))]

    def arguments(self, processes: int) -> tuple[str, ...]:
        """The management command, with its options, that starts the workers."""
        raise NotImplementedError

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "django", *arguments]


def portions(numbers: range, size: int) -> Iterator[range]:
    for start in range(numbers.start, numbers.stop, size):
        yield range(start, min(numbers.stop, start + size))
