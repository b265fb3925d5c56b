"""The tasks that are measured."""

from __future__ import annotations

from benchmarks.effects import leave
from skipper_django import task


@task
def noop(number: int) -> None:
    """Nothing but the line by which it is counted."""
    leave(number)
