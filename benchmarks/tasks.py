"""The tasks that are measured."""

from __future__ import annotations

import asyncio
import time

from benchmarks.effects import leave
from skipper_django import task


@task
def noop(number: int) -> None:
    """Nothing but the line by which it is counted."""
    leave(number)


@task
def sleep_a_millisecond(number: int) -> None:
    time.sleep(0.001)
    leave(number)


@task
async def sleep_a_tenth(number: int) -> None:
    await asyncio.sleep(0.1)
    leave(number)
