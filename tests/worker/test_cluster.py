"""Members join, divide the queue, and leave. Rows A1 to A20 of the parity list, by number."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.db import InterfaceError
from django.db.models import QuerySet

from skipper_django.core.buckets import BucketRange, bucket_of, lane_of
from skipper_django.core.clock import Clock
from skipper_django.core.errors import MemberNameTaken
from skipper_django.core.partition import partition
from skipper_django.models import Member, Task
from skipper_django.store import members as members_store
from skipper_django.store.clock import clock_of
from tests import tasks
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State

QUICK = {"cluster_heartbeat_interval": 0.2, "cluster_liveness_window": 1.5}
NO_STEALING = {**QUICK, "steal_after": None}


@pytest.fixture
def members(alias: str) -> Callable[[], QuerySet[Member]]:
    return lambda: Member.objects.using(alias).order_by("member_id")


@pytest.fixture
def wait_for_ranges(members: Any) -> Callable[..., None]:
    """Until the rows show these ranges, in the order of the members' names."""

    def wait(*expected: tuple[int, int]) -> None:
        def shown() -> list[tuple[int, int]]:
            return list(members().values_list("range_start", "range_stop"))

        wait_until(lambda: shown() == list(expected), 20, f"ranges {expected}")

    return wait


@pytest.fixture
def done(alias: str) -> Callable[[], int]:
    return lambda: Task.objects.using(alias).filter(status=State.SUCCESSFUL).count()


def test_a1_a_single_manager_never_registers_and_tasks_run(
    enqueue: Any, start_worker: Any, fresh: Any, members: Any
) -> None:
    row = enqueue(tasks.noop)
    worker = start_worker({"cluster_membership_manager": "single"}, drain=True)

    worker.join()

    assert fresh(row).status == State.SUCCESSFUL
    assert not members().exists()
    assert worker.worker.cluster.counters.whole_queue_fetches > 0
    assert worker.worker.cluster.counters.partitioned_fetches == 0


def test_a2_the_row_is_there_before_the_first_fetch_and_beats(
    start_worker: Any, members: Any, alias: str
) -> None:
    seen = []

    def gate() -> bool:
        seen.append(members().count())
        return True

    start_worker(QUICK, gate)
    first = wait_until(lambda: members().first()).heartbeat_at
    wait_until(lambda: members().get().heartbeat_at > first, what="a heartbeat")

    assert seen[0] == 1, "asked before every fetch, and the row was there at the first"
    row = members().get()
    assert (row.tenant, row.concurrency, row.queues) == ("default", 4, "")
    assert row.pid > 0
    assert row.version


def test_a4_three_members_have_the_ranges_of_the_page(
    start_worker: Any, wait_for_ranges: Any
) -> None:
    for _ in range(3):
        start_worker(QUICK)

    wait_for_ranges((0, 334), (334, 667), (667, 1000))


def test_a5_every_task_is_done_by_the_owner_of_its_bucket(
    alias: str, enqueue: Any, start_worker: Any, wait_for_ranges: Any, done: Any
) -> None:
    for _ in range(3):
        start_worker(NO_STEALING)
    wait_for_ranges((0, 334), (334, 667), (667, 1000))

    for _ in range(60):
        enqueue(tasks.noop)
    wait_until(lambda: done() == 60)

    owners = partition(["thread-1", "thread-2", "thread-3"])
    rows = list(Task.objects.using(alias))
    assert all(row.bucket in owners[row.worker_ids.strip()] for row in rows)
    assert len({row.worker_ids for row in rows}) == 3
    assert all(row.bucket == bucket_of(row.task_id) for row in rows)


def test_a6_a_new_member_takes_its_range_under_load(
    alias: str, enqueue: Any, start_worker: Any, wait_for_ranges: Any, done: Any
) -> None:
    start_worker(QUICK)
    wait_for_ranges((0, 1000))
    for number in range(40):
        enqueue(tasks.noop)
        if number == 20:
            start_worker(QUICK)

    wait_for_ranges((0, 500), (500, 1000))
    wait_until(lambda: done() == 40)

    assert set(Task.objects.using(alias).values_list("attempts", flat=True)) == {1}


def test_a7_a_graceful_stop_hands_the_range_over(
    start_worker: Any, wait_for_ranges: Any, members: Any
) -> None:
    leaving, *_ = [start_worker(QUICK) for _ in range(3)]
    wait_for_ranges((0, 334), (334, 667), (667, 1000))

    leaving.stop()

    assert set(members().values_list("member_id", flat=True)) == {"thread-2", "thread-3"}
    wait_for_ranges((0, 500), (500, 1000))


def test_a8_a_member_that_stops_beating_drops_out_after_the_window(
    alias: str, start_worker: Any, wait_for_ranges: Any, add_member: Any, members: Any
) -> None:
    add_member("another-host", heartbeat_age=0.0)
    start_worker(QUICK, member_name="survivor")
    survivor = members().filter(member_id="survivor")
    wait_until(lambda: survivor.filter(range_start=500, range_stop=1000).exists())

    wait_until(lambda: survivor.filter(range_start=0, range_stop=1000).exists())

    assert members().get(member_id="another-host").state == Member.State.ACTIVE, "nobody marked it"


def test_a8_the_leases_of_a_member_known_to_be_dead_are_not_waited_for(
    alias: str, enqueue: Any, start_worker: Any, add_member: Any, wait_for_state: Any
) -> None:
    row = enqueue(tasks.noop)
    dead = add_member("dead", heartbeat_age=30.0)
    _let_run(row, dead)

    start_worker({**QUICK, "lease_duration": 1000.0})

    row = wait_for_state(row, State.SUCCESSFUL)
    assert (row.attempts, row.lost_leases) == (2, 1)


def test_a8_they_are_reclaimed_when_the_death_is_seen(
    alias: str,
    enqueue: Any,
    start_worker: Any,
    add_member: Any,
    wait_for_state: Any,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr("skipper_django.worker.upkeep.RECLAIM_EVERY_SECONDS", 300.0)
    row = enqueue(tasks.noop)
    other = add_member("other", heartbeat_age=0.0)
    _let_run(row, other)
    rare = {"cluster_liveness_window": 900.0, "lease_duration": 10_000.0}
    worker = start_worker({**QUICK, **rare}).worker
    wait_until(lambda: len(worker.cluster.view.live) == 2)

    Member.objects.using(alias).filter(pk=other.pk).update(state=Member.State.DEAD)

    assert wait_for_state(row, State.SUCCESSFUL).lost_leases == 1


class Meeting:
    """A clock whose worker chooses its first tasks, and takes none before all others have chosen.

    A fetch asks the gate, chooses, asks the clock, takes: all in one thread.
    """

    def __init__(self, clock: Clock, others: threading.Barrier) -> None:
        self.estimate, self.monotonic = clock.estimate, clock.monotonic
        self._clock = clock
        self._others = others
        self._mine = threading.local()

    def gate(self) -> bool:
        self._mine.first = not hasattr(self._mine, "first")
        return False

    def now(self) -> datetime:
        if getattr(self._mine, "first", False):
            self._mine.first = False
            self._others.wait(20)
        return self._clock.now()


def test_a_member_that_was_only_stopped_keeps_what_it_claims_after_its_return(
    alias: str, enqueue: Any, start_worker: Any, add_member: Any, fresh: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("skipper_django.worker.upkeep.RECLAIM_EVERY_SECONDS", 0.2)
    stopped = add_member("stopped", heartbeat_age=1000.0)
    rare = {"cluster_heartbeat_interval": 300.0, "cluster_liveness_window": 900.0}
    worker = start_worker({**rare, "lease_duration": 300.0}).worker
    wait_until(lambda: worker.cluster.view.dead)
    Member.objects.using(alias).filter(pk=stopped.pk).update(
        heartbeat_at=worker.cluster.view.live[0].heartbeat_at
    )
    row = enqueue(tasks.noop.using(queue_name="its own"))
    _let_run(row, stopped)

    rounds = _count_calls(monkeypatch, worker._janitor, "reclaim")
    wait_until(lambda: len(rounds) > 10, what="reclaims, with the lanes looked up between")

    assert fresh(row).status == State.RUNNING


def test_after_an_outage_others_may_beat_before_they_count_as_dead(
    alias: str, enqueue: Any, start_worker: Any, add_member: Any, fresh: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("skipper_django.worker.upkeep.RECLAIM_EVERY_SECONDS", 0.1)
    row = enqueue(tasks.noop)
    other = add_member("other", heartbeat_age=0.0)
    _let_run(row, other)
    away = threading.Event()
    beat = members_store.beat

    def beat_unless_away(*args: Any) -> bool:
        if away.is_set():
            raise InterfaceError("the database is away")
        return beat(*args)

    monkeypatch.setattr(members_store, "beat", beat_unless_away)
    worker = start_worker({**QUICK, "cluster_liveness_window": 3.0}).worker
    wait_until(lambda: len(worker.cluster.view.live) == 2)

    away.set()
    wait_until(lambda: not worker.cluster.is_trusted())
    away.clear()
    wait_until(lambda: worker.cluster.view.dead, what="the first look after the outage")
    rounds = _count_calls(monkeypatch, worker._janitor, "reclaim")
    wait_until(lambda: len(rounds) > 4)

    assert fresh(row).status == State.RUNNING, "it may beat at any moment now"
    wait_until(lambda: fresh(row).lost_leases == 1, what="a window later it is dead")


def _let_run(row: Task, member: Member) -> None:
    """The task runs, under a lease of that member that outlasts every test."""
    Task.objects.using(row._state.db).filter(pk=row.pk).update(
        status=State.RUNNING,
        lease_token=member.incarnation << 32 | 7,
        lease_expires_at=row.enqueued_at.replace(year=2199),
        attempts=1,
        worker_ids=f"{member.member_id}\n",
    )


def _count_calls(monkeypatch: Any, owner: Any, name: str) -> list[None]:
    calls: list[None] = []
    original = getattr(owner, name)

    def counted(*args: Any) -> Any:
        calls.append(None)
        return original(*args)

    monkeypatch.setattr(owner, name, counted)
    return calls


def test_a9_two_members_of_one_range_lose_races_but_no_task(
    alias: str, enqueue: Any, start_worker: Any, done: Any
) -> None:
    for _ in range(200):
        enqueue(tasks.noop)
    barrier = threading.Barrier(3)
    clocks = [Meeting(clock_of(alias), barrier) for _ in range(3)]

    workers = [
        start_worker(QUICK, clock.gate, clock, drain=True, concurrency=8) for clock in clocks
    ]
    for worker in workers:
        worker.join()

    assert done() == 200
    assert set(Task.objects.using(alias).values_list("attempts", flat=True)) == {1}
    counters = [worker.worker.cluster.counters for worker in workers]
    assert sum(counter.claimed for counter in counters) == 200
    # Each had chosen the same eight, and two had to look for others.
    assert sum(counter.lost_races for counter in counters) >= 16


def test_a10_each_fallback_has_its_reason_in_the_row(
    start_worker: Any, members: Any, enqueue: Any, wait_for_state: Any
) -> None:
    def broken() -> bool:
        raise RuntimeError("no feature service")

    start_worker(QUICK, lambda: False, member_name="off")
    start_worker(QUICK, broken, member_name="raises")

    wait_until(
        lambda: (
            set(members().values_list("fetch_mode", "reason"))
            == {("whole_queue", "gate_off"), ("whole_queue", "gate_error")}
        )
    )
    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)
    assert set(members().values_list("range_start", "range_stop")) == {(0, 0)}


def test_a10_a_member_whose_row_was_deleted_joins_anew(
    start_worker: Any, members: Any, enqueue: Any, wait_for_state: Any
) -> None:
    start_worker(QUICK)
    joined = members().exclude(fetch_mode="")  # before, it is only about to
    before = wait_until(lambda: joined.all().first()).incarnation

    members().delete()

    row = wait_until(lambda: members().first(), what="a new row")
    assert row.incarnation != before
    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL)


def test_a11_the_gate_is_asked_before_each_fetch(start_worker: Any, members: Any) -> None:
    is_open = threading.Event()
    start_worker(QUICK, is_open.is_set)
    wait_until(lambda: members().filter(reason="gate_off").exists())

    is_open.set()
    wait_until(lambda: members().filter(fetch_mode="partitioned", range_stop=1000).exists())

    is_open.clear()
    wait_until(lambda: members().filter(reason="gate_off").exists())


@pytest.mark.case("R18")
def test_a12_a_chosen_name_in_use_is_refused_naming_the_holder(
    start_worker: Any, members: Any
) -> None:
    start_worker(QUICK, member_name="web")
    holder = wait_until(lambda: members().first())

    second = start_worker(QUICK, member_name="web")

    with pytest.raises(MemberNameTaken) as refused:
        second.join()
    assert f"process {holder.pid} on host {holder.host}, started at" in str(refused.value)
    assert members().get().incarnation == holder.incarnation, "the first keeps its row"


@pytest.mark.case("R18")
def test_a12_a_host_s_name_gets_the_next_free_suffix(
    start_worker: Any, members: Any, wait_for_ranges: Any
) -> None:
    for _ in range(3):
        start_worker(QUICK, member_name="web", named=False)
        wait_until(members().count)

    wait_for_ranges((0, 334), (334, 667), (667, 1000))
    assert list(members().values_list("member_id", flat=True)) == ["web", "web-2", "web-3"]


def test_a12_a_dead_member_s_name_is_taken_over(
    start_worker: Any, members: Any, add_member: Any
) -> None:
    dead = add_member("web", heartbeat_age=30.0)

    start_worker(QUICK, member_name="web")

    wait_until(lambda: members().get().incarnation != dead.incarnation)


def test_a14_tenants_are_separate_clusters(
    alias: str, enqueue: Any, start_worker: Any, wait_for_ranges: Any, fresh: Any, done: Any
) -> None:
    foreign = enqueue(tasks.noop)
    Task.objects.using(alias).filter(pk=foreign.pk).update(
        tenant="other", lane=lane_of("other", "default")
    )
    start_worker(QUICK)
    start_worker({**QUICK, "tenant": "other"})

    wait_for_ranges((0, 1000), (0, 1000))
    wait_until(lambda: fresh(foreign).status == State.SUCCESSFUL)
    assert fresh(foreign).worker_ids == "thread-2\n"


def test_members_of_different_queues_are_divided_per_queue(
    enqueue: Any, start_worker: Any, alias: str, members: Any, done: Any
) -> None:
    start_worker(NO_STEALING, queues=("mail",))
    start_worker(NO_STEALING, queues=("mail", "video"))
    wait_until(lambda: members().filter(fetch_mode="partitioned").count() == 2)
    for _ in range(20):
        enqueue(tasks.noop.using(queue_name="mail"))
        enqueue(tasks.noop.using(queue_name="video"))

    wait_until(lambda: done() == 40)

    video = Task.objects.using(alias).filter(queue_name="video")
    assert set(video.values_list("worker_ids", flat=True)) == {"thread-2\n"}


def test_an_idle_member_steals_what_its_owner_leaves_lying(
    enqueue: Any, start_worker: Any, add_member: Any, wait_for_state: Any, alias: str
) -> None:
    add_member("absent", heartbeat_age=-3600.0)  # will not drop out within this test
    row = _enqueue_in(BucketRange(0, 500), enqueue)
    worker = start_worker({**QUICK, "steal_after": 0.5}, member_name="thief")

    row = wait_for_state(row, State.SUCCESSFUL)

    assert row.worker_ids == "thief\n"
    assert worker.worker.cluster.counters.stolen == 1


def test_a_thief_promotes_and_reclaims_for_the_missing_owner(
    enqueue: Any, start_worker: Any, add_member: Any, wait_for_state: Any, alias: str
) -> None:
    add_member("absent", heartbeat_age=-3600.0)
    due = _enqueue_in(BucketRange(0, 500), enqueue)
    Task.objects.using(alias).filter(pk=due.pk).update(status=State.SCHEDULED, ord=0)

    start_worker({**QUICK, "steal_after": 0.5}, member_name="thief")

    assert wait_for_state(due, State.SUCCESSFUL).worker_ids == "thief\n"


def test_without_stealing_an_absent_owner_s_task_waits(
    enqueue: Any, start_worker: Any, add_member: Any, fresh: Any, done: Any
) -> None:
    add_member("absent", heartbeat_age=-3600.0)
    row = _enqueue_in(BucketRange(0, 500), enqueue)
    own = _enqueue_in(BucketRange(500, 1000), enqueue)
    worker = start_worker(NO_STEALING, member_name="owner")
    wait_until(lambda: fresh(own).status == State.SUCCESSFUL)
    fetches = worker.worker.cluster.counters.partitioned_fetches

    wait_until(lambda: worker.worker.cluster.counters.partitioned_fetches > fetches + 5)

    assert fresh(row).status == State.READY


def _enqueue_in(buckets: BucketRange, enqueue: Any) -> Task:
    number = next(n for n in range(10_000) if bucket_of(f"task-{n}") in buckets)
    row: Task = enqueue(tasks.noop.using(task_id=f"task-{number}"))
    return row


@pytest.fixture
def add_member(alias: str) -> Callable[..., Member]:
    """A row as another host's member would have left it so many seconds ago."""

    def add(member_id: str, heartbeat_age: float) -> Member:
        from datetime import timedelta

        from skipper_django.core.tokens import new_incarnation

        moment = clock_of(alias).now() - timedelta(seconds=heartbeat_age)
        counters = ("running", "claimed", "stolen", "lost_races")
        fetches = ("partitioned_fetches", "whole_queue_fetches")
        return Member.objects.using(alias).create(
            tenant="default",
            member_id=member_id,
            incarnation=new_incarnation(),
            host="elsewhere",
            host_key="elsewhere",
            pid=1,
            process_started="1",
            started_at=moment,
            heartbeat_at=moment,
            version="0",
            queues="",
            concurrency=1,
            state=Member.State.ACTIVE,
            fetch_mode="partitioned",
            reason="",
            range_start=0,
            range_stop=0,
            **dict.fromkeys(counters + fetches, 0),
        )

    return add
