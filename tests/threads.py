"""Do something in another thread, on database connections of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from django.db import connections

T = TypeVar("T")


def in_thread(function: Callable[[], T], seconds: float = 30.0) -> T:
    """What the function returns there; what it raises is raised here."""
    values: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            values.append(function())
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "the thread is stuck"
    if errors:
        raise errors[0]
    return values[0]
