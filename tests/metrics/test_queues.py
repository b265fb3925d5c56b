"""The gauges of whole queues in the web process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections
from django.test import RequestFactory
from prometheus_client import REGISTRY

from skipper_django import metrics
from skipper_django.core.clock import ManualClock
from skipper_django.core.membership import MemberState
from skipper_django.core.states import TaskState
from skipper_django.metrics.names import QUEUE_METRICS
from skipper_django.models import Member
from skipper_django.store import stats
from skipper_django.store.clock import use_clock
from skipper_django.store.database import Database
from tests.metrics.scraping import Series, parse, total, values_of
from tests.store.support import NOW, row, save

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def database(queue: str) -> Iterator[Database]:
    """The project's queue is in the database under test, where it is NOW."""
    before = use_clock(queue, ManualClock(NOW))
    yield Database(queue)
    use_clock(queue, before)


def read() -> Series:
    """Without what the workers have counted that other tests ran in this process."""
    page = metrics.view(RequestFactory().get("/skipper/metrics")).content.decode()
    names = {metric.exposed_name for metric in QUEUE_METRICS}
    return {key: value for key, value in parse(page).items() if key[0] in names}


def test_tasks_are_counted_by_tenant_queue_and_state(database: Database, settings: Any) -> None:
    settings.TASKS = {
        **settings.TASKS,
        "acme": {
            "BACKEND": "skipper_django.backend.SkipperBackend",
            "QUEUES": [],
            "OPTIONS": {"TENANT": "acme"},
        },
    }
    save(
        database,
        *(row() for _ in range(3)),
        *(row(status=TaskState.SCHEDULED, run_after=NOW + timedelta(days=1)) for _ in range(2)),
        row(status=TaskState.RUNNING),
        *(row(status=TaskState.FAILED, reason="exception") for _ in range(4)),
        row(status=TaskState.SUCCESSFUL),
        row(queue_name="mail"),
        row(tenant="acme"),
        row(tenant="acme"),
        row(tenant="somebody else"),
    )

    series = read()

    def counts(tenant: str, queue: str) -> list[float]:
        return [
            total(series, f"skipper_queue_{state}_tasks_capped", tenant=tenant, queue=queue)
            for state in ("ready", "scheduled", "running", "failed")
        ]

    assert counts("default", "default") == [3, 2, 1, 4]
    assert counts("default", "mail") == [1, 0, 0, 0]
    assert counts("acme", "default") == [2, 0, 0, 0]
    assert {dict(labels)["tenant"] for _, labels in series} == {"default", "acme"}


def test_counts_end_at_the_cap(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "CAP", 10)
    save(database, *(row() for _ in range(25)))

    assert values_of(read(), "skipper_queue_ready_tasks_capped") == [10]


def test_the_oldest_is_found_under_any_priority(database: Database) -> None:
    second = timedelta(seconds=1)
    for priority in (50, 10, 0, -3):
        save(database, *(row(priority=priority, bucket=5, run_after=NOW - second) for _ in "ab"))
    save(database, row(priority=-3, bucket=5, run_after=NOW - 600 * second))
    save(database, row(priority=90, bucket=700, run_after=NOW - 20 * second))
    save(database, row(queue_name="other", run_after=NOW - 7 * second))
    save(database, row(queue_name="idle", status=TaskState.RUNNING))

    series = read()

    assert {
        dict(labels)["queue"]: value
        for (name, labels), value in series.items()
        if name == "skipper_queue_oldest_ready_seconds"
    } == {"default": 600, "other": 7, "idle": 0}


def member(database: Database, member_id: str, **values: Any) -> None:
    defaults: dict[str, Any] = {
        "tenant": "default",
        "incarnation": 1,
        "host": "host",
        "host_key": "",
        "pid": 1,
        "process_started": "",
        "started_at": NOW,
        "heartbeat_at": NOW,
        "version": "",
        "queues": "",
        "concurrency": 1,
        "state": MemberState.ACTIVE.value,
        "fetch_mode": "",
        "reason": "",
        "range_start": 0,
        "range_stop": 0,
        **dict.fromkeys(("running", "claimed", "stolen", "lost_races"), 0),
        **dict.fromkeys(("partitioned_fetches", "whole_queue_fetches"), 0),
    }
    Member.objects.using(database.alias).create(member_id=member_id, **{**defaults, **values})


def test_members_live_are_those_that_beat_within_the_window(database: Database) -> None:
    member(database, "new")
    member(database, "late", heartbeat_at=NOW - timedelta(seconds=59))
    member(database, "draining", state=MemberState.DRAINING.value)
    member(database, "silent", heartbeat_at=NOW - timedelta(seconds=60))
    member(database, "dead", state=MemberState.DEAD.value)
    member(database, "foreign", tenant="acme")

    assert values_of(read(), "skipper_cluster_live_members") == [3]


def test_an_empty_queue_has_no_members_and_no_errors(database: Database) -> None:
    series = read()

    assert values_of(series, "skipper_cluster_live_members") == [0]
    assert values_of(series, "skipper_queue_ready_tasks_capped") == []
    assert "skipper_queue_scrape_errors_total" in {name for name, _ in series}


def test_a_database_that_is_away_leaves_its_gauges_out_and_is_counted(settings: Any) -> None:
    before = total(read(), "skipper_queue_scrape_errors_total")
    settings.SKIPPER = {"DATABASE": "nowhere"}

    series = read()

    assert total(series, "skipper_queue_scrape_errors_total") == before + 1
    assert {name for name, _ in series} == {"skipper_queue_scrape_errors_total"}


def test_a_table_that_is_missing_does_not_break_the_scrape(database: Database) -> None:
    before = total(read(), "skipper_queue_scrape_errors_total")
    with database.connection.schema_editor() as editor:
        editor.alter_db_table(Member, "skipper_cluster_members", "skipper_gone")
    try:
        series = read()
    finally:
        with database.connection.schema_editor() as editor:
            editor.alter_db_table(Member, "skipper_gone", "skipper_cluster_members")

    assert total(series, "skipper_queue_scrape_errors_total") == before + 1
    assert not values_of(series, "skipper_cluster_live_members")


def test_registering_asks_the_database_nothing_and_twice_is_once(
    django_assert_num_queries: Any,
) -> None:
    with django_assert_num_queries(0):
        metrics.register()
        metrics.register()
    try:
        names = [family.name for family in REGISTRY.collect()]
    finally:
        metrics.unregister()
    assert names.count("skipper_cluster_live_members") == 1


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
print(ExportToDjangoView(RequestFactory().get("/metrics")).content.decode())
"""


def test_django_prometheus_s_page_shows_them_by_itself() -> None:
    save(Database("default"), row())
    connections["default"].close()

    page = subprocess.run(
        [sys.executable, "-c", PAGE], capture_output=True, text=True, timeout=60, check=True
    ).stdout

    series = parse(page)
    assert total(series, "skipper_queue_ready_tasks_capped", queue="default") == 1
    assert total(series, "skipper_cluster_live_members", tenant="default") == 0
    assert any(name.startswith("python_info") for name, _ in series)
