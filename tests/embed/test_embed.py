"""start_worker() and its handle, in the process of the tests."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from skipper_django import conf, embed
from skipper_django.core.errors import MemberNameTaken
from skipper_django.embed import start_worker
from skipper_django.models import Member, Task
from skipper_django.overview import current_member_id
from tests import tasks
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks
from tests.worker.conftest import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State


def test_tasks_run_and_the_process_knows_its_member(
    alias: str, start: Any, enqueue: Any, wait_for_state: Any
) -> None:
    row = enqueue(tasks.echo, 1)

    handle = start(member_name="web")

    wait_for_state(row, State.SUCCESSFUL)
    assert (handle.is_running, handle.member_id, handle.error) == (True, "web", None)
    assert current_member_id(conf.load()) == "web"

    assert handle.stop()

    assert (handle.is_running, handle.member_id, handle.error) == (False, None, None)
    assert current_member_id(conf.load()) is None
    assert not Member.objects.using(alias).exists()


def test_only_the_queues_asked_for_are_served(
    alias: str, start: Any, enqueue: Any, wait_for_state: Any, fresh: Any
) -> None:
    other, ours = enqueue(tasks.noop), enqueue(tasks.noop.using(queue_name="mail"))

    start(queues=["mail", "mail"], concurrency=2)

    wait_for_state(ours, State.SUCCESSFUL)
    assert fresh(other).status == State.READY
    assert Member.objects.using(alias).values_list("queues", "concurrency").get() == ("mail", 2)


def test_a_second_call_answers_with_the_running_worker(alias: str, start: Any) -> None:
    first = start(concurrency=2)

    assert start_worker(concurrency=2) is first
    with pytest.raises(RuntimeError, match="already runs a worker for tenant 'default'"):
        start_worker(concurrency=3)

    assert first.stop()
    assert start(concurrency=3) is not first


@pytest.mark.parametrize("alias", ["default"], ids=["sqlite"])
def test_each_backend_may_have_a_worker(alias: str, start: Any, settings: Settings) -> None:
    ours = settings.TASKS["default"]
    settings.TASKS = {"default": ours, "other": {**ours, "OPTIONS": {"TENANT": "other"}}}

    first, second = start(), start(backend="other")

    wait_until(lambda: first.member_id and second.member_id)
    assert set(Member.objects.values_list("tenant", flat=True)) == {"default", "other"}
    assert current_member_id(conf.load({"TENANT": "other"})) == second.member_id


@pytest.mark.parametrize("alias", ["default"], ids=["sqlite"])
def test_a_single_manager_runs_tasks_and_is_no_member(
    alias: str, start: Any, enqueue: Any, wait_for_state: Any, settings: Settings
) -> None:
    settings.SKIPPER = {**settings.SKIPPER, "CLUSTER_MEMBERSHIP_MANAGER": "single"}

    handle = start()

    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)
    assert (handle.is_running, handle.member_id) == (True, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queues": [""]}, "'' is no queue name"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": 2.5}, "concurrency is 2.5"),
        ({"member_name": ""}, "member_name: "),
        ({"member_name": "a\nb"}, "member_name: "),
        ({"shutdown_timeout": -1}, "shutdown_timeout is -1"),
        ({"shutdown_timeout": float("nan")}, "shutdown_timeout is nan"),
        ({"backend": "nowhere"}, "TASKS has no entry 'nowhere' of skipper_django; known: default"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=message):
        start_worker(**options)


def test_wrong_settings_are_refused_at_once(settings: Settings) -> None:
    settings.SKIPPER = {"DATABASE": "nowhere"}
    with pytest.raises(ImproperlyConfigured, match="there is no database 'nowhere'"):
        start_worker()

    settings.SKIPPER = {"TASK_PARTITIONING": "no.such.gate"}
    with pytest.raises(ImproperlyConfigured, match="cannot be imported"):
        start_worker()


def test_it_is_imported_early_and_called_late() -> None:
    program = (
        "from skipper_django.embed import start_worker\n"
        "try:\n    start_worker()\n"
        "except Exception as error:\n    print(error)"
    )

    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True
    )

    assert "call it after get_wsgi_application()" in answer.stdout


def test_a_name_in_use_is_told_and_tried_again(
    alias: str,
    start: Any,
    start_worker: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embed, "LONGEST_PAUSE_SECONDS", 0.5)
    holder = start_worker({"cluster_heartbeat_interval": 0.2}, member_name="web")
    wait_until(lambda: Member.objects.using(alias).exists())

    handle = start(member_name="web")

    wait_until(lambda: handle.error, what="the error shows")
    assert isinstance(handle.error, MemberNameTaken)
    assert handle.member_id is None
    assert "a new one starts in 0.5 s: member name 'web' is in use" in caplog.text

    holder.stop()

    wait_until(lambda: handle.member_id == "web", what="the name is free")
    assert handle.error is None


@pytest.mark.usefixtures("short_grace")
def test_a_stuck_task_is_left_behind_and_a_new_worker_takes_over(
    alias: str,
    start: Any,
    enqueue: Any,
    wait_for_state: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stuck = enqueue(worker_tasks.hang_in_c, str(tmp_path / "log"))
    handle = start(concurrency=1)

    stuck = wait_for_state(stuck, State.FAILED)
    after = wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)

    assert stuck.reason == "timeout"
    assert after.worker_ids == stuck.worker_ids, "under the same name"
    critical = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert ["is stuck" in record.getMessage() for record in critical] == [True]
    assert (handle.is_running, handle.error) == (True, None)


@pytest.mark.usefixtures("short_grace")
def test_not_more_than_so_many_are_left_behind(
    alias: str,
    start: Any,
    enqueue: Any,
    fresh: Any,
    wait_for_state: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(embed, "MAX_ABANDONED", 1)
    monkeypatch.setattr(embed, "LOOK_EVERY_SECONDS", 0.05)
    stuck = enqueue(worker_tasks.hang_in_c, str(tmp_path / "log"))
    handle = start(concurrency=1)
    wait_for_state(stuck, State.FAILED)
    wait_until(lambda: "1 threads of process" in caplog.text)

    waits = enqueue(tasks.noop)
    assert not handle.is_running
    assert not Member.objects.using(alias).exists()
    assert fresh(waits).status == State.READY

    worker_tasks.let_go.set()

    wait_for_state(waits, State.SUCCESSFUL)


def test_stop_hands_back_what_does_not_end_in_time(
    alias: str, start: Any, enqueue: Any, wait_for_state: Any, fresh: Any
) -> None:
    row = enqueue(tasks.wait_for_release)
    handle = start()
    wait_for_state(row, State.RUNNING)

    try:
        assert handle.stop(timeout=0.1)
    finally:
        tasks.release.set()

    row = fresh(row)
    tasks.release.clear()
    assert (row.status, row.attempts) == (State.READY, 0)
    assert not connections[alias].in_atomic_block
