"""Connections of the threads that run tasks: clean, checked, closed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from skipper_django.models import Task
from tests import tasks
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State


def test_a_transaction_left_open_by_a_task_harms_no_other(
    alias: str, enqueue: Any, start_worker: Any, fresh: Any
) -> None:
    left_open = enqueue(worker_tasks.leave_transaction_open, alias)
    after = enqueue(worker_tasks.query, alias)

    start_worker(drain=True, concurrency=1).join()

    assert fresh(left_open).status == State.SUCCESSFUL
    assert (fresh(after).status, fresh(after).result) == (State.SUCCESSFUL, "42")


def test_a_task_that_closes_all_connections_harms_no_other(
    alias: str, enqueue: Any, start_worker: Any, fresh: Any
) -> None:
    rows = [enqueue(worker_tasks.close_connections), enqueue(worker_tasks.query, alias)]

    start_worker(drain=True, concurrency=1).join()

    assert [fresh(row).status for row in rows] == [State.SUCCESSFUL] * 2


@pytest.mark.case("R37")
@override_settings(DEBUG=True)
def test_under_debug_the_query_log_is_forgotten_after_each_task(
    alias: str, enqueue: Any, start_worker: Any, fresh: Any
) -> None:
    rows = [enqueue(worker_tasks.use_connection, alias) for _ in range(10)]
    queries = [enqueue(worker_tasks.query, alias) for _ in range(10)]

    start_worker(drain=True, concurrency=1).join()

    logged = {json.loads(fresh(row).result)[1] for row in rows}
    assert len({json.loads(fresh(row).result)[0] for row in rows}) == 1, "one slot, one thread"
    assert max(logged) <= 4, "connecting itself may log a few statements"
    assert all(fresh(row).status == State.SUCCESSFUL for row in queries)


@pytest.mark.case("R36")
def test_sessions_are_few_and_fall_back_when_idle(
    alias: str,
    enqueue: Any,
    worker_process: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if connections[alias].vendor == "sqlite":
        pytest.skip("SQLite has no sessions to count")
    concurrency = 4
    for _ in range(100):
        enqueue(worker_tasks.query, alias)
    worker_process("--concurrency", str(concurrency))
    rows = Task.objects.using(alias)

    most = 0
    while rows.exclude(status=State.SUCCESSFUL).exists():
        most = max(most, _other_sessions(alias))

    # Of the loop, the upkeep, the heartbeat; on PostgreSQL one listens; a renewal has one as well.
    own = 3 + (connections[alias].vendor == "postgresql")
    assert most <= concurrency + own + 1
    wait_until(lambda: _other_sessions(alias) == own, 20, "slots close idle connections")


def _other_sessions(alias: str) -> int:
    connection = connections[alias]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        else:
            cursor.execute(
                "SELECT count(*) FROM information_schema.processlist "
                "WHERE db = DATABASE() AND id <> CONNECTION_ID()"
            )
        return int(cursor.fetchone()[0])


def test_noop_tasks_open_no_connection(
    alias: str, enqueue: Any, start_worker: Any, fresh: Any
) -> None:
    row = enqueue(worker_tasks.uses_connection, alias)
    enqueue(tasks.noop)

    start_worker(drain=True, concurrency=1).join()

    assert fresh(row).result == "false"
