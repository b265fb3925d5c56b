"""Reported faults of claiming: lost races, greedy workers, finished rows, old servers."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from skipper_django import conf, enqueue_many
from skipper_django.core.buckets import ALL_BUCKETS
from skipper_django.models import Task
from skipper_django.store.claim import Claimant, choose, claim, take
from skipper_django.store.clock import clock_of
from skipper_django.store.database import Database
from skipper_django.store.lanes import lanes_in_use
from skipper_django.testing import run_ready
from tests.contract import tasks


class Member:
    """Claims as a worker that owns the whole queue would."""

    def __init__(self, alias: str, name: str) -> None:
        self.database = Database(alias)
        lanes = tuple(lanes_in_use(self.database, conf.load().tenant))
        self.claimant = Claimant(name, lanes, ALL_BUCKETS, 60.0)
        self.now = clock_of(alias).now()

    def choose(self, limit: int) -> Any:
        return choose(self.database, self.claimant, limit)

    def take(self, heads: Any) -> list[str]:
        return [lease.task_id for lease in take(self.database, self.claimant, heads, self.now)]

    def claim(self, limit: int) -> list[str]:
        return [lease.task_id for lease in claim(self.database, self.claimant, limit, self.now)]


@pytest.mark.case("R10")
def test_no_statement_needs_skip_locked(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for feature in ("has_select_for_update", "has_select_for_update_skip_locked"):
        monkeypatch.setattr(connections[queue].features, feature, False)

    with CaptureQueriesContext(connections[queue]) as captured:
        enqueue_many([(tasks.other, [number]) for number in range(5)])
        tasks.other.using(task_id="own").enqueue(1)
        assert run_ready() == 6

    assert not [q for q in captured.captured_queries if "SKIP LOCKED" in q["sql"].upper()]


@pytest.mark.case("R11")
def test_the_loser_of_a_race_drops_only_the_lost_row(queue: str) -> None:
    enqueue_many([(tasks.other, [number]) for number in range(10)])
    first, second = Member(queue, "first"), Member(queue, "second")
    heads = first.choose(10)
    assert second.choose(10) == heads

    winner = second.take(heads[3:5])
    loser = first.take(heads)

    assert (len(winner), len(loser)) == (2, 8)
    assert not set(winner) & set(loser)
    assert second.take(heads) == []


@pytest.mark.case("R12")
def test_a_claim_leases_no_more_than_was_asked_for(queue: str) -> None:
    enqueue_many([(tasks.other, [number]) for number in range(50)])

    claimed = Member(queue, "first").claim(2)

    assert len(claimed) == 2
    running = Task.objects.using(queue).filter(status=Task.State.RUNNING)
    assert running.count() == 2
    assert len(Member(queue, "second").claim(10)) == 10


def finish_all(alias: str) -> None:
    Task.objects.using(alias).update(status=Task.State.SUCCESSFUL, ord=0)


def rows_read(alias: str) -> int:
    with connections[alias].cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(value) for _, value in cursor.fetchall())


@pytest.mark.case("R13")
@pytest.mark.django_db(transaction=True)  # ANALYZE commits on MySQL
def test_finished_rows_cost_a_claim_nothing(queue: str) -> None:
    # So many that reading the whole index looks dear to MySQL also while it has not purged what
    # was READY: with 2,000 it reads all of them then, in a millisecond.
    enqueue_many([(tasks.other, [1])] * 10_000)
    finish_all(queue)
    with connections[queue].cursor() as cursor:
        if connections[queue].vendor != "sqlite":
            table = connections[queue].ops.quote_name(Task._meta.db_table)
            analyze = "ANALYZE TABLE" if connections[queue].vendor == "mysql" else "ANALYZE"
            cursor.execute(f"{analyze} {table}")
    member = Member(queue, "first")
    few = enqueue_many([(tasks.other, [2])] * 4)

    with CaptureQueriesContext(connections[queue]) as captured:
        if connections[queue].vendor == "mysql":
            before = rows_read(queue)
            heads = member.choose(4)
            assert rows_read(queue) - before < 500
        else:
            heads = member.choose(4)

    assert len(member.take(heads)) == len(few)
    for query in captured.captured_queries:
        if query["sql"].startswith(("SELECT", "WITH")) and "skipper" in query["sql"]:
            assert_uses_the_hot_index(queue, query["sql"])


def assert_uses_the_hot_index(alias: str, sql: str) -> None:
    explain = {"sqlite": "EXPLAIN QUERY PLAN", "mysql": "EXPLAIN", "postgresql": "EXPLAIN"}
    with connections[alias].cursor() as cursor:
        cursor.execute(f"{explain[connections[alias].vendor]} {sql}".replace("%", "%%"))
        plan = "\n".join(str(row) for row in cursor.fetchall())
    assert "tasks_hot" in plan, plan
    assert "Seq Scan on skipper" not in plan, plan


@pytest.mark.case("R21")
@pytest.mark.parametrize("attempts", [1, 3])
def test_a_failing_task_runs_as_often_as_it_says(queue: str, attempts: int) -> None:
    task = tasks.fails_once if attempts == 1 else tasks.fails_thrice
    result = task.enqueue()

    runs = run_ready()

    result.refresh()
    assert (runs, result.attempts, len(result.errors)) == (attempts, attempts, attempts)
    row = Task.objects.using(queue).get()
    assert (row.status, row.lost_leases) == (Task.State.FAILED, 0)
