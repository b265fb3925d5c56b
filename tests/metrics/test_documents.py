"""Names are a promise; the page, the alerts and the dashboard use those that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from skipper_django.metrics.board import Place
from skipper_django.metrics.embedded import METRICS, EmbeddedCollector
from skipper_django.metrics.exporter import WorkerCollector
from skipper_django.metrics.names import COUNTER, HISTOGRAM, QUEUE_METRICS, WORKER_METRICS, Metric
from skipper_django.metrics.queues import QueueCollector
from tests.docs.pages import DOCS, code, rows, section

PAGE = DOCS / "metrics.md"
ALERTS = DOCS / "prometheus" / "alerts.yml"
DASHBOARD = DOCS / "grafana" / "skipper.json"
ALL = (*WORKER_METRICS, *QUEUE_METRICS)
# What Prometheus and histograms add.
ADDED_LABELS = {"le", "instance", "job"}

# The metrics that Skipper's page on scaling out promises.
OF_THE_PAGE = (
    "schedulerManager.fetchedTasks",
    "schedulerManager.fetchedTasks{partitioned=true}",
    "schedulerManager.fetchErrors{error=partitioning_fallback}",
    "schedulerManager.clusterMemberStartRange",
    "schedulerManager.clusterMemberEndRange",
    "jdbcClusterMembershipManager.heartbeat",
    "jdbcClusterMembershipManager.getActiveMembers",
    "sqliteScheduler.leaseLockContention",
)


def labels_by_series() -> dict[str, set[str]]:
    """Every series name that can stand in a query, with the labels it has."""
    found = {}
    for metric in ALL:
        labels = {*metric.labels, "instance", "job"}
        if metric.kind == HISTOGRAM:
            for ending in ("_count", "_sum"):
                found[metric.name + ending] = labels
            found[f"{metric.name}_bucket"] = labels | {"le"}
        else:
            found[metric.exposed_name] = labels
    return found


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\bskipper_\w+", text))


def test_names_and_labels_do_not_change_by_accident() -> None:
    golden = (Path(__file__).parent / "names.txt").read_text().splitlines()

    assert [
        f"{metric.exposed_name} {metric.kind} {','.join(metric.labels) or '-'}"
        for metric in sorted(ALL, key=lambda metric: metric.exposed_name)
    ] == golden


def test_names_follow_the_rules() -> None:
    for metric in ALL:
        assert re.fullmatch(r"skipper_[a-z]+(_[a-z]+)*", metric.name)
        assert metric.exposed_name.endswith("_total") == (metric.kind == COUNTER)
        assert not {"id", "task_id"} & set(metric.labels)
        assert metric.help.endswith(".")
        if metric.kind == HISTOGRAM:
            assert metric.name.endswith(("_seconds", "_tasks"))
    assert len({metric.name for metric in ALL}) == len(ALL)


@pytest.mark.parametrize(
    ("collector", "metrics"),
    [
        (WorkerCollector([Place()], Place()), WORKER_METRICS),
        (QueueCollector(), QUEUE_METRICS),
        (EmbeddedCollector(), METRICS),
    ],
    ids=["worker", "queue", "embedded"],
)
def test_the_collectors_know_exactly_these(
    collector: Collector, metrics: tuple[Metric, ...]
) -> None:
    families = collector.describe() if hasattr(collector, "describe") else collector.collect()

    assert [(family.name, family.type) for family in families] == [
        (metric.name, metric.kind) for metric in metrics
    ]
    CollectorRegistry(auto_describe=True).register(collector)


@pytest.mark.parametrize(
    ("heading", "metrics"),
    [
        ("## The port of a worker command", WORKER_METRICS),
        ("## `/metrics` of the web process", QUEUE_METRICS),
    ],
)
def test_the_page_lists_every_metric_with_its_labels(
    heading: str, metrics: tuple[Metric, ...]
) -> None:
    listed = [
        (code(name), kind, tuple(re.findall(r"`(\w+)`", labels)), text)
        for name, kind, labels, text in rows(section(PAGE.read_text(), heading))
    ]

    assert listed == [
        (metric.exposed_name, metric.kind, metric.labels, metric.help) for metric in metrics
    ]


def test_every_name_on_the_page_exists() -> None:
    known = set(labels_by_series()) | {metric.name for metric in ALL}
    # The package, the command and the prefix of nothing else.
    assert names_in(PAGE.read_text()) - known == {"skipper_django", "skipper_worker"}


def test_every_metric_of_skipper_s_page_has_its_counterpart() -> None:
    table = section(PAGE.read_text(), "## From Skipper's names to ours")

    counterparts = {code(theirs): names_in(ours) for theirs, ours in rows(table)}

    assert set(OF_THE_PAGE) <= set(counterparts)
    assert all(counterparts.values())


def alert_rules() -> list[tuple[str, str, str]]:
    """Name, expression, and the rest of each rule; the file is plain enough to read by lines."""
    return re.findall(
        r"- alert: (\w+)\n +expr: (.+)\n((?: {8}.*\n| +\w+: .*\n)+?)(?= +- alert|\Z)",
        ALERTS.read_text(),
    )


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text())


def queries() -> Iterator[Any]:
    for name, expression, _ in alert_rules():
        yield pytest.param(expression, id=name)
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
    yield pytest.param(dashboard()["templating"]["list"][1]["query"], id="tenants")


@pytest.mark.parametrize("query", list(queries()))
def test_a_query_uses_series_and_labels_that_exist(query: str) -> None:
    known = labels_by_series()
    names = names_in(query)

    assert names
    assert names <= set(known)
    common = set.intersection(*(known[name] for name in names))
    for name, selector in re.findall(r"(skipper_\w+)\{([^}]*)\}", query):
        assert set(re.findall(r"(\w+)\s*(?:=|!)", selector)) <= known[name]
    for grouped in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
        assert set(re.findall(r"\w+", grouped)) <= common
    assert query.count("(") == query.count(")")


def test_counters_are_looked_at_as_rates_and_gauges_are_not() -> None:
    growing = {name for name in labels_by_series() if name.endswith(("_total", "_bucket"))}
    for parameter in queries():
        query = str(parameter.values[0])
        if query.startswith("label_values"):
            continue
        in_rates = set(re.findall(r"(?:rate|increase)\((skipper_\w+)", query))
        assert in_rates == names_in(query) & growing


def test_an_alert_names_only_labels_that_its_query_keeps() -> None:
    rules = alert_rules()
    assert len(rules) == ALERTS.read_text().count("- alert:") > 5
    for name, expression, rest in rules:
        kept = set(re.findall(r"\w+", re.findall(r"by \(([^)]*)\)", expression)[0]))
        assert set(re.findall(r"\$labels\.(\w+)", rest)) <= kept, name


def test_a_panel_s_legend_names_only_labels_that_its_query_keeps() -> None:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            kept = set(re.findall(r"\w+", re.findall(r"by \(([^)]*)\)", target["expr"])[0]))
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept


def test_panels_do_not_lie_on_each_other() -> None:
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in dashboard()["panels"]]

    assert len(set(places)) == len(places)
    assert all(x + 8 <= 24 for x, _ in places)
