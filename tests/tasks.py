"""Tasks that the tests run."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

from skipper_django import exponential, fixed, task


@task
def echo(*args: Any, **kwargs: Any) -> Any:
    return [list(args), kwargs]


@task
def noop() -> None:
    pass


MEETING = threading.Barrier(1)


@task
def meet() -> None:
    """Returns when as many as the test wants run at the same time."""
    MEETING.wait()


@task
def fail(message: str = "no") -> None:
    raise ValueError(message)


@task(max_attempts=3, backoff=fixed(10))
def fail_thrice() -> None:
    raise ValueError("again")


@task(max_attempts=5, backoff=exponential(1))
def flaky() -> None:
    raise OSError("flaky")


@task(takes_context=True)
def attempt_number(context: Any) -> int:
    return int(context.attempt)


@task
async def async_echo(value: Any) -> Any:
    await asyncio.sleep(0.01)
    return value


@task
async def async_fail() -> None:
    await asyncio.sleep(0.01)
    raise RuntimeError("async no")


@task
def kill_worker() -> None:
    os.kill(os.getpid(), 9)


release = threading.Event()


@task
def wait_for_release() -> str:
    release.wait(30)
    return "released"


@task
def return_infinity() -> Any:
    return {"score": float("inf")}
