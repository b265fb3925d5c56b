"""The task of the Django peers: the same line as ours leaves."""

from __future__ import annotations

from django.tasks import task

from benchmarks.effects import leave


@task
def noop(number: int) -> None:
    leave(number)
