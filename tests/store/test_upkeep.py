"""Promotion, reclaim and pruning: what keeps the queue moving, and what must stay."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from skipper_django.core.buckets import ALL_BUCKETS, BUCKETS, BucketRange, Share, lane_of
from skipper_django.core.clock import ManualClock
from skipper_django.core.config import Config
from skipper_django.core.states import TaskState
from skipper_django.core.tokens import new_incarnation
from skipper_django.janitor import Janitor
from skipper_django.models import Task
from skipper_django.store.claim import claim
from skipper_django.store.database import Database
from skipper_django.store.read import unfinished
from skipper_django.store.upkeep import Expired, expired, promote, prune, reclaim, renew
from tests.store.support import (
    LANE,
    MINUTE,
    NOW,
    all_rows,
    claimant,
    leases,
    read,
    row,
    save,
    side_by_side,
    states,
    task_ids,
)

pytestmark = pytest.mark.django_db(transaction=True)

SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)
DAY = timedelta(days=1)
RUNNING, SCHEDULED = TaskState.RUNNING, TaskState.SCHEDULED
FINISHED = (TaskState.SUCCESSFUL, TaskState.FAILED, TaskState.CANCELLED)


SHARES = [Share((LANE,), ALL_BUCKETS)]
LATER = NOW + 10 * MINUTE


def lost(database: Database, now: datetime = NOW) -> list[Expired]:
    return expired(database, [LANE], ALL_BUCKETS, now)


def janitor(database: Database, clock: ManualClock) -> Janitor:
    return Janitor(database, clock, Config(database=database.alias))


# Promotion


@pytest.mark.parametrize(
    ("due", "state"),
    [(-DAY, TaskState.READY), (timedelta(0), TaskState.READY), (MICROSECOND, SCHEDULED)],
)
def test_a_task_is_promoted_when_it_is_due_and_not_before(
    database: Database, due: timedelta, state: TaskState
) -> None:
    save(database, row("mine", status=SCHEDULED, run_after=NOW + due, priority=9))

    promoted = promote(database, [LANE], ALL_BUCKETS, NOW)

    stored = read(database, "mine")
    assert promoted == (state is TaskState.READY)
    assert stored.status == state
    assert stored.ord == (-9 if state is TaskState.READY else 0)
    assert stored.run_after == NOW + due


@pytest.mark.parametrize(
    "buckets", [BucketRange(0, 1), BucketRange(14, 18), BucketRange(990, 1000)]
)
def test_only_due_tasks_of_the_share_are_promoted(database: Database, buckets: BucketRange) -> None:
    save(database, *(row(bucket=bucket, status=SCHEDULED) for bucket in range(BUCKETS)))

    promoted = promote(database, [LANE], buckets, NOW)

    ready = [task.bucket for task in all_rows(database) if task.status == TaskState.READY]
    assert promoted == len(buckets)
    assert ready == list(range(buckets.start, buckets.stop))


def test_only_tasks_of_the_members_queues_and_tenant_are_promoted(database: Database) -> None:
    save(
        database,
        row(status=SCHEDULED),
        row(status=SCHEDULED, queue_name="mail"),
        row(status=SCHEDULED, queue_name="images"),
        row(status=SCHEDULED, tenant="other"),
    )

    promoted = promote(database, [LANE, lane_of("default", "mail")], ALL_BUCKETS, NOW)

    assert promoted == 2
    assert states(database) == [TaskState.READY, TaskState.READY, SCHEDULED, SCHEDULED]


@pytest.mark.parametrize("state", set(TaskState) - {SCHEDULED})
def test_only_scheduled_tasks_are_promoted(database: Database, state: TaskState) -> None:
    save(database, row("mine", status=state, priority=5))
    before = read(database, "mine").ord

    assert promote(database, [LANE], ALL_BUCKETS, NOW) == 0
    assert (states(database), read(database, "mine").ord) == ([state], before)


def test_nothing_to_serve_promotes_and_reclaims_nothing(database: Database) -> None:
    save(database, row(status=SCHEDULED))

    assert promote(database, [], ALL_BUCKETS, NOW) == 0
    assert promote(database, [LANE], BucketRange(5, 5), NOW) == 0
    assert expired(database, [], ALL_BUCKETS, NOW) == []
    assert expired(database, [LANE], BucketRange(5, 5), NOW) == []


def test_two_that_promote_at_once_promote_each_task_once(database: Database) -> None:
    save(database, *(row(status=SCHEDULED) for _ in range(200)))

    counts = side_by_side(
        *[lambda: promote(Database(database.alias), [LANE], ALL_BUCKETS, NOW)] * 3
    )

    assert sum(counts) == 200
    assert set(states(database)) == {TaskState.READY}


def test_the_janitor_promotes_more_than_one_batch(database: Database) -> None:
    save(database, *(row(status=SCHEDULED) for _ in range(2_100)))

    assert janitor(database, ManualClock(NOW)).promote(SHARES) == 2_100


def test_a_promoted_task_keeps_its_place_by_priority_and_due_time(database: Database) -> None:
    save(
        database,
        row("late", status=SCHEDULED, run_after=NOW - SECOND),
        row("early", status=SCHEDULED, run_after=NOW - 2 * SECOND),
        row("urgent", status=SCHEDULED, run_after=NOW, priority=1),
        row("ready", run_after=NOW - 1.5 * SECOND),
    )

    promote(database, [LANE], ALL_BUCKETS, NOW)

    claimed = claim(database, claimant(), 10, NOW)
    assert task_ids(claimed) == ["urgent", "early", "ready", "late"]


# Reclaim


@pytest.mark.parametrize(
    ("expiry", "is_expired"), [(-MICROSECOND, True), (timedelta(0), False), (MICROSECOND, False)]
)
def test_a_lease_is_expired_only_after_its_end(
    database: Database, expiry: timedelta, is_expired: bool
) -> None:
    save(database, row(status=RUNNING, lease_expires_at=NOW + expiry))

    found = lost(database)

    assert len(found) == is_expired
    assert reclaim(database, found, NOW) == is_expired
    assert states(database) == [TaskState.READY if is_expired else RUNNING]


def test_only_expired_leases_of_the_share_are_found(database: Database) -> None:
    past = NOW - SECOND
    save(
        database,
        *(row(bucket=n, status=RUNNING, lease_expires_at=past) for n in range(0, BUCKETS, 5)),
        row(bucket=40, status=RUNNING, lease_expires_at=past, queue_name="mail"),
        row(bucket=40, status=RUNNING, lease_expires_at=past, tenant="other"),
    )

    found = expired(database, [LANE], BucketRange(40, 62), NOW)

    stored = {task.id: task for task in all_rows(database)}
    assert [stored[task.id].bucket for task in found] == [40, 45, 50, 55, 60]
    assert {stored[task.id].lane for task in found} == {LANE}


def test_the_first_loss_makes_a_task_ready_at_its_old_place(database: Database) -> None:
    save(database, row("mine", priority=4, run_after=NOW - MINUTE))
    claim(database, claimant("host-1"), 1, NOW)

    count = reclaim(database, lost(database, LATER), LATER)

    stored = read(database, "mine")
    assert count == 1
    assert (stored.status, stored.ord, stored.lost_leases) == (TaskState.READY, -4, 1)
    assert (stored.lease_token, stored.lease_expires_at) == (None, None)
    assert (stored.attempts, stored.worker_ids) == (1, "host-1\n")
    assert (stored.run_after, stored.started_at) == (NOW - MINUTE, NOW)


def test_a_task_that_kills_its_workers_waits_then_fails_and_names_them(
    database: Database,
) -> None:
    save(database, row("killer", errors='[{"attempt": 0, "message": "before"}]'))
    now = NOW
    for number, state in enumerate((TaskState.READY, SCHEDULED, TaskState.FAILED), start=1):
        promote(database, [LANE], ALL_BUCKETS, now)
        (lease,) = claim(database, claimant(f"host-{number}"), 1, now)
        assert (lease.attempts, lease.lost_leases, lease.policy_attempt) == (number, number - 1, 1)
        now += 2 * MINUTE
        assert reclaim(database, lost(database, now), now) == 1
        stored = read(database, "killer")
        assert (stored.status, stored.lost_leases) == (state, number)
        if state == SCHEDULED:
            assert now < stored.run_after <= now + MINUTE
            now += MINUTE

    assert (stored.reason, stored.finished_at) == ("worker_lost", now)
    assert (stored.lease_token, stored.lease_expires_at, stored.ord) == (None, None, 0)
    first, last = json.loads(stored.errors or "")
    assert first["message"] == "before"
    assert last["exception_class_path"].endswith("WorkerLost")
    assert "host-1, host-2, host-3" in last["message"]
    assert promote(database, [LANE], ALL_BUCKETS, now + DAY) == 0
    assert claim(database, claimant(), 1, now + DAY) == []


def test_a_lease_renewed_in_between_is_not_taken_back(database: Database) -> None:
    (lease,) = leases(database)
    found = lost(database, LATER)
    renew(database, [lease], LATER, 60)

    assert reclaim(database, found, LATER) == 0
    assert states(database) == [RUNNING]


def test_a_task_claimed_again_in_between_is_not_taken_back(database: Database) -> None:
    leases(database)
    found = lost(database, LATER)
    reclaim(database, found, LATER)
    (again,) = claim(database, claimant("other"), 1, LATER)

    assert reclaim(database, found, LATER) == 0
    assert read(database, again.task_id).lease_token == again.token


def test_two_that_reclaim_at_once_count_a_loss_once(database: Database) -> None:
    leases(database, 100)

    def take_back() -> int:
        mine = Database(database.alias)
        return reclaim(mine, expired(mine, [LANE], ALL_BUCKETS, LATER), LATER)

    counts = side_by_side(take_back, take_back, take_back)

    assert sum(counts) == 100
    assert {task.lost_leases for task in all_rows(database)} == {1}


def test_a_mixed_batch_of_losses_treats_each_by_its_own_count(database: Database) -> None:
    past = NOW - SECOND
    save(
        database,
        *(
            row(status=RUNNING, lease_expires_at=past, lost_leases=n % 5, worker_ids=None)
            for n in range(50)
        ),
    )

    assert reclaim(database, lost(database), NOW) == 50

    expected = {1: TaskState.READY, 2: SCHEDULED}
    for task in all_rows(database):
        assert task.status == expected.get(task.lost_leases, TaskState.FAILED)


def test_the_janitor_takes_back_one_batch_a_round_and_the_rest_in_the_next(
    database: Database,
) -> None:
    past = NOW - SECOND
    save(database, *(row(status=RUNNING, lease_expires_at=past) for _ in range(2_100)))

    rounds = [janitor(database, ManualClock(NOW)).reclaim(SHARES) for _ in range(4)]

    assert rounds == [1_000, 1_000, 100, 0]


def test_the_leases_of_a_dead_incarnation_are_taken_back_at_once(database: Database) -> None:
    dead, alive = new_incarnation(), new_incarnation()
    save(database, *(row() for _ in range(20)))
    claim(database, replace(claimant("dead"), incarnation=dead), 10, NOW)
    held = claim(database, replace(claimant("alive"), incarnation=alive), 10, NOW)

    count = janitor(database, ManualClock(NOW)).reclaim(SHARES, [dead])

    assert count == 10
    assert renew(database, held, NOW, 60).lost == []
    assert states(database).count(RUNNING) == 10


def test_the_janitor_may_leave_what_is_not_late_yet(database: Database) -> None:
    clock = ManualClock(NOW)
    save(
        database,
        row(status=SCHEDULED, run_after=NOW),
        row(status=RUNNING, lease_expires_at=NOW - MICROSECOND),
    )
    assert janitor(database, clock).promote(SHARES, late=5) == 0
    assert janitor(database, clock).reclaim(SHARES, late=5) == 0

    clock.advance(5)
    assert janitor(database, clock).promote(SHARES, late=5) == 1
    assert janitor(database, clock).reclaim(SHARES, late=5) == 1


# Pruning


def prune_all(database: Database, tenant: str = "default") -> int:
    total, place = 0, 0
    while True:
        count, next_place = prune(database, tenant, place, NOW - 7 * DAY, NOW - 30 * DAY)
        total += count
        if next_place is None:
            return total
        assert next_place > place
        place = next_place


@pytest.mark.parametrize("state", FINISHED)
@pytest.mark.parametrize("age", [1 * DAY, 7 * DAY, 8 * DAY, 30 * DAY, 31 * DAY])
def test_finished_tasks_are_kept_as_long_as_promised(
    database: Database, state: TaskState, age: timedelta
) -> None:
    save(database, row(status=state, enqueued_at=NOW - 90 * DAY, finished_at=NOW - age))

    pruned = prune_all(database)

    kept_for = 30 * DAY if state == TaskState.FAILED else 7 * DAY
    assert pruned == (age > kept_for)
    assert len(all_rows(database)) == 1 - pruned


@pytest.mark.parametrize("state", set(TaskState) - set(FINISHED))
def test_unfinished_tasks_are_kept_for_ever(database: Database, state: TaskState) -> None:
    save(database, row(status=state, enqueued_at=NOW - 900 * DAY, run_after=NOW - 900 * DAY))

    assert prune_all(database) == 0
    assert states(database) == [state]


def test_the_tasks_of_other_tenants_are_kept(database: Database) -> None:
    old: dict[str, Any] = {"enqueued_at": NOW - 90 * DAY, "finished_at": NOW - 90 * DAY}
    save(
        database,
        row(status=TaskState.SUCCESSFUL, **old),
        row("theirs", tenant="other", status=TaskState.SUCCESSFUL, **old),
    )

    assert prune_all(database) == 1
    assert task_ids(all_rows(database)) == ["theirs"]


def test_pruning_walks_over_gaps_and_kept_tasks(database: Database) -> None:
    old: dict[str, Any] = {"enqueued_at": NOW - 90 * DAY, "finished_at": NOW - 90 * DAY}
    first = save(database, row(status=TaskState.SUCCESSFUL, **old))[0].id
    offsets = [1, 998, 999, 1_000, 1_001, 2_500, 90_000, 90_001, 500_000]
    save(
        database,
        *(row(id=first + offset, status=TaskState.SUCCESSFUL, **old) for offset in offsets),
        *(row(id=first + offset + 5, status=SCHEDULED, enqueued_at=NOW) for offset in offsets[4:6]),
    )

    assert prune_all(database) == len(offsets) + 1
    assert states(database) == [SCHEDULED] * 2


def test_thousands_are_pruned_in_bounded_batches(database: Database) -> None:
    old: dict[str, Any] = {"enqueued_at": NOW - 90 * DAY, "finished_at": NOW - 90 * DAY}
    save(database, *(row(status=TaskState.SUCCESSFUL, **old) for _ in range(2_500)))

    count, _ = prune(database, "default", 0, NOW - 7 * DAY, NOW - 30 * DAY)
    assert 0 < count <= 1_000

    assert prune_all(database) == 2_500 - count
    assert all_rows(database) == []


def test_an_empty_table_has_nothing_to_prune(database: Database) -> None:
    assert prune(database, "default", 0, NOW, NOW) == (0, None)


def test_the_janitor_prunes_by_its_retentions(database: Database) -> None:
    clock = ManualClock(NOW)
    save(
        database,
        row("old", status=TaskState.SUCCESSFUL, enqueued_at=NOW - DAY),
        row("failed", status=TaskState.FAILED, enqueued_at=NOW - DAY),
    )
    assert janitor(database, clock).prune() == 0

    clock.advance(8 * 86_400)
    assert janitor(database, clock).prune() == 1
    clock.advance(23 * 86_400)
    assert janitor(database, clock).prune() == 1


@pytest.mark.parametrize("state", TaskState)
def test_a_tenant_has_unfinished_tasks_or_not(database: Database, state: TaskState) -> None:
    save(database, row(status=state), row(tenant="other"))

    assert unfinished(database, "default") is not state.is_final


def test_a_row_cannot_run_without_a_lease_or_hold_one_without_running(
    database: Database,
) -> None:
    (mine,) = save(database, row())
    rows = Task.objects.using(database.alias).filter(id=mine.id)

    for values in ({"status": 2}, {"lease_expires_at": NOW}):
        with pytest.raises(Exception, match=r"(?i)lease_if_run"):
            rows.update(**values)

    assert rows.update(status=2, lease_expires_at=NOW) == 1
