"""Wait for a fact, with a deadline; never for time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal, TypeVar

T = TypeVar("T")


def wait_until(
    fact: Callable[[], T | Literal[False] | None], seconds: float = 20.0, what: str = ""
) -> T:
    """The first true answer of `fact`; AssertionError with `what` if none comes in time."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        answer = fact()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or fact}")
        pause.wait(0.01)
