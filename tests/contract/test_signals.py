"""The framework's signals: the right sender, once, at the right moment; receivers are harmless."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.dispatch import Signal

from skipper_django import enqueue_many
from skipper_django.backend import SkipperBackend
from skipper_django.compat import (
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from skipper_django.signals import task_retrying
from skipper_django.testing import EagerBackend, frozen_clock, run_ready
from tests.contract import tasks

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

SIGNALS: dict[str, Signal] = {
    "enqueued": task_enqueued,
    "started": task_started,
    "finished": task_finished,
    "retrying": task_retrying,
}


class Heard:
    """What the signals said, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, type[Any], str, str]] = []
        self.exceptions: list[Any] = []
        self.receivers = {name: self._receiver(name) for name in SIGNALS}

    def _receiver(self, name: str) -> Any:
        def receive(sender: type[Any], task_result: Any, **kwargs: Any) -> None:
            self.calls.append((name, sender, task_result.id, str(task_result.status)))
            self.exceptions.append((name, sys.exception()))

        return receive

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self.calls]


@pytest.fixture
def heard() -> Iterator[Heard]:
    heard = Heard()
    for name, signal in SIGNALS.items():
        signal.connect(heard.receivers[name])
    yield heard
    for name, signal in SIGNALS.items():
        signal.disconnect(heard.receivers[name])


def test_a_task_that_succeeds_sends_each_signal_once(queue: str, heard: Heard) -> None:
    result = tasks.other.enqueue(1)
    run_ready()

    assert heard.calls == [
        ("enqueued", SkipperBackend, result.id, TaskResultStatus.READY),
        ("started", SkipperBackend, result.id, TaskResultStatus.RUNNING),
        ("finished", SkipperBackend, result.id, TaskResultStatus.SUCCESSFUL),
    ]
    assert [exception for _, exception in heard.exceptions] == [None, None, None]


@pytest.mark.parametrize("kind", ["value", "exit", "base"])
def test_a_task_that_fails_finishes_inside_its_exception(
    queue: str, heard: Heard, kind: str
) -> None:
    tasks.raises.enqueue(kind)
    run_ready()

    assert heard.names == ["enqueued", "started", "finished"]
    assert heard.calls[-1][1::2] == (SkipperBackend, TaskResultStatus.FAILED)
    expected = {"value": ValueError, "exit": SystemExit, "base": tasks.BaseError}[kind]
    assert type(heard.exceptions[-1][1]) is expected


def test_an_async_task_that_fails_finishes_inside_its_exception(queue: str, heard: Heard) -> None:
    tasks.awaited_badly.enqueue()
    run_ready()

    assert heard.names == ["enqueued", "started", "finished"]
    assert type(heard.exceptions[-1][1]) is RuntimeError


def test_a_result_that_cannot_be_kept_finishes_as_failed(queue: str, heard: Heard) -> None:
    tasks.returns.enqueue("object")
    run_ready()

    assert heard.names == ["enqueued", "started", "finished"]
    assert heard.calls[-1][-1] == TaskResultStatus.FAILED


def test_a_retried_task_finishes_once_at_its_end(queue: str, heard: Heard) -> None:
    with frozen_clock(database=queue) as clock:
        tasks.until_third.enqueue()
        for _ in range(3):
            run_ready()
            clock.advance(10)

    attempt = ["started", "retrying"]
    assert heard.names == ["enqueued", *attempt, *attempt, "started", "finished"]
    assert heard.calls[-1][-1] == TaskResultStatus.SUCCESSFUL
    assert {sender for _, sender, *_ in heard.calls} == {SkipperBackend}


def test_enqueue_many_announces_each_task_once(queue: str, heard: Heard) -> None:
    results = enqueue_many([(tasks.other, [1]), *[(tasks.rich.using(task_id="new"), [2])] * 2])

    assert [call[2] for call in heard.calls] == [results[0].id, "new"]


def test_an_id_that_exists_is_not_announced_again(queue: str, heard: Heard) -> None:
    for _ in range(2):
        tasks.other.using(task_id="once").enqueue()

    assert heard.names == ["enqueued"]


def test_the_sender_is_the_class_that_tasks_names_now(
    queue: str, heard: Heard, settings: Settings
) -> None:
    tasks.other.enqueue()
    run_ready()
    settings.TASKS = {"default": {"BACKEND": "skipper_django.testing.EagerBackend", "QUEUES": []}}
    heard.calls.clear()

    tasks.other.enqueue()

    assert {sender for _, sender, *_ in heard.calls} == {EagerBackend}


@pytest.mark.parametrize("name", SIGNALS)
def test_a_receiver_that_raises_loses_nothing(queue: str, name: str) -> None:
    def receive(**kwargs: Any) -> None:
        raise RuntimeError("receiver no")

    SIGNALS[name].connect(receive)
    try:
        with frozen_clock(database=queue) as clock:
            result = tasks.until_third.enqueue()
            for _ in range(3):
                run_ready()
                clock.advance(10)
    finally:
        SIGNALS[name].disconnect(receive)

    result.refresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3)


def test_the_backend_hears_its_own_enqueues(queue: str) -> None:
    heard = []

    def receive(task_result: Any, **kwargs: Any) -> None:
        heard.append(task_result)

    task_enqueued.connect(receive, sender=type(task_backends["default"]))
    try:
        result = tasks.other.enqueue()
    finally:
        task_enqueued.disconnect(receive, sender=type(task_backends["default"]))

    assert heard == [result]
