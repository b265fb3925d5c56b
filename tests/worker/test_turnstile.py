"""Short tasks run one at a time, all others side by side; and nobody waits for long to find out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skipper_django import conf
from skipper_django.backend import SkipperBackend
from skipper_django.enqueue import Call, enqueue
from skipper_django.models import Task
from skipper_django.worker import turnstile
from skipper_django.worker.turnstile import SAMPLE, SKIPPED, Turnstile
from tests import tasks
from tests.waiting import wait_until

MANY = 100
NO_OP, WAITING, LONG = (0.000_02, 0.000_02), (0.001, 0.000_05), (0.001, 0.001)


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still until it is told."""
    now = [0.0]
    monkeypatch.setattr(turnstile, "monotonic", lambda: now[0])
    monkeypatch.setattr(turnstile, "SAMPLE_SECONDS", 0.0)
    return now


@pytest.fixture
def in_thread() -> Iterator[Callable[..., threading.Thread]]:
    threads = []

    def start(function: Callable[..., Any], *arguments: Any) -> threading.Thread:
        threads.append(threading.Thread(target=function, args=arguments))
        threads[-1].start()
        return threads[-1]

    yield start
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def narrow(threads: int = 4) -> Turnstile:
    """This thread has its turn, and the others wait."""
    narrow = Turnstile(threads)
    narrow.enter(MANY)
    assert narrow.is_narrow
    return narrow


def entering(gate: Turnstile) -> tuple[Callable[[], None], threading.Event]:
    """What a thread does that wants to enter, and that it has."""
    entered = threading.Event()

    def enter() -> None:
        gate.enter(MANY)
        entered.set()

    return enter, entered


def ended(gate: Turnstile, attempt: tuple[float, float], count: int = SKIPPED + SAMPLE) -> None:
    for _ in range(count):
        gate.enter(MANY)
        gate.ended(*attempt)


def test_tasks_that_do_nothing_go_on_one_at_a_time(moment: list[float]) -> None:
    gate = narrow()

    ended(gate, NO_OP, 10 * SAMPLE)

    assert gate.is_narrow


@pytest.mark.parametrize("attempt", [WAITING, LONG], ids=["waiting", "long"])
def test_others_are_let_in_and_it_is_tried_ever_less_often(
    moment: list[float], attempt: tuple[float, float]
) -> None:
    gate = narrow()
    tried: list[float] = []
    for _ in range(7):
        ended(gate, attempt)
        assert not gate.is_narrow
        began = moment[0]
        while not gate.is_narrow:
            moment[0] += 0.5
            gate.enter(MANY)
        tried.append(moment[0] - began)

    assert tried == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]


def test_who_waits_has_its_turn_when_nothing_waits_any_more(in_thread: Any) -> None:
    gate = narrow()
    enter, entered = entering(gate)
    in_thread(enter)
    for _ in range(20):
        gate.ended(*NO_OP)
        assert not entered.wait(0.002)

    gate.enter(0)

    assert entered.wait(10)
    assert not gate.is_narrow
    gate.enter(MANY)
    assert gate.is_narrow, "that was no judgement on the tasks"


def test_an_attempt_that_does_not_end_lets_the_others_in(in_thread: Any) -> None:
    gate = narrow()
    enter, entered = entering(gate)

    in_thread(enter)

    assert entered.wait(10)
    assert not gate.is_narrow
    gate.enter(MANY)
    assert not gate.is_narrow, "not again at once"


def test_at_the_end_everybody_may_go(in_thread: Any) -> None:
    gate = narrow()
    enter, entered = entering(gate)
    in_thread(enter)

    gate.open()

    assert entered.wait(10)
    gate.enter(MANY)
    assert not gate.is_narrow


def test_few_tasks_or_one_thread_need_no_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    for gate, waiting in ((Turnstile(4), 4), (Turnstile(1), MANY)):
        gate.enter(waiting)
        assert not gate.is_narrow
    monkeypatch.setattr(turnstile, "_has_interpreter_lock", lambda: False)
    gate = Turnstile(4)
    gate.enter(MANY)
    assert not gate.is_narrow


@pytest.mark.django_db(transaction=True)
def test_tasks_that_wait_for_each_other_meet_after_short_ones(
    alias: str, start_worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However narrow it was before: four that need each other are there at the same time."""
    monkeypatch.setattr(tasks, "MEETING", threading.Barrier(4, timeout=20))
    calls = [Call(tasks.noop, [], {})] * 500 + [Call(tasks.meet, [], {})] * 4
    enqueue(conf.load({"DATABASE": alias}), SkipperBackend, calls)

    start_worker(concurrency=4)

    done = Task.objects.using(alias).filter(status=Task.State.SUCCESSFUL)
    wait_until(lambda: done.count() == 504, 30)
