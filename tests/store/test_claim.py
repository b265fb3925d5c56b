"""Claiming: each task once, in the exact order, out of one's own share only."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skipper_django.core.buckets import ALL_BUCKETS, BUCKETS, BucketRange, lane_of
from skipper_django.core.partition import partition
from skipper_django.core.states import TaskState
from skipper_django.models import Task
from skipper_django.store.claim import choose, claim, heads_per_part, take
from skipper_django.store.database import Database
from skipper_django.store.lanes import lanes_in_use
from tests.store.support import (
    LANE,
    MINUTE,
    NOW,
    Running,
    all_rows,
    await_blocked,
    claimant,
    default_connection,
    read,
    row,
    save,
    second_connection,
    side_by_side,
    states,
    task_ids,
)

pytestmark = pytest.mark.django_db(transaction=True)

SKEWS: dict[str, Any] = {
    "uniform": lambda chance: chance.randrange(BUCKETS),
    "one slot": lambda chance: chance.randrange(16),
    "one bucket": lambda chance: 503,
    "half of the slots": lambda chance: chance.randrange(0, BUCKETS, 32),
    "most in one slot": lambda chance: chance.choice([7, 7, 7, 7, 7, chance.randrange(BUCKETS)]),
    "the last slots": lambda chance: chance.randrange(980, BUCKETS),
}


def in_order(tasks: Iterable[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: (-task.priority, task.run_after, task.id))


def mixed_rows(chance: random.Random, count: int, skew: str) -> list[Task]:
    place = SKEWS[skew]
    rows = []
    for _ in range(count):
        bucket = place(chance)
        # The best priority keeps to few slots: the heads of a slot are not those of the others.
        priority = chance.choice([0, 0, 5, -7] + ([50] if bucket < 48 else []))
        due = NOW - timedelta(seconds=chance.randrange(20), microseconds=chance.choice([0, 1, 999]))
        rows.append(row(bucket=bucket, priority=priority, run_after=due))
    return rows


def test_a_lease_says_all_that_a_worker_needs(database: Database) -> None:
    save(database, row("mine", args="[1]", kwargs='{"a":2}', priority=3, enqueued_at=NOW - MINUTE))

    (lease,) = claim(database, claimant("host-1", lease_duration=45), 10, NOW)

    stored = read(database, "mine")
    assert (lease.id, lease.task_id, lease.args, lease.kwargs) == (
        stored.id, "mine", "[1]", '{"a":2}',
    )  # fmt: skip
    assert (lease.priority, lease.queue_name, lease.name) == (3, "default", "tests.tasks.noop")
    assert (lease.attempts, lease.lost_leases, lease.worker_ids) == (1, 0, "host-1\n")
    assert (lease.enqueued_at, lease.started_at) == (NOW - MINUTE, NOW)
    assert (stored.status, stored.ord, stored.attempts) == (TaskState.RUNNING, 0, 1)
    assert stored.lease_expires_at == NOW + timedelta(seconds=45)
    assert stored.lease_token == lease.token > 0
    assert (stored.started_at, stored.last_attempted_at) == (NOW, NOW)
    assert stored.worker_ids == "host-1\n"


def test_a_later_claim_keeps_the_first_start_and_adds_its_worker(database: Database) -> None:
    save(database, row("mine", attempts=1, started_at=NOW - MINUTE, worker_ids="host-1\n"))

    (lease,) = claim(database, claimant("\U0001f680 host"), 1, NOW)

    assert (lease.attempts, lease.started_at) == (2, NOW - MINUTE)
    assert lease.worker_ids == "host-1\n\U0001f680 host\n"
    assert read(database, "mine").last_attempted_at == NOW


def test_each_batch_has_a_token_of_its_own(database: Database) -> None:
    save(database, *(row() for _ in range(4)))

    first, second = (claim(database, claimant(), 2, NOW) for _ in range(2))

    assert len({lease.token for lease in first}) == len({lease.token for lease in second}) == 1
    assert first[0].token != second[0].token


@pytest.mark.parametrize("state", set(TaskState) - {TaskState.READY})
def test_only_ready_tasks_are_claimed(database: Database, state: TaskState) -> None:
    save(database, row(status=state))

    assert claim(database, claimant(), 10, NOW) == []
    assert states(database) == [state]


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 100])
def test_no_more_are_claimed_than_asked_for(database: Database, limit: int) -> None:
    save(database, *(row() for _ in range(50)))

    leases = claim(database, claimant(), limit, NOW)

    assert len(leases) == min(limit, 50)
    assert states(database).count(TaskState.RUNNING) == len(leases)


@pytest.mark.parametrize("skew", SKEWS)
def test_one_worker_alone_is_a_plain_priority_queue(database: Database, skew: str) -> None:
    rows = save(database, *mixed_rows(random.Random(skew), 400, skew))

    claimed = []
    for limit in (1, 3, 10, 40, 100, 90, 200):
        claimed += claim(database, claimant(), limit, NOW)

    assert task_ids(claimed) == task_ids(in_order(rows))


@pytest.mark.parametrize(
    "buckets",
    [
        BucketRange(0, 1), BucketRange(3, 5), BucketRange(15, 17), BucketRange(16, 32),
        BucketRange(334, 667), BucketRange(999, 1000), BucketRange(991, 993), BucketRange(20, 20),
    ],
    ids=str,
)  # fmt: skip
def test_a_share_is_claimed_exactly_to_its_borders(
    database: Database, buckets: BucketRange
) -> None:
    rows = save(database, *(row(bucket=bucket, priority=bucket % 3) for bucket in range(BUCKETS)))

    claimed = claim(database, claimant(buckets=buckets), 1_000, NOW)

    assert task_ids(claimed) == task_ids(in_order(task for task in rows if task.bucket in buckets))


def test_several_queues_are_one_order(database: Database) -> None:
    queues = [f"queue-{number}" for number in range(8)]
    chance = random.Random(8)
    rows = save(
        database,
        *(
            row(queue_name=chance.choice(queues), priority=chance.randrange(3), bucket=bucket)
            for bucket in range(0, BUCKETS, 2)
        ),
    )
    lanes = [lane_of("default", queue) for queue in queues]

    claimed = [
        lease for _ in range(5) for lease in claim(database, claimant(lanes=lanes), 100, NOW)
    ]

    assert task_ids(claimed) == task_ids(in_order(rows))


def test_only_the_claimants_queues_and_tenant_are_touched(database: Database) -> None:
    save(
        database,
        row("mine"),
        row("other queue", queue_name="mail"),
        row("other tenant", tenant="other"),
    )

    assert task_ids(claim(database, claimant(), 10, NOW)) == ["mine"]
    assert states(database) == [TaskState.RUNNING, TaskState.READY, TaskState.READY]


def test_a_claimant_without_queues_claims_nothing(database: Database) -> None:
    save(database, row())

    assert claim(database, claimant(lanes=()), 10, NOW) == []


@pytest.mark.parametrize("count", [600, 1_100])
def test_hundreds_of_queues_can_be_served(database: Database, count: int) -> None:
    queues = [f"queue-{number}" for number in range(count)]
    save(database, row("first", queue_name=queues[0]), row("last", queue_name=queues[-1]))
    lanes = [lane_of("default", queue) for queue in queues]

    claimed = claim(database, claimant(lanes=lanes), 10, NOW)

    assert task_ids(claimed) == ["first", "last"]


def test_several_claimants_get_each_task_once(database: Database) -> None:
    rows = save(database, *(row(priority=number % 3) for number in range(300)))

    def drain(member_id: str) -> Any:
        def run() -> list[str]:
            mine, found, empty = Database(database.alias), [], 0
            while empty < 3:
                leases = claim(mine, claimant(member_id), 7, NOW)
                empty = 0 if leases else empty + 1
                found += task_ids(leases)
            return found

        return run

    answers = side_by_side(*(drain(f"member-{number}") for number in range(4)))

    times = Counter(task_id for answer in answers for task_id in answer)
    assert set(times) == set(task_ids(rows))
    assert set(times.values()) == {1}
    assert all(task.attempts == 1 for task in all_rows(database))


def test_members_with_a_share_each_claim_everything_between_them(database: Database) -> None:
    rows = save(database, *(row() for _ in range(300)))

    claimed = [
        lease
        for member_id, buckets in partition(f"member-{number}" for number in range(7)).items()
        for lease in claim(database, claimant(member_id, buckets=buckets), 1_000, NOW)
    ]

    assert sorted(task_ids(claimed)) == sorted(task_ids(rows))


def test_a_lost_race_loses_only_its_own_rows(database: Database) -> None:
    save(database, *(row(f"task-{number}") for number in range(10)))
    mine = choose(database, claimant("mine"), 10)
    with second_connection(database.alias) as other:
        others = Database(database.alias)
        others.__class__ = type("Other", (Database,), {"connection": other})
        theirs = take(others, claimant("theirs"), choose(others, claimant(), 4), NOW)

    won = take(database, claimant("mine"), mine, NOW)

    assert task_ids(theirs) == [f"task-{number}" for number in range(4)]
    assert task_ids(won) == [f"task-{number}" for number in range(4, 10)]
    assert {task.worker_ids for task in all_rows(database)} == {"mine\n", "theirs\n"}
    assert all(task.attempts == 1 for task in all_rows(database))


def test_a_race_that_is_lost_altogether_gives_nothing(database: Database) -> None:
    save(database, row(), row())
    heads = choose(database, claimant(), 10)
    claim(database, claimant(), 10, NOW)

    assert take(database, claimant("late"), heads, NOW) == []
    assert all(task.worker_ids == "member\n" for task in all_rows(database))


def test_tasks_that_are_gone_meanwhile_are_not_taken(database: Database) -> None:
    first, _ = save(database, row("first"), row("second"))
    heads = choose(database, claimant(), 10)
    first.delete()

    assert task_ids(take(database, claimant(), heads, NOW)) == ["second"]


def test_a_take_that_meets_a_held_row_waits_and_takes_the_rest(database: Database) -> None:
    save(database, row("one"), row("two"))
    heads = choose(database, claimant("late"), 2)
    with transaction.atomic(database.alias):
        claim(database, claimant("early"), 1, NOW)
        late = Running(lambda: take(Database(database.alias), claimant("late"), heads, NOW))
        await_blocked(database, late)

    assert task_ids(late.result()) == ["two"]
    assert [task.worker_ids for task in all_rows(database)] == ["early\n", "late\n"]


def test_choosing_waits_for_nobody(database: Database) -> None:
    save(database, row("one"), row("two"))
    with transaction.atomic(database.alias):
        claim(database, claimant("early"), 2, NOW)

        chosen = Running(lambda: choose(Database(database.alias), claimant(), 2)).result(10)

    assert len(chosen) == 2


def test_an_idle_claim_is_one_statement_and_a_full_one_at_most_five(database: Database) -> None:
    with CaptureQueriesContext(database.connection) as idle:
        claim(database, claimant(), 100, NOW)
    save(database, *(row(bucket=3) for _ in range(300)))
    with CaptureQueriesContext(database.connection) as full:
        claim(database, claimant(), 100, NOW)

    assert len(idle) == 1
    # Occupied slots, heads, perhaps more heads of some slots, the update, its payload.
    assert len(full) <= 5


@pytest.mark.parametrize(("limit", "parts"), [(1, 1), (1, 63), (100, 1), (100, 4), (100, 63)])
def test_the_heads_of_a_part_are_few_but_never_more_than_the_limit(limit: int, parts: int) -> None:
    heads = heads_per_part(limit, parts)

    assert limit / parts <= heads <= limit


def test_tasks_of_the_hour_that_comes_twice_keep_their_order(database: Database) -> None:
    # Berlin, 2026-10-25: 02:30 comes at 00:30 UTC and again at 01:30 UTC.
    before = NOW.replace(month=10, day=25, hour=0, minute=45)
    after = before.replace(hour=1, minute=30)
    with default_connection(database.alias, TIME_ZONE="Europe/Berlin") as berlin:
        # Many lanes, so that the heads come in several statements, and Python merges them.
        queues = [f"queue-{number}" for number in range(170)]
        rows = [row(bucket=5, run_after=after), row(bucket=5, run_after=before)] * 6
        rows += [
            row(queue_name=queue, bucket=bucket, run_after=moment)
            for queue in queues[::40]
            for bucket, moment in ((0, after), (400, before), (999, after))
        ]
        saved = save(
            berlin,
            *(row(bucket=t.bucket, queue_name=t.queue_name, run_after=t.run_after) for t in rows),
        )
        lanes = [LANE, *(lane_of("default", queue) for queue in queues)]

        claimed = [
            lease for _ in range(9) for lease in claim(berlin, claimant(lanes=lanes), 5, NOW)
        ]

    assert task_ids(claimed) == task_ids(in_order(saved))


def test_lanes_in_use_are_those_of_the_tenants_tasks_in_any_state(database: Database) -> None:
    save(
        database,
        *(row(queue_name=state.name, status=state) for state in TaskState),
        row(queue_name="theirs", tenant="other"),
        row(queue_name="READY", tenant="other"),
    )

    lanes = lanes_in_use(database, "default")

    assert lanes == {lane_of("default", state.name): state.name for state in TaskState}
    assert lanes_in_use(database, "nobody") == {}


def test_thousands_of_lanes_in_use_are_all_found(database: Database) -> None:
    queues = {f"queue-{number}" for number in range(2_500)}
    save(database, *(row(queue_name=queue) for queue in queues))

    assert set(lanes_in_use(database, "default").values()) == queues


def test_a_claim_binds_its_parameters_by_the_server_too(database: Database) -> None:
    if database.connection.vendor != "postgresql":
        pytest.skip("an option of PostgreSQL")
    save(database, row("mine"))

    with default_connection(database.alias, {"server_side_binding": True}) as bound:
        (lease,) = claim(bound, claimant(), 1, NOW)

    assert (lease.task_id, lease.worker_ids) == ("mine", "member\n")


priorities = st.integers(-2, 2)
buckets = st.sampled_from([0, 1, 15, 16, 17, 31, 500, 983, 992, 999])
queues = st.sampled_from(["default", "mail"])
tasks = st.lists(st.tuples(priorities, buckets, queues, st.integers(0, 3)), max_size=60)
shares = st.tuples(buckets, buckets).map(lambda ends: BucketRange(min(ends), max(ends) + 1))


@pytest.mark.parametrize("alias", ["default", "postgresql"], indirect=True, ids=["sqlite", "pg"])
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(tasks=tasks, share=shares | st.just(ALL_BUCKETS), limit=st.integers(1, 40))
def test_any_claim_takes_what_a_plain_sort_would(
    database: Database, tasks: list[Any], share: BucketRange, limit: int
) -> None:
    Task.objects.using(database.alias).all().delete()
    rows = save(
        database,
        *(
            row(
                priority=priority, bucket=bucket, queue_name=queue, run_after=NOW - seconds * MINUTE
            )
            for priority, bucket, queue, seconds in tasks
        ),
    )
    lanes = [LANE, lane_of("default", "mail")]

    claimed = claim(database, claimant(lanes=lanes, buckets=share), limit, NOW)

    expected = in_order(task for task in rows if task.bucket in share)[:limit]
    assert task_ids(claimed) == task_ids(expected)
