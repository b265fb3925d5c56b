"""What a stand-in reads of its worker."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from math import inf

import pytest

from skipper_django.core.clock import monotonic
from skipper_django.core.config import Config
from skipper_django.core.telemetry import SILENT
from skipper_django.store.lease import Lease
from skipper_django.worker import pulse as pulses
from skipper_django.worker.custody import Custody
from skipper_django.worker.leases import report_lost
from skipper_django.worker.process import start_of, state_of
from skipper_django.worker.pulse import Held, Pulse, PulseThread, act_every, look_every
from tests.store.support import NOW
from tests.waiting import wait_until

_tokens = itertools.count(1)


def lease(task: int) -> Lease:
    texts = ("task", "name", "queue", "backend", 0, "[]", "{}", 1, 0, "member\n", None)
    return Lease(task, *texts, NOW, NOW, NOW, next(_tokens), NOW)


@pytest.fixture
def pulse() -> Pulse:
    return Pulse()


@pytest.fixture
def custody(pulse: Pulse) -> Custody:
    return Custody(pulse)


def ids(pulse: Pulse) -> list[int]:
    return sorted(held.id for held in pulse.held())


def test_it_shows_what_is_held_and_since_when_it_runs(pulse: Pulse, custody: Custody) -> None:
    waiting, running, limited, ended = taken = [lease(n) for n in (1, 2, 3, 4)]
    custody.add(taken, 50.0)
    before = monotonic()
    custody.began(running, None)
    for task in (limited, ended):
        custody.began(task, 5.0)
    custody.ended(ended)

    one, two, three, four = pulse.held()

    assert one == Held(waiting.id, waiting.token, 0.0)
    assert two == Held(running.id, running.token, inf)
    assert (three.token, before + 5 <= three.deadline <= monotonic() + 5) == (limited.token, True)
    assert four.deadline == inf
    assert [held.has_started for held in pulse.held()] == [False, True, True, True]
    assert [held.has_overrun(monotonic() + 9) for held in pulse.held()] == [
        False, False, True, False,
    ]  # fmt: skip
    assert not three.has_overrun(before)


def test_what_is_let_go_makes_room(pulse: Pulse, custody: Custody) -> None:
    taken = [lease(n) for n in range(1, 6)]
    custody.add(taken, 0.0)
    for task in taken[1:4]:
        custody.remove(task)
    custody.add([lease(9)], 0.0)

    assert ids(pulse) == [1, 5, 9]


def test_a_task_claimed_again_is_another_lease(pulse: Pulse, custody: Custody) -> None:
    first, second = lease(7), lease(7)
    custody.add([first], 0.0)
    custody.began(first, 1.0)
    custody.add([second], 0.0)
    custody.began(first, 2.0)  # comes too late: it is not held any more
    custody.remove(first)

    assert pulse.held() == [Held(7, second.token, 0.0)]


def test_more_than_fits_is_not_shown_and_not_an_error(
    pulse: Pulse, custody: Custody, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulses, "MAX_HELD", 3)
    taken = [lease(n) for n in range(1, 6)]
    custody.add(taken, 0.0)
    for task in taken:
        custody.began(task, None)
    custody.remove(taken[4])
    custody.remove(taken[0])
    custody.add([lease(8)], 0.0)

    assert ids(pulse) == [2, 3, 8]


def test_trust_only_grows(pulse: Pulse, custody: Custody) -> None:
    custody.add([lease(1)], 30.0)
    custody.trust(50.0)
    custody.add([lease(2)], 40.0)

    assert pulse.trusted_until == 50.0


def test_nothing_is_trusted_anew_while_it_may_be_handed_back(
    pulse: Pulse, custody: Custody
) -> None:
    custody.add([lease(1)], monotonic() - 1)

    with pulse.handing_back() as may_hand_back:
        assert may_hand_back
        assert not custody.trust(monotonic() + 60)
    assert custody.trust(monotonic() + 60)
    with pulse.handing_back() as may_hand_back:
        assert not may_hand_back, "it was told before"


def test_a_lost_lease_must_not_start(custody: Custody) -> None:
    lost = lease(1)
    custody.add([lost], 50.0)

    report_lost(custody, lost, "member", SILENT)

    assert lost.trusted_until == 0.0


def test_the_next_process_begins_anew(pulse: Pulse, custody: Custody) -> None:
    custody.add([lease(1), lease(2)], 30.0)
    pulse.beat("a", 1)
    pulse.condemn(4.0)

    pulse.enter()

    assert (pulse.held(), pulse.beats, pulse.trusted_until, pulse.condemned_at) == ([], 0, 0, 0)
    assert state_of(*pulse.process) in ("R", "S")
    assert pulse.process == (os.getpid(), start_of(os.getpid()))


def test_a_longer_and_a_shorter_name(pulse: Pulse) -> None:
    pulse.beat("ü" * 150, 2**31 - 1)
    assert pulse.member == ("ü" * 150, 2**31 - 1)
    pulse.beat("b", 3)
    assert pulse.member == ("b", 3)
    assert pulse.held() == []


class Member:
    member_id, incarnation = "member", 5


@pytest.fixture
def beating(pulse: Pulse) -> Iterator[PulseThread]:
    config = Config(cluster_heartbeat_interval=0.08, cluster_liveness_window=1)
    thread = PulseThread(pulse, Member(), config)
    thread.start()
    yield thread
    thread.stop()


def test_it_beats_until_it_is_stopped(pulse: Pulse, beating: PulseThread) -> None:
    assert pulse.member == ("member", 5)
    wait_until(lambda: pulse.beats >= 3)

    beating.stop()

    assert pulse.beats == 0


@pytest.mark.parametrize(
    ("interval", "lease_duration", "look", "act"),
    [(10, 60, 1.25, 10), (10, 6, 0.25, 2), (600, 3600, 1.25, 600), (1, 60, 0.125, 1)],
)
def test_silence_is_noticed_well_before_anything_runs_out(
    interval: float, lease_duration: float, look: float, act: float
) -> None:
    config = Config(cluster_heartbeat_interval=interval, lease_duration=lease_duration)

    assert (look_every(config), act_every(config)) == (look, act)
