"""What a worker inside the web process counts, on the /metrics of that process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from django.test import RequestFactory
from prometheus_client import REGISTRY, generate_latest

from skipper_django import metrics
from skipper_django.metrics import embedded
from skipper_django.metrics.names import BY_NAME, DEATHS, HISTOGRAM, PROCESSES, WORKER_METRICS
from skipper_django.models import Task
from skipper_django.worker.loop import Worker
from tests import tasks
from tests.metrics.scraping import Series, members, parse, total, values_of
from tests.waiting import wait_until
from tests.worker.conftest import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State


@pytest.fixture(autouse=True)
def nothing_counted_before(alias: str, settings: Settings) -> Iterator[None]:
    settings.SKIPPER = {"DATABASE": alias, "CLUSTER_HEARTBEAT_INTERVAL": 0.2}
    embedded._places.clear()
    yield
    embedded._places.clear()


def read() -> Series:
    return parse(metrics.view(RequestFactory().get("/skipper/metrics")).content.decode())


def succeeded(series: Series) -> float:
    return total(series, "skipper_tasks_finished_total", outcome="succeeded")


def of_workers(series: Series) -> set[str]:
    """The worker's metrics that have samples."""
    names = {name for metric in WORKER_METRICS for name in (metric.exposed_name, metric.name)}
    return {name.removesuffix("_count") for name, _ in series} & names


def test_without_a_worker_there_is_nothing_of_it(alias: str) -> None:
    assert not of_workers(read())


def test_counters_timers_and_gauges_of_the_worker_are_shown(
    alias: str,
    start: Any,
    enqueue: Any,
) -> None:
    start(member_name="web", concurrency=3)
    for _ in range(5):
        enqueue(tasks.noop)

    wait_until(lambda: succeeded(read()) == 5)
    series = wait_until(
        lambda: (
            (found := read()) and values_of(found, "skipper_member_range_end") == [1000] and found
        )
    )

    assert total(series, "skipper_tasks_claimed_total") == 5
    assert total(series, "skipper_task_seconds_count") == 5
    assert total(series, "skipper_member_heartbeat_seconds_count") > 0
    assert total(series, "skipper_scheduler_fetches_total", mode="partitioned") > 0
    assert values_of(series, "skipper_member_slots", member="web") == [3]
    shown = of_workers(series)
    assert not {PROCESSES.name, DEATHS.exposed_name} & shown, "these are the command's"
    assert {BY_NAME[name].kind for name in shown if name in BY_NAME} >= {"gauge", HISTOGRAM}


def test_counters_go_on_after_a_restart_and_gauges_go_with_the_worker(
    alias: str,
    start: Any,
    enqueue: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Worker.round
    broken: list[Worker] = []

    def breaks_once(worker: Worker) -> None:
        if not broken and worker.cluster.counters.claimed and not worker._custody:
            broken.append(worker)
            raise ZeroDivisionError("a fault of ours")
        whole(worker)

    monkeypatch.setattr(Worker, "round", breaks_once)
    first = start(member_name="first")
    enqueue(tasks.noop)
    wait_until(lambda: broken)
    enqueue(tasks.noop)
    wait_until(lambda: succeeded(read()) == 2, what="the successor counts on")
    assert members(read()) == {"first"}

    assert first.stop()
    assert (succeeded(read()), members(read())) == (2, set())

    start(member_name="second")
    enqueue(tasks.noop)
    wait_until(lambda: succeeded(read()) == 3, what="another worker counts on")
    assert members(read()) == {"second"}


@pytest.mark.parametrize("alias", ["default"], ids=["sqlite"])
def test_several_workers_share_one_registration(
    alias: str,
    start: Any,
    enqueue: Any,
    settings: Settings,
) -> None:
    ours = settings.TASKS["default"]
    settings.TASKS = {"default": ours, "other": {**ours, "OPTIONS": {"TENANT": "other"}}}
    metrics.register()
    try:
        start(member_name="a")
        start(member_name="b", backend="other")
        enqueue(tasks.noop)

        def page() -> Series:
            return parse(generate_latest(REGISTRY).decode())

        wait_until(lambda: succeeded(page()) == 1 and members(page()) == {"a", "b"})
        tenants = {
            dict(labels).get("tenant") for name, labels in page() if name == "skipper_member_slots"
        }
        assert tenants == {"default", "other"}
        names = [family.name for family in REGISTRY.collect()]
        assert names.count("skipper_tasks_finished") == 1
    finally:
        metrics.unregister()


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=PROJECT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        timeout=60,
    )


PAGE = """
import django
from django.conf import settings
from tests import settings as ours
values = {name: getattr(ours, name) for name in dir(ours) if name.isupper()}
values["INSTALLED_APPS"] = ["django_prometheus", *ours.INSTALLED_APPS]
settings.configure(**values)
django.setup()
from django.test import RequestFactory
from django_prometheus.exports import ExportToDjangoView
from skipper_django.embed import start_worker
from skipper_django.models import Task
from tests.waiting import wait_until
handle = start_worker()
wait_until(lambda: Task.objects.filter(status=3).exists())
wait_until(lambda: b'outcome="succeeded"' in (
    page := ExportToDjangoView(RequestFactory().get("/metrics")).content) and page)
print(ExportToDjangoView(RequestFactory().get("/metrics")).content.decode())
assert handle.stop()
"""


@pytest.mark.parametrize("alias", ["default"], ids=["sqlite"])
def test_django_prometheus_s_page_shows_them_by_itself(alias: str, enqueue: Any) -> None:
    enqueue(tasks.noop)

    ran = run(PAGE)

    assert ran.returncode == 0, ran.stderr
    series = parse(ran.stdout)
    assert succeeded(series) == 1
    assert len(values_of(series, "skipper_member_slots")) == 1
    assert total(series, "skipper_cluster_live_members", tenant="default") == 1


FORK = """
import os
import django
django.setup()
from skipper_django.metrics.embedded import EmbeddedCollector, counting
with counting("default", "default") as telemetry:
    telemetry.promoted(3)
    assert list(EmbeddedCollector().collect())
    child = os.fork()
    if not child:
        os._exit(bool(list(EmbeddedCollector().collect())))
    assert os.waitpid(child, 0)[1] == 0, "the child shows its parent's numbers"
"""


@pytest.mark.parametrize("alias", ["default"], ids=["sqlite"])
def test_a_forked_child_does_not_show_its_parent_s_numbers(alias: str) -> None:
    ran = run(FORK)

    assert ran.returncode == 0, ran.stderr
