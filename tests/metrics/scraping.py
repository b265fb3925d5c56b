"""Read an exposition as a scraper does."""

from __future__ import annotations

import re
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.waiting import wait_until
from tests.worker.conftest import ProcessWorker

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> Series:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape(url: str) -> Series:
    with urlopen(url, timeout=20) as answer:  # noqa: S310
        return parse(answer.read().decode())


def total(series: Series, name: str, **labels: str) -> float:
    """The sum of the series of a name that have these labels."""
    return sum(values_of(series, name, **labels))


def values_of(series: Series, name: str, **labels: str) -> list[float]:
    wanted = set(labels.items())
    return [value for (of, have), value in series.items() if of == name and wanted <= have]


def members(series: Series) -> set[str]:
    """The members that have gauges."""
    return {dict(labels)["member"] for _, labels in series if "member" in dict(labels)}


def url_of(worker: ProcessWorker) -> str:
    """Where a worker command with --metrics-port 0 says that its metrics are."""

    def found() -> str:
        match = re.search(r"http://\S+/metrics", worker.log)
        return match[0] if match else ""

    return wait_until(found, 30, f"the address of the metrics in {worker.log}")
