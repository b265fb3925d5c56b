"""What workers inside this web process tell (`skipper_django.embed`), on its own /metrics.

Each tenant and database has a place of its own, which outlives its worker: after a restart the
counters go on from where they were.
"""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ..core.telemetry import Telemetry
from . import names
from .board import Place
from .exporter import families_of
from .recorder import Recorder

METRICS = tuple(
    metric for metric in names.WORKER_METRICS if metric not in (names.PROCESSES, names.DEATHS)
)

_lock = threading.Lock()
_places: dict[tuple[str, str], Place] = {}


@contextmanager
def counting(database: str, tenant: str) -> Iterator[Telemetry]:
    """The telemetry of a worker here, for as long as it runs; one at a time for each place."""
    with _lock:
        place = _places.setdefault((database, tenant), Place())
    try:
        yield Recorder(place, tenant)
    finally:
        place.leave()


class EmbeddedCollector(Collector):
    """Counters and histograms of this process's workers added up, gauges of those that run."""

    def describe(self) -> Iterable[Metric]:
        return families_of(METRICS, [])

    def collect(self) -> Iterable[Metric]:
        with _lock:
            places = list(_places.values())
        return families_of(METRICS, places) if places else []


def _forget_after_fork() -> None:
    """The memory of a place is shared with a forked child, its worker is not."""
    global _lock
    _lock = threading.Lock()  # whoever held it has stayed behind
    _places.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
