"""A running worker among rows of nonsense: it goes on, also while the doctor repairs them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from skipper_django import conf, doctor, enqueue_many
from skipper_django.core.reasons import FailReason
from skipper_django.core.states import TaskState
from skipper_django.models import Task
from skipper_django.store.clock import clock_of
from tests import tasks
from tests.doctor.nonsense import PARKED, REPAIRED, write
from tests.factories import add_members, add_task
from tests.waiting import wait_until
from tests.worker.conftest import enqueue, start_worker

__all__ = ["enqueue", "start_worker"]

pytestmark = pytest.mark.django_db(transaction=True)

NONSENSE = [*REPAIRED.values(), *(values for _, values in PARKED.values())]
FATAL: list[dict[str, Any]] = [
    {"attempts": 2**31 - 1},
    {"priority": -32_768, "status": 0, "ord": 0},
    {"status": 2, "lease_token": 5, "lost_leases": 2**31 - 1,
     "lease_expires_at": "2020-01-01 00:00:00.000000"},
    {"status": 2, "lease_token": 5, "lost_leases": -5,
     "lease_expires_at": "2020-01-01 00:00:00.000000"},
    {"worker_ids": "\n\n\x00"},
    {"started_at": "infinity", "last_attempted_at": "-infinity"},
    {"queue_name": "", "tenant": ""},
    {"name": "...", "backend": "gone"},
]  # fmt: skip


@pytest.fixture(autouse=True)
def _on_the_database_under_test(queue: str) -> None:
    pass


def add_nonsense(alias: str) -> None:
    for values in [*NONSENSE, *FATAL]:
        row = Task.objects.using(alias).get(task_id=tasks.echo.enqueue("bad").id)
        with suppress(ValueError):  # a text that the driver itself refuses
            write(alias, row.pk, **values)
    add_members(alias, "odd", state=99, age=100, range_start=-5, range_stop=5_000)


def add_good_tasks_for_the_upkeep(alias: str) -> None:
    """To be promoted and reclaimed in one batch with rows of nonsense."""
    long_ago = clock_of(alias).now() - timedelta(hours=1)
    for _ in range(10):
        add_task(alias, "default", TaskState.SCHEDULED, due_in=0.3, name=tasks.noop.module_path)
        add_task(
            alias, "default", TaskState.RUNNING,
            lease_expires_at=long_ago, name=tasks.noop.module_path,
        )  # fmt: skip


def unfinished(alias: str, name: str) -> int:
    """Counted by hand: the rows may hold what no model can read."""
    table = connections[alias].ops.quote_name(Task._meta.db_table)
    with connections[alias].cursor() as cursor:
        sql = f"SELECT COUNT(*) FROM {table} WHERE name = %s AND status < 3"  # noqa: S608
        cursor.execute(sql, [name])
        return int(cursor.fetchone()[0])


@contextmanager
def load() -> Iterator[None]:
    """Somebody enqueues all the while."""
    over = threading.Event()

    def enqueue_more() -> None:
        while not over.is_set():
            enqueue_many([(tasks.noop, [])] * 20)
            over.wait(0.02)
        connections.close_all()

    thread = threading.Thread(target=enqueue_more)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_rows_of_nonsense_stop_no_worker_and_the_doctor_mends_them_meanwhile(
    alias: str, start_worker: Any
) -> None:
    add_nonsense(alias)
    short = {
        "lease_duration": 1.0,
        "cluster_heartbeat_interval": 0.2,
        "cluster_liveness_window": 30.0,
    }
    worker = start_worker(settings=short, concurrency=2)
    enqueue_many([(tasks.noop, [])] * 50)
    add_good_tasks_for_the_upkeep(alias)
    wait_until(lambda: not unfinished(alias, tasks.noop.module_path), 30, "the good tasks")
    with load():
        for _ in range(3):
            doctor.examine(conf.load(), clock_of(alias), repairs=True)

    wait_until(lambda: not unfinished(alias, tasks.echo.module_path), 30, "the repaired tasks")
    wait_until(lambda: not unfinished(alias, tasks.noop.module_path), 30, "the load")
    worker.stop()
    assert doctor.examine(conf.load(), clock_of(alias)).tasks == []
    good = Task.objects.using(alias).filter(name=tasks.noop.module_path)
    assert set(good.values_list("status", "attempts")) == {(TaskState.SUCCESSFUL.value, 1)}
    bad = Task.objects.using(alias).filter(status=TaskState.FAILED.value)
    assert {row.reason for row in bad} <= set(FailReason)
