"""Gauges of whole queues, asked of the database at each scrape of the web process."""

import logging
import threading
from collections import Counter
from collections.abc import Iterable

from django.db import connections
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .. import conf
from ..compat import task_backends
from ..core.config import Config
from ..core.states import TaskState
from ..store.clock import clock_of
from ..store.database import Database
from ..store.lanes import lanes_in_use
from ..store.stats import live_members, queue_stats
from . import names

logger = logging.getLogger("skipper_django.metrics")

BY_STATE = {
    TaskState.READY: names.READY,
    TaskState.SCHEDULED: names.SCHEDULED,
    TaskState.RUNNING: names.QUEUE_RUNNING,
    TaskState.FAILED: names.FAILED,
}

Series = dict[tuple[names.Metric, tuple[str, ...]], float]


class QueueCollector(Collector):
    """The queues of every tenant that this project names in SKIPPER and TASKS."""

    def __init__(self) -> None:
        self._errors: Counter[str] = Counter()
        self._lock = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        # Without it, registration would collect once: a query at import time.
        return _families({}, {})

    def collect(self) -> Iterable[Metric]:
        """Never raises: what cannot be asked is left out, and counted."""
        series: Series = {}
        configs = _configs()
        for config in configs:
            try:
                series |= _series_of(config)
            except Exception as error:
                logger.warning("no gauges of tenant %s: %s", config.tenant, error)
                with self._lock:
                    self._errors[config.tenant] += 1
        return _families(series, {config.tenant: self._errors[config.tenant] for config in configs})


def _configs() -> list[Config]:
    """One for each tenant of each database."""
    configs = [conf.load()]
    for alias in task_backends:
        backend = task_backends[alias]
        if conf.is_our_backend(type(backend)):
            configs.append(conf.load(backend.options))
    return list({(config.database, config.tenant): config for config in configs}.values())


def _series_of(config: Config) -> Series:
    # Where no request has opened this thread's connection, none will close it when it is stale.
    connections[config.database].close_if_unusable_or_obsolete()
    database = Database(config.database)
    now = clock_of(config.database).now()
    tenant = config.tenant
    series: Series = {
        (names.LIVE, (tenant,)): live_members(database, tenant, now, config.cluster_liveness_window)
    }
    for lane, queue_name in lanes_in_use(database, tenant).items():
        stats = queue_stats(database, lane)
        for state, metric in BY_STATE.items():
            series[metric, (tenant, queue_name)] = stats.counts[state]
        due = stats.oldest_ready
        age = (now - due).total_seconds() if due is not None else 0.0
        series[names.OLDEST, (tenant, queue_name)] = max(0.0, age)
    return series


def _families(series: Series, errors: dict[str, int]) -> list[Metric]:
    families: list[Metric] = []
    for metric in names.QUEUE_METRICS:
        if metric.kind == names.COUNTER:
            counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for tenant, count in sorted(errors.items()):
                counter.add_metric([tenant], count)
            families.append(counter)
            continue
        gauge = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        for (of, labels), value in sorted(series.items(), key=lambda item: item[0][1]):
            if of is metric:
                gauge.add_metric(labels, value)
        families.append(gauge)
    return families
