"""Reported faults of operation: locks of SQLite, full slots, pruning, rows that vanish."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections
from django.test.utils import CaptureQueriesContext

from skipper_django import conf, enqueue_many
from skipper_django.core.states import TaskState
from skipper_django.janitor import Janitor
from skipper_django.models import Task
from skipper_django.store.clock import clock_of
from skipper_django.store.database import Database
from tests import tasks
from tests.factories import add_task
from tests.store.support import side_by_side
from tests.waiting import wait_until
from tests.worker.conftest import enqueue, fresh, start_worker, wait_for_state

__all__ = ["enqueue", "fresh", "start_worker", "wait_for_state"]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _on_the_database_under_test(queue: str) -> None:
    tasks.release.clear()


@contextmanager
def writer() -> Iterator[list[BaseException]]:
    """The project writes all the while; what went wrong with it."""
    over = threading.Event()
    errors: list[BaseException] = []

    def write() -> None:
        number = 0
        while not over.is_set():
            number += 1
            try:
                Group.objects.create(name=f"group {number}")
            except BaseException as error:
                errors.append(error)
        connections.close_all()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield errors
    finally:
        over.set()
        thread.join()


@pytest.mark.case("R9")
@pytest.mark.parametrize("alias", ["default"], ids=["sqlite"])
def test_sqlite_in_its_deferred_mode_is_never_locked(
    alias: str, start_worker: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(connections.settings[alias]["OPTIONS"], "transaction_mode", None)
    with writer() as errors, caplog.at_level(logging.INFO):
        workers = [start_worker(concurrency=2) for _ in range(3)]
        enqueue_many([(tasks.noop, [])] * 300)
        rows = Task.objects.all()
        wait_until(lambda: not rows.exclude(status=TaskState.SUCCESSFUL.value).exists(), 60)
        for worker in workers:
            worker.stop()

    assert errors == []
    assert "locked" not in caplog.text
    assert set(rows.values_list("attempts", flat=True)) == {1}


@pytest.mark.case("R22")
def test_housekeeping_goes_on_while_every_slot_is_taken(
    alias: str, enqueue: Any, start_worker: Any, wait_for_state: Any
) -> None:
    worker = start_worker(settings={"lease_duration": 4.0}, concurrency=1)
    blocking = enqueue(tasks.wait_for_release)
    wait_for_state(blocking, Task.State.RUNNING)
    due = add_task(alias, "default", TaskState.SCHEDULED, due_in=0.5)
    long_ago = clock_of(alias).now() - timedelta(hours=1)
    lost = add_task(alias, "default", TaskState.RUNNING, lease_expires_at=long_ago)

    wait_for_state(due, Task.State.READY)
    wait_for_state(lost, Task.State.READY)

    assert Task.objects.using(alias).get(pk=blocking.pk).status == Task.State.RUNNING
    tasks.release.set()
    for row in (blocking, due, lost):
        wait_for_state(row, Task.State.SUCCESSFUL)
    worker.stop()


@pytest.mark.case("R40")
def test_two_that_prune_at_once_delete_in_small_statements_and_nothing_else(alias: str) -> None:
    now = clock_of(alias).now()
    long_ago = now - timedelta(days=40)
    done: dict[str, Any] = {
        "status": TaskState.SUCCESSFUL,
        "enqueued_at": long_ago,
        "finished_at": long_ago,
    }
    old = add_task(alias, "default", **done)
    Task.objects.using(alias).bulk_create(
        [_copy(old, number) for number in range(1_500)], batch_size=500
    )
    kept = add_task(alias, "default")
    recent = add_task(alias, "default", TaskState.SUCCESSFUL, finished_at=now)
    statements: list[str] = []

    def prune() -> int:
        connection = connections[alias]
        with CaptureQueriesContext(connection) as captured:
            count = Janitor(Database(alias), clock_of(alias), conf.load()).prune()
        statements.extend(query["sql"] for query in captured.captured_queries)
        return count

    assert sum(side_by_side(prune, prune)) >= 1_501

    left = Task.objects.using(alias).values_list("pk", flat=True)
    assert sorted(left) == sorted([kept.pk, recent.pk])
    deletes = [sql for sql in statements if sql.startswith("DELETE")]
    assert max(sql.count(",") for sql in deletes) < 200
    assert not [sql for sql in statements if sql.startswith("BEGIN")]


def _copy(task: Task, number: int) -> Task:
    values = {field.attname: getattr(task, field.attname) for field in Task._meta.local_fields}
    return Task(**{**values, "id": None, "task_id": f"old-{number}", "bucket": number % 1000})


@pytest.mark.case("R32")
def test_the_late_outcome_of_a_row_that_somebody_deleted_is_dropped_quietly(
    alias: str, enqueue: Any, start_worker: Any, wait_for_state: Any, caplog: Any
) -> None:
    worker = start_worker(concurrency=1)
    row = enqueue(tasks.wait_for_release)
    wait_for_state(row, Task.State.RUNNING)
    Task.objects.using(alias).filter(pk=row.pk).delete()

    tasks.release.set()
    wait_until(lambda: "lost its lease" in caplog.text)
    wait_for_state(enqueue(tasks.noop), Task.State.SUCCESSFUL)

    assert worker.is_running
    worker.stop()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not Task.objects.using(alias).filter(pk=row.pk).exists()
