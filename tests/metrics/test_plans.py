"""What a scrape costs the database: seeks and bounded walks in the hot index, never the table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from skipper_django.core.states import TaskState
from skipper_django.models import Task
from skipper_django.store import stats
from skipper_django.store.database import Database
from skipper_django.store.stats import queue_stats
from tests.store.conftest import database  # noqa: F401  (a fixture)
from tests.store.filling import fill
from tests.store.support import LANE, NOW, row, save
from tests.store.test_plans import analyze, forget_statistics
from tests.store.watching import watch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

CAP = 500
DAY = timedelta(days=1)
HOT = {"skipper_tasks_hot"}


@pytest.fixture(params=["stale", "fresh"])
def backlog(
    request: pytest.FixtureRequest,
    database: Database,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Database]:
    """Of every state some thousands, beside a long history and others' tasks."""
    monkeypatch.setattr(stats, "CAP", CAP)
    if request.param == "stale":
        save(database, row(), row(status=TaskState.RUNNING), row(status=TaskState.SUCCESSFUL))
        analyze(database)
        Task.objects.using(database.alias).all().delete()
    fill(database, 20, TaskState.SUCCESSFUL)
    fill(database, 5, TaskState.FAILED)
    fill(database, 5, TaskState.SCHEDULED, run_after=NOW + DAY)
    fill(database, 5, TaskState.READY, tenant="other")
    for priority in (0, 10, -10):
        fill(database, 2, TaskState.READY, priority=priority)
    if request.param == "fresh":
        analyze(database)
    yield database
    forget_statistics(database)


def test_a_scrape_reads_a_bounded_part_of_the_hot_index(backlog: Database) -> None:
    cost = watch(backlog, lambda: queue_stats(backlog, LANE))

    assert cost.scans == []
    assert all(indexes <= HOT for indexes in cost.indexes), cost.indexes
    # Three counts up to the cap, which MySQL and MariaDB read once more as a derived table, and a
    # seek for each of 63 slots and 3 priorities, with a fourth in vain.
    assert cost.rows_read <= 2 * 3 * (CAP + 10) + 4 * 63 * 4
    assert len(cost.statements) == 1 + 4
    assert not any(statement.sorted_rows for statement in cost.statements)


def test_the_cost_does_not_grow_with_the_queue(backlog: Database) -> None:
    before = watch(backlog, lambda: queue_stats(backlog, LANE)).rows_read
    for status in (TaskState.READY, TaskState.FAILED, TaskState.SUCCESSFUL):
        fill_more(backlog, status)

    after = watch(backlog, lambda: queue_stats(backlog, LANE)).rows_read

    assert after <= before * 1.1 + 20


def fill_more(database: Database, status: TaskState) -> None:  # noqa: F811
    ours = Task.objects.using(database.alias).filter(tenant="default", status=status.value)
    rows = list(ours[:3_000])
    for number, task in enumerate(rows):
        task.pk = None
        task.task_id = f"more-{status}-{number}"
    ours.bulk_create(rows, batch_size=500)
