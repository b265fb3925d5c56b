"""The database goes away and comes back; connections are cut; the worker lives on."""

from __future__ import annotations

import functools
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.db.models import QuerySet

from skipper_django.models import Task
from tests import tasks
from tests.proxy import Proxy
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks
from tests.worker.conftest import skipper_settings

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State


@pytest.mark.case("R34")
def test_an_idle_worker_survives_an_outage_and_resumes(
    proxy: Proxy, through: Any, enqueue: Any, worker_process: Any, wait_for_state: Any
) -> None:
    worker = worker_process(**through)
    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)
    proxy.down()
    worker.wait_for_log("database unavailable while trying to claim")
    row = enqueue(tasks.noop)

    proxy.up()
    back = time.monotonic()
    row = wait_for_state(row, State.SUCCESSFUL)

    assert time.monotonic() - back < 5
    worker.wait_for_log("database is back: can claim")
    assert worker.log.count("unavailable while trying to claim") == 1
    assert "Traceback" not in worker.log


def test_upkeep_says_once_that_the_database_is_away_and_once_that_it_is_back(
    proxy: Proxy, through: Any, worker_process: Any
) -> None:
    away, back = "unavailable while trying to keep the queue", "is back: can keep the queue"
    worker = worker_process("--queue", "default", **through)
    worker.wait_for_log("started")

    proxy.down()
    worker.wait_for_log(away)
    worker_tasks.nap(3.0)  # longer than each of its timers
    assert back not in worker.log
    proxy.up()
    worker.wait_for_log(back)

    assert (worker.log.count(away), worker.log.count(back)) == (1, 1)


def test_the_outcome_of_a_task_that_ran_during_an_outage_is_stored_after_it(
    proxy: Proxy,
    through: Any,
    enqueue: Any,
    worker_process: Any,
    wait_for_state: Any,
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    row = enqueue(worker_tasks.slow, str(path), "task", 1.0)
    worker_process(**through)
    wait_until(lambda: worker_tasks.lines(path) == ["start task"])
    proxy.down()
    wait_until(lambda: worker_tasks.lines(path) == ["start task", "end task"])

    proxy.up()
    row = wait_for_state(row, State.SUCCESSFUL)

    assert (row.attempts, row.lost_leases) == (1, 0)
    assert worker_tasks.lines(path) == ["start task", "end task"]


def test_a_signal_ends_a_worker_during_an_outage(
    proxy: Proxy, through: Any, worker_process: Any, enqueue: Any, wait_for_state: Any
) -> None:
    worker = worker_process("--shutdown-timeout", "2", **through)
    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)
    proxy.down()
    worker.wait_for_log("database unavailable")

    worker.send(signal.SIGTERM)

    assert worker.wait(15) == 0
    proxy.up()


def test_cut_connections_lose_and_double_nothing(
    proxy: Proxy,
    through: Any,
    alias: str,
    enqueue: Any,
    worker_process: Any,
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    for number in range(60):
        enqueue(worker_tasks.slow, str(path), str(number), 0.05)
    worker_process("--concurrency", "2", **through, **skipper_settings(LEASE_DURATION=5))

    done = Task.objects.using(alias).filter(status=State.SUCCESSFUL)
    for mark in (5, 15, 25, 35):
        wait_until(functools.partial(_reached, done, mark), 30)
        proxy.cut()

    wait_until(lambda: done.count() == 60, 60, "all tasks done")
    ended = [line for line in worker_tasks.lines(path) if line.startswith("end")]
    assert {line.split()[1] for line in ended} == {str(number) for number in range(60)}


def test_a_claim_whose_reply_is_lost_is_handed_back_at_once(
    proxy: Proxy, through: Any, enqueue: Any, worker_process: Any, wait_for_state: Any
) -> None:
    worker = worker_process(**through)
    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)
    proxy.lose_reply_to(b"SET status = 2")

    row = enqueue(tasks.noop)
    wait_until(lambda: proxy.has_lost_reply)
    row = wait_for_state(row, State.SUCCESSFUL, 10)

    assert (row.attempts, row.lost_leases) == (1, 0)
    assert len(row.worker_ids.splitlines()) == 1
    worker.wait_for_log("handed back 1 tasks whose claim was not answered")


def test_an_outcome_whose_reply_is_lost_is_stored_once(
    proxy: Proxy, through: Any, enqueue: Any, worker_process: Any, wait_for_state: Any
) -> None:
    worker = worker_process(**through)
    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)
    proxy.lose_reply_to(b"lease_token = -lease_token")

    row = enqueue(tasks.noop)
    wait_until(lambda: proxy.has_lost_reply)
    row = wait_for_state(row, State.SUCCESSFUL, 10)
    worker.wait_for_log("database is back: can claim")

    assert (row.attempts, row.lost_leases) == (1, 0)
    assert "lost its lease" not in worker.log


def _reached(rows: QuerySet[Task], mark: int) -> bool:
    return rows.count() >= mark


@pytest.mark.case("R35")
def test_a_slot_s_dead_connection_is_replaced_before_the_next_task(
    alias: str, enqueue: Any, start_worker: Any, wait_for_state: Any, kill_sessions: Any
) -> None:
    start_worker(concurrency=1)
    wait_for_state(enqueue(worker_tasks.query, alias), State.SUCCESSFUL)
    worker_tasks.nap(1.2)

    kill_sessions()

    row = wait_for_state(enqueue(worker_tasks.query, alias), State.SUCCESSFUL)
    assert (row.result, row.attempts) == ("42", 1)


@pytest.fixture
def kill_sessions(alias: str) -> Callable[[], None]:
    """End every session of this database but the test's own."""

    def kill() -> None:
        connection = connections[alias]
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            elif connection.vendor == "mysql":
                cursor.execute(
                    "SELECT id FROM information_schema.processlist "
                    "WHERE db = DATABASE() AND id <> CONNECTION_ID()"
                )
                for (session,) in cursor.fetchall():
                    cursor.execute(f"KILL {session}")

    return kill
