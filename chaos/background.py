"""What goes on beside a scenario."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.db import connections


@contextmanager
def background(alias: str, work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `work` in a thread of its own, which returns once the event is set."""
    stop = threading.Event()

    def run() -> None:
        work(stop)
        connections[alias].close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
