"""A module that nobody imports until a row names one of its tasks."""

from __future__ import annotations

from skipper_django import task
from tests.contract.tasks import plain_task


@plain_task
def late() -> str:
    return "ran"


def wrapped() -> str:
    return "wrapped"


wrapper = task(wrapped)


def plain() -> str:
    return "no task"
