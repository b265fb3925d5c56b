"""The one port of a skipper_worker command: every process's numbers, added up.

The supervisor binds the port, and a process of its own beside the workers answers there. Not the
supervisor: it forks replacements, and forking with HTTP threads running may deadlock the child;
a slow client must not keep it from its children either. It keeps the socket, so that connections
wait in the backlog while the exporter itself is replaced.
"""

import os
import signal
import socket
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import isnan
from socketserver import TCPServer, ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ..core.telemetry import Telemetry
from . import names
from .board import Key, Place
from .recorder import Numbers, Recorder

SUPERVISOR_LOOKS_EVERY_SECONDS = 0.5
SLOW_CLIENT_SECONDS = 10

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Handler(WSGIRequestHandler):
    timeout = SLOW_CLIENT_SECONDS

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_port = False  # a port in use is an error, not shared

    def __init__(self, address: str, port: int) -> None:
        ((family, *_), *_) = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
        self.address_family = family
        super().__init__((address, port), _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's: it would ask the name service who we are.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()

    def serve_while_child_of(self, supervisor: int) -> None:
        self.timeout = SUPERVISOR_LOOKS_EVERY_SECONDS
        while os.getppid() == supervisor:
            self.handle_request()


class Exporter:
    """Made by the supervisor before it forks. Raises OSError for a port that cannot be had."""

    name = "metrics"

    def __init__(self, address: str, port: int, processes: int) -> None:
        self._server = _Server(address, port)
        self._workers = [Place() for _ in range(processes)]
        self._own = Place()
        self._supervisor = os.getpid()
        self._numbers = Numbers(self._own)
        for cause in ("crashed", "killed", "stuck"):
            self._numbers.add(names.DEATHS, cause, amount=0)

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        host = f"[{host!s}]" if ":" in str(host) else host
        return f"http://{host!s}:{port}/metrics"

    def telemetry(self, index: int, tenant: str) -> Telemetry:
        """For the worker process of this number, which calls it after the fork."""
        return Recorder(self._workers[index], tenant)

    def child_ended(self, index: int, cause: str | None) -> None:
        """Told by the supervisor; `cause`: why it died, if it did."""
        self._workers[index].leave()
        if cause is not None:
            self._numbers.add(names.DEATHS, cause)

    def has_ended(self, index: int) -> bool:
        return False

    def close(self) -> None:
        self._server.socket.close()

    def run(self) -> int:
        """In the process of its own, until it is killed or the supervisor is gone."""
        for number in SIGNALS:
            # Those who stop every process of a container mean the workers, whose last numbers
            # are still to be read; the supervisor kills this one when they have ended.
            signal.signal(number, signal.SIG_IGN)
        registry = CollectorRegistry()
        registry.register(WorkerCollector(self._workers, self._own))
        self._server.set_app(make_wsgi_app(registry))
        self._server.serve_while_child_of(self._supervisor)
        return 0


class WorkerCollector(Collector):
    """The places of a command's processes and of its supervisor."""

    def __init__(self, workers: list[Place], supervisor: Place) -> None:
        self._workers = workers
        self._supervisor = supervisor

    def collect(self) -> Iterable[Metric]:
        return families_of(names.WORKER_METRICS, [*self._workers, self._supervisor], self._workers)


def families_of(
    metrics: Iterable[names.Metric], places: Sequence[Place], workers: Sequence[Place] = ()
) -> list[Metric]:
    """Counters and histograms of all places added up, gauges of those whose process runs."""
    series: dict[str, dict[Key, list[float]]] = defaultdict(dict)
    for place in places:
        is_taken = place.is_taken
        for (name, *labels), values in place.read():
            if names.BY_NAME[name].kind == names.GAUGE:
                if is_taken and not isnan(values[0]):
                    series[name][tuple(labels)] = list(values)
            else:
                before = series[name].get(tuple(labels), [0.0] * len(values))
                series[name][tuple(labels)] = [a + b for a, b in zip(before, values, strict=True)]
    taken = sum(place.is_taken for place in workers)
    series[names.PROCESSES.name][()] = [float(taken)]
    series[names.DROPPED.name][()] = [sum(place.dropped for place in places)]
    return [family_of(metric, series[metric.name]) for metric in metrics]


def family_of(metric: names.Metric, series: dict[Key, list[float]]) -> Metric:
    family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    if metric.kind == names.HISTOGRAM:
        family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, values in sorted(series.items()):
            family.add_metric(labels, list(_bounds(metric, values)), sum_value=values[-1])
        return family
    kind = CounterMetricFamily if metric.kind == names.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, values in sorted(series.items()):
        family.add_metric(labels, values[0])
    return family


def _bounds(metric: names.Metric, values: list[float]) -> Iterator[tuple[str, float]]:
    bounds = [*map(str, metric.buckets), "+Inf"]
    return zip(bounds, accumulate(values[:-1]), strict=True)
