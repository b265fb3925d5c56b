"""A resting worker is woken by a commit: each way by itself, the worker asleep for a minute."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.db import connections, transaction
from django.utils import timezone

from skipper_django import conf, wakeup
from skipper_django.backend import SkipperBackend
from skipper_django.core.buckets import ALL_BUCKETS, bucket_of, lane_of
from skipper_django.core.hint import ANY, Hint
from skipper_django.enqueue import Call
from skipper_django.enqueue import enqueue as enqueue_calls
from skipper_django.models import Task
from skipper_django.store.database import Database
from skipper_django.store.upkeep import next_due
from skipper_django.worker import alarm as alarms
from skipper_django.worker import pace, upkeep
from skipper_django.worker.alarm import Alarm
from tests import tasks
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks
from tests.worker.conftest import PROJECT, ThreadWorker

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State

ENQUEUE = """
import django; django.setup()
import sys
from skipper_django import conf
from skipper_django.backend import SkipperBackend
from skipper_django.enqueue import Call, enqueue
from tests.tasks import noop
from django.db import connections
enqueue(conf.load({"DATABASE": sys.argv[1]}), SkipperBackend, [Call(noop, (), {})])
connections.close_all()
"""


@pytest.fixture(autouse=True)
def own_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any) -> Path:
    """Sockets of our own: workers of other tests are none of our business."""
    directory = tmp_path_factory.mktemp("s")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(directory))
    monkeypatch.setenv("TMPDIR", str(directory))
    return directory / f"skipper-{os.geteuid()}"


@pytest.fixture
def sleepy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a wake-up an idle worker looks once a minute."""
    monkeypatch.setattr(pace, "FIRST_POLL_SECONDS", 60.0)
    monkeypatch.setattr(pace, "LONGEST_POLL_SECONDS", 60.0)
    monkeypatch.setattr(pace, "LONGEST_REST_SECONDS", 60.0)


@pytest.fixture
def no_database_way(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dialect = type(Database(alias).dialect)
    monkeypatch.setattr(dialect, "notifies", False)
    monkeypatch.setattr(dialect, "counts_commits", False)


@pytest.fixture
def asleep(start_worker: Any) -> Any:
    def start(**settings: Any) -> ThreadWorker:
        started: ThreadWorker = start_worker(settings)
        worker = started.worker
        wait_until(lambda: hasattr(worker, "_alarm") and worker._pace.is_idle, what="it rests")
        return started

    return start


def alarm_of(worker: ThreadWorker) -> Alarm:
    return worker.worker._alarm


def enqueue_elsewhere(alias: str, **environment: str) -> None:
    """From another process, as a web server would."""
    subprocess.run(
        [sys.executable, "-W", "error", "-c", ENQUEUE, alias],
        cwd=PROJECT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", **environment},
        check=True,
        timeout=60,
    )


def one_is_done(alias: str) -> bool:
    return Task.objects.using(alias).filter(status=State.SUCCESSFUL).exists()


@pytest.fixture
def heard(alias: str) -> Iterator[list[Hint]]:
    """What is told in this process."""
    hints: list[Hint] = []
    config = conf.load({"DATABASE": alias})
    channel = wakeup.local_channel(config, connections[alias])
    wakeup.listen(channel, hints.append)
    yield hints
    wakeup.unlisten(channel, hints.append)


# The ways


@pytest.mark.usefixtures("sleepy", "no_database_way")
def test_in_the_same_process_by_a_call(
    alias: str, asleep: Any, enqueue: Any, wait_for_state: Any
) -> None:
    asleep()

    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)


@pytest.mark.usefixtures("sleepy", "no_database_way")
def test_on_the_same_host_by_a_datagram(alias: str, asleep: Any) -> None:
    asleep()

    enqueue_elsewhere(alias)

    wait_until(lambda: one_is_done(alias))


@pytest.mark.usefixtures("sleepy")
def test_by_the_database_alone(
    alias: str, asleep: Any, monkeypatch: pytest.MonkeyPatch, own_directory: Path
) -> None:
    if connections[alias].vendor == "mysql":
        pytest.skip("MySQL and MariaDB have no such thing: they are polled")
    monkeypatch.setattr(alarms, "directory_of", lambda setting: None)
    worker = asleep()
    wait_until(lambda: alarm_of(worker).is_reliable)
    wait_until(lambda: worker.worker._pace.is_idle)

    enqueue_elsewhere(alias)

    wait_until(lambda: one_is_done(alias))


@pytest.mark.usefixtures("sleepy")
def test_where_wake_ups_are_off_nothing_listens_and_nothing_is_told(
    alias: str, start_worker: Any, heard: list[Hint], own_directory: Path
) -> None:
    worker = start_worker({"wake_up": False})
    wait_until(lambda: hasattr(worker.worker, "_alarm") and worker.worker._pace.is_idle)
    assert not own_directory.exists()
    assert not alarm_of(worker).is_reliable

    config = conf.load({"DATABASE": alias})
    silent = type(config)(database=alias, wake_up=False)
    enqueue_calls(silent, SkipperBackend, [Call(tasks.noop, (), {})])

    assert heard == []


def test_a_socket_is_there_as_long_as_its_worker(
    alias: str, start_worker: Any, own_directory: Path
) -> None:
    worker = start_worker()
    wait_until(lambda: own_directory.exists() and len(list(own_directory.iterdir())) == 1)

    worker.stop()

    assert list(own_directory.iterdir()) == []


# What is told, and when


def test_it_is_told_after_the_commit_and_once(alias: str, enqueue: Any, heard: list[Hint]) -> None:
    with transaction.atomic(using=alias):
        first = enqueue(tasks.noop)
        assert heard == []
        for _ in range(5):
            enqueue(tasks.noop)
        assert len(connections[alias].run_on_commit) == 1

    (hint,) = heard
    assert hint == Hint(first.lane, ANY, False)


def test_a_single_task_is_told_with_its_bucket(alias: str, enqueue: Any, heard: list[Hint]) -> None:
    row = enqueue(tasks.noop)

    bucket = bucket_of(row.task_id)
    assert heard == [Hint(lane_of("default", "default"), bucket, False, row.task_id)]


def test_a_task_that_is_due_later_is_told_as_such(
    alias: str, enqueue: Any, heard: list[Hint]
) -> None:
    later = tasks.noop.using(run_after=timezone.now() + timedelta(hours=1))
    enqueue(later)

    assert [hint.scheduled for hint in heard] == [True]


def test_what_is_rolled_back_is_not_told(alias: str, enqueue: Any, heard: list[Hint]) -> None:
    with transaction.atomic(using=alias):
        enqueue(tasks.noop)
        transaction.set_rollback(True, using=alias)

    assert heard == []


def test_what_a_savepoint_takes_back_takes_nothing_else_along(
    alias: str, enqueue: Any, heard: list[Hint]
) -> None:
    with transaction.atomic(using=alias):
        with transaction.atomic(using=alias):
            enqueue(tasks.noop)
            transaction.set_rollback(True, using=alias)
        kept = enqueue(tasks.noop)
        with transaction.atomic(using=alias):
            enqueue(tasks.noop)
            transaction.set_rollback(True, using=alias)

    assert [hint.lane for hint in heard] == [kept.lane]


def test_in_a_transaction_that_django_does_not_know_nothing_is_told(
    alias: str, enqueue: Any, heard: list[Hint]
) -> None:
    connection = connections[alias]
    if connection.vendor == "sqlite":
        pytest.skip("Django opens transactions on SQLite itself")
    connection.set_autocommit(False)
    try:
        enqueue(tasks.noop)
        connection.commit()
    finally:
        connection.set_autocommit(True)

    assert heard == []


def test_rows_that_came_otherwise_can_be_told_of(
    alias: str, heard: list[Hint], settings: Any
) -> None:
    settings.SKIPPER = {"DATABASE": alias}

    wakeup.wake()

    assert heard == [Hint(ANY, ANY, True)]


def test_an_enqueue_stays_one_statement(
    alias: str, enqueue: Any, django_assert_num_queries: Any
) -> None:
    enqueue(tasks.noop)
    config = conf.load({"DATABASE": alias})

    with django_assert_num_queries(1, connection=connections[alias]):
        enqueue_calls(config, SkipperBackend, [Call(tasks.noop, (), {})])


# What is due later


@pytest.mark.usefixtures("sleepy")
def test_the_upkeep_sleeps_until_the_next_task_is_due(
    alias: str, asleep: Any, enqueue: Any, wait_for_state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "LONGEST_REST_SECONDS", 60.0)
    asleep()
    row = enqueue(tasks.noop.using(run_after=timezone.now() + timedelta(seconds=2.5)))

    wait_for_state(row, State.SUCCESSFUL)


@pytest.mark.usefixtures("sleepy")
@pytest.mark.parametrize("status", ["unreadable", "edited"])
def test_a_row_that_was_edited_does_not_put_the_upkeep_to_sleep(
    alias: str, asleep: Any, enqueue: Any, wait_for_state: Any, status: str
) -> None:
    """It stands before all others, and is never due."""
    if status == "unreadable" and connections[alias].vendor != "sqlite":
        pytest.skip("the others let nobody write what they cannot read")
    row = enqueue(tasks.noop.using(run_after=timezone.now() + timedelta(hours=1)))
    table = connections[alias].ops.quote_name(Task._meta.db_table)
    moment = "0" if status == "unreadable" else "2099-01-01 00:00:00.000000"
    with connections[alias].cursor() as cursor:
        sql = f"UPDATE {table} SET ord = -5, run_after = %s WHERE id = %s"  # noqa: S608
        cursor.execute(sql, [moment, row.pk])
    asleep()

    due = enqueue(tasks.noop.using(run_after=timezone.now() + timedelta(seconds=1.5)))

    wait_for_state(due, State.SUCCESSFUL, 8)


def test_a_look_at_a_locked_file_is_the_claim_s_to_live_through(alias: str, asleep: Any) -> None:
    alarm = alarm_of(asleep())
    connection = mock.Mock()
    connection.connection.execute.side_effect = sqlite3.OperationalError("database is locked")
    with mock.patch.object(Database, "connection", connection):
        assert alarm.saw_commit()


def test_a_retry_is_not_slept_through(
    alias: str,
    asleep: Any,
    enqueue: Any,
    wait_for_state: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(upkeep, "LONGEST_REST_SECONDS", 60.0)
    asleep()

    wait_for_state(enqueue(worker_tasks.fail_once, str(tmp_path / "log")), State.SUCCESSFUL)


def test_the_next_due_task_of_a_share(alias: str, enqueue: Any) -> None:
    database = Database(alias)
    lanes = [lane_of("default", "default")]
    assert next_due(database, lanes, ALL_BUCKETS) is None
    enqueue(tasks.noop)
    rows = [
        enqueue(tasks.noop.using(run_after=timezone.now() + timedelta(hours=hours)))
        for hours in (5, 2, 9)
    ]

    assert next_due(database, lanes, ALL_BUCKETS) == rows[1].run_after


# PostgreSQL's listening session


@pytest.fixture
def listening(alias: str, asleep: Any, monkeypatch: pytest.MonkeyPatch) -> ThreadWorker:
    if connections[alias].vendor != "postgresql":
        pytest.skip("NOTIFY is PostgreSQL's")
    monkeypatch.setattr(alarms, "directory_of", lambda setting: None)
    worker: ThreadWorker = asleep()
    wait_until(lambda: alarm_of(worker).is_reliable)
    return worker


def test_a_listening_session_that_is_cut_is_opened_again(
    alias: str, listening: ThreadWorker
) -> None:
    before = alarm_of(listening)._notices
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        )
        assert len(cursor.fetchall()) == 1

    wait_until(lambda: alarm_of(listening)._notices not in (before, None))
    enqueue_elsewhere(alias)
    wait_until(lambda: one_is_done(alias))


def test_a_burst_of_commits_is_one_notification(
    alias: str, listening: ThreadWorker, enqueue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    heeded: list[Hint] = []
    monkeypatch.setattr(Alarm, "heed", lambda alarm, hint: heeded.append(hint))
    wakeup._notified_at.clear()
    monkeypatch.setattr(wakeup, "NOTIFY_EVERY_SECONDS", 3600.0)

    first, *_ = [enqueue(tasks.noop) for _ in range(20)]

    wait_until(lambda: heeded)
    assert heeded == [Hint(task_id=first.task_id)]
