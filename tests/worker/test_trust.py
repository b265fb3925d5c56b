"""A worker starts nothing that may be another's by now, however it came to hold it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from django.db import OperationalError

from skipper_django.core.clock import ManualClock
from skipper_django.core.config import Config
from skipper_django.core.hint import Hint
from skipper_django.core.outcome import Released
from skipper_django.core.states import TaskState
from skipper_django.models import Member, Task
from skipper_django.store import members
from skipper_django.store.claim import choose, claim, take
from skipper_django.store.database import Database
from skipper_django.store.settle import settle
from skipper_django.worker import nearby
from skipper_django.worker.leases import LeaseKeeper
from skipper_django.worker.loop import Worker
from skipper_django.worker.options import WorkerOptions
from skipper_django.worker.pulse import HANDING_BACK
from skipper_django.worker.quarantine import Quarantine
from skipper_django.worker.shutdown import Shutdown
from skipper_django.worker.standin import Acting
from tests.model.watched import SteppedSlots, told_time
from tests.store.support import claimant, leases, row, save

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def clock() -> Iterator[ManualClock]:
    clock = ManualClock()
    with told_time(clock):
        yield clock


@pytest.fixture
def worker(alias: str, clock: ManualClock) -> Worker:
    """A member whose threads the test plays."""
    options = WorkerOptions(member_name="ann", queues=("default",))
    worker = Worker(Config(database=alias, lease_duration=600.0), options, clock, Shutdown())
    worker.cluster._thread = mock.Mock()
    worker.slots = SteppedSlots(4, worker.slots._executor, worker._arrivals.put, worker._custody)
    worker._quarantine = Quarantine(worker._custody, worker._settler, worker.slots.submit)
    worker.cluster.join()
    worker._helpers()
    return worker


def test_after_an_outage_a_member_takes_no_other_one_s_name(
    alias: str, worker: Worker, clock: ManualClock
) -> None:
    """Its host's name looks free by then, and its holder dead, whose tasks are running."""
    config = Config(database=alias, lease_duration=600.0)
    options = WorkerOptions(member_name="ann", named=False)
    second = Worker(config, options, clock, Shutdown())
    second.cluster._thread = mock.Mock()
    second.cluster.join()
    assert (worker.cluster.member_id, second.cluster.member_id) == ("ann", "ann-2")

    clock.advance(61.0)
    second.cluster.beat()

    assert second.cluster.member_id == "ann-2"
    assert second.cluster.taken_over is None
    assert Member.objects.using(alias).filter(incarnation=worker.cluster.incarnation).exists()


def test_a_stolen_lease_is_trusted_from_before_it_was_taken(
    alias: str, worker: Worker, clock: ManualClock
) -> None:
    (lease,) = leases(Database(alias))

    def steal(*args: Any) -> list[Any]:
        clock.advance(45.0)  # stopped right after the claim
        return [lease]

    with mock.patch.object(worker._thief, "steal", steal):
        worker._claim()

    assert lease.trusted_until == 600.0


@pytest.mark.case("R17")
def test_what_waits_in_a_silent_member_is_handed_back_when_it_comes_back(
    alias: str, worker: Worker, clock: ManualClock
) -> None:
    save(Database(alias), row(run_after=clock.now()))
    worker.round()
    held = Task.objects.using(alias).get()
    incarnation = worker.cluster.incarnation

    clock.advance(61.0)  # longer than the liveness window, shorter than the lease
    worker.cluster.beat()
    assert not worker.slots._executor.holds_leases()
    with mock.patch.object(worker, "_claim"):
        worker.round()

    released = Task.objects.using(alias).get()
    assert (held.status, released.status) == (TaskState.RUNNING, TaskState.READY)
    assert (released.attempts, released.lost_leases) == (0, 0)
    assert worker.cluster.incarnation != incarnation
    assert worker.slots._executor.holds_leases()


@pytest.mark.case("R17")
def test_a_heartbeat_that_was_held_on_its_way_tells_no_old_moment(
    alias: str, worker: Worker, clock: ManualClock
) -> None:
    """A task kept the interpreter between the clock and the driver; its stand-in has beaten."""
    worker.cluster.beaten_for = clock.monotonic
    beat, held = members.beat, [50.0]

    def late(*told: Any) -> bool:
        clock.advance(held.pop() if held else 0.0)
        return beat(*told)

    with mock.patch.object(members, "beat", late):
        worker.cluster.beat()

    assert Member.objects.using(alias).get().heartbeat_at == clock.now()


def test_a_member_that_joins_again_while_it_drains_says_so_at_once(
    alias: str, worker: Worker, clock: ManualClock
) -> None:
    worker.cluster._wake.clear()
    clock.advance(61.0)

    worker.cluster.drain()

    assert worker.cluster._wake.is_set(), "the next heartbeat does not wait for its interval"
    worker.cluster.beat()
    assert Member.objects.using(alias).get().state == Member.State.DRAINING


@pytest.mark.case("R17")
def test_what_the_stand_in_has_handed_back_does_not_start_after_a_renewal(
    alias: str, worker: Worker, clock: ManualClock
) -> None:
    """The interpreter is free for a moment: the keeper renews before the slot asks."""
    database = Database(alias)
    save(database, row(run_after=clock.now()), row(run_after=clock.now()))
    worker.round()
    handed_back, kept = worker._custody.snapshot()
    settle(database, [(handed_back, Released())], clock.now())
    duration = worker._config.lease_duration
    keeper = LeaseKeeper(database, clock, worker._custody, duration, "ann")

    clock.advance(300.0)
    with worker._custody._pulse.handing_back():
        keeper.renew_once()
        assert (handed_back.trusted_until, kept.trusted_until) == (0.0, 600.0)
    keeper.renew_once()

    assert (handed_back.trusted_until, kept.trusted_until) == (0.0, 900.0)


def test_a_claim_that_lost_a_race_has_left_something_behind(
    alias: str, worker: Worker, clock: ManualClock
) -> None:
    """Whoever looked idle looked first where the next hint said, and put the better task last."""
    database = Database(alias)
    save(database, *(row(run_after=clock.now(), priority=9) for _ in range(3)))
    (first, *_) = choose(database, claimant(), 3)

    def lose_one(*args: Any, **kwargs: Any) -> list[Any]:
        heads = choose(*args, **kwargs)
        take(database, claimant("other"), [first], clock.now())
        return heads

    with mock.patch.object(nearby, "choose", lose_one):
        worker.round()

    assert worker._nearby.has_left
    worker._nearby.heard([Hint(1, 100)])
    assert not worker._nearby.is_called({1}, True)


def test_a_wake_up_that_met_an_error_is_not_used_up(
    alias: str, worker: Worker, clock: ManualClock
) -> None:
    worker._pace._poll_seconds = 5.0
    error = OperationalError(1205, "lock wait timeout")
    with (
        mock.patch.object(nearby, "choose", side_effect=error),
        mock.patch.object(worker._database, "is_transient", return_value=True),
        mock.patch.object(worker._outage, "pause"),
    ):
        worker.round()

    assert worker._outage.is_on
    assert worker._pace._poll_seconds < 0.1


def test_what_was_claimed_while_the_stand_in_looked_is_not_handed_back(
    alias: str, worker: Worker, clock: ManualClock
) -> None:
    """The interpreter comes back between its two questions: for how long, and what."""
    database = Database(alias)
    save(database, row(run_after=clock.now()), row(run_after=clock.now()))
    pulse, custody = worker._custody._pulse, worker._custody
    (old,) = claim(database, claimant("ann"), 1, clock.now())
    custody.add([old], 10.0)
    clock.advance(20.0)
    held = pulse.held

    def held_late() -> list[Any]:
        if pulse._ints[HANDING_BACK] and len(custody) == 1:
            (new,) = claim(database, claimant("ann"), 1, clock.now())
            custody.add([new], 620.0)
        return held()

    acting = Acting(worker._config, "ann", worker.cluster.incarnation, pulse)
    with mock.patch.object(pulse, "held", held_late):
        acting._hand_back()

    states = dict(Task.objects.using(alias).values_list("pk", "status"))
    assert states.pop(old.id) == TaskState.READY
    assert list(states.values()) == [TaskState.RUNNING]
