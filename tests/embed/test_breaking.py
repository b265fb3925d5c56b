"""An embedded worker that meets an error: what becomes of its tasks, and who comes after it."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from skipper_django.models import Task
from skipper_django.worker.loop import Worker
from skipper_django.worker.settle import Settler
from tests import tasks
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State


def test_a_worker_that_breaks_is_followed_by_another(
    alias: str,
    start: Any,
    enqueue: Any,
    wait_for_state: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = Worker.round
    broken: list[Worker] = []

    def breaks_once(worker: Worker) -> None:
        if not broken:
            broken.append(worker)
            raise ZeroDivisionError("a fault of ours")
        whole(worker)

    joins = Worker.run
    seen = threading.Event()

    def joins_when_the_error_was_seen(worker: Worker) -> int:
        if broken:
            assert seen.wait(20)
        return joins(worker)

    monkeypatch.setattr(Worker, "round", breaks_once)
    monkeypatch.setattr(Worker, "run", joins_when_the_error_was_seen)
    handle = start()

    wait_until(lambda: isinstance(handle.error, ZeroDivisionError))
    seen.set()
    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)
    assert handle.error is None
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert line.exc_info


@pytest.fixture
def broken_rounds(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """The first worker of which three tasks wait for a slot meets an error, and is put here."""
    whole = Worker.round
    broken: list[Worker] = []

    def breaks_once(worker: Worker) -> None:
        if not broken and worker.slots.waiting >= 3:
            broken.append(worker)
            raise ZeroDivisionError("a fault of ours")
        whole(worker)

    monkeypatch.setattr(Worker, "round", breaks_once)
    return broken


def test_a_worker_that_breaks_hands_back_at_once_what_has_not_started(
    alias: str,
    start: Any,
    enqueue: Any,
    fresh: Any,
    wait_for_state: Any,
    broken_rounds: list[Worker],
    settings: Settings,
) -> None:
    settings.SKIPPER = {**settings.SKIPPER, "LEASE_DURATION": 3600}
    start(concurrency=1)
    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)  # tasks seem short: more are claimed
    runs = enqueue(tasks.wait_for_release)
    wait_for_state(runs, State.RUNNING)

    waiting = [enqueue(tasks.noop) for _ in range(3)]
    wait_until(lambda: broken_rounds)

    try:
        for row in waiting:
            row = wait_for_state(row, State.READY)
            assert (row.attempts, row.worker_ids) == (0, "")
        assert fresh(runs).status == State.RUNNING
    finally:
        tasks.release.set()
    runs = wait_for_state(runs, State.SUCCESSFUL)
    tasks.release.clear()
    assert (runs.attempts, runs.lost_leases) == (1, 0), "what ran has ended and is stored"
    for row in waiting:
        assert wait_for_state(row, State.SUCCESSFUL).attempts == 1


def test_a_worker_that_breaks_while_the_store_does_leaves_its_leases_to_expire(
    start: Any,
    enqueue: Any,
    wait_for_state: Any,
    broken_rounds: list[Worker],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.SKIPPER = {**settings.SKIPPER, "LEASE_DURATION": 2}

    def fails(settler: Settler, leases: Any) -> None:
        raise ZeroDivisionError("again")

    monkeypatch.setattr(Settler, "release", fails)
    start(concurrency=1)
    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)
    enqueue(tasks.wait_for_release)
    waiting = [enqueue(tasks.noop) for _ in range(3)]
    wait_until(lambda: broken_rounds)

    tasks.release.set()
    for row in waiting:
        wait_for_state(row, State.SUCCESSFUL)
    tasks.release.clear()
    assert "cannot hand back all it holds" in caplog.text
