"""The cost of each hot statement, beside a long history and other people's backlogs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from skipper_django.core.buckets import ALL_BUCKETS, BucketRange, lane_of
from skipper_django.core.outcome import Failed, Released, Retry, Succeeded
from skipper_django.core.reasons import FailReason
from skipper_django.core.states import TaskState
from skipper_django.models import Task
from skipper_django.store.add import add
from skipper_django.store.claim import choose, claim, take_named
from skipper_django.store.database import Database
from skipper_django.store.held import load
from skipper_django.store.lanes import lanes_in_use
from skipper_django.store.settle import settle
from skipper_django.store.upkeep import expired, promote, prune, renew
from tests.store.filling import fill
from tests.store.support import LANE, NOW, claimant, new, row, save
from tests.store.watching import Cost, watch

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

HOT, PRIMARY, UNIQUE = "skipper_tasks_hot", "PRIMARY", "skipper_task_id_unique"
DAY = timedelta(days=1)


def analyze(database: Database) -> None:
    if database.connection.vendor == "mysql":
        database.rows(f"ANALYZE TABLE {database.tasks}")
    else:
        database.execute("ANALYZE")


def forget_statistics(database: Database) -> None:
    """SQLite has none, unless somebody asks it to analyze; and keeps for ever what it has."""
    if database.connection.vendor == "sqlite":
        database.execute("DROP TABLE IF EXISTS sqlite_stat1")
        database.execute("DROP TABLE IF EXISTS sqlite_stat4")
        database.close()


@pytest.fixture(params=["stale", "emptied", "fresh"])
def backlog(request: pytest.FixtureRequest, database: Database) -> Iterator[Database]:
    """20k finished, 5k due much later, 5k of another queue, 5k of another tenant, 2k ours.

    Statistics are of these rows or, stale, of three rows of before or, emptied, of none, as when
    the queue had run empty; SQLite then has none at all, as ever unless it is asked to analyze.
    """
    if request.param != "fresh" and database.connection.vendor != "sqlite":
        save(database, row(), row(status=TaskState.RUNNING), row(status=TaskState.SUCCESSFUL))
        analyze(database)
        Task.objects.using(database.alias).all().delete()
    if request.param == "emptied":
        if database.connection.vendor != "postgresql":
            pytest.skip("the others dive into the index, whatever their statistics say")
        analyze(database)
    fill(database, 20, TaskState.SUCCESSFUL)
    fill(database, 5, TaskState.SCHEDULED, run_after=NOW + DAY)
    fill(database, 5, TaskState.READY, queue_name="other")
    fill(database, 5, TaskState.READY, tenant="other")
    fill(database, 1, TaskState.READY)
    fill(database, 1, TaskState.READY, priority=10)
    if request.param == "fresh":
        analyze(database)
    yield database
    forget_statistics(database)


def check(cost: Cost, rows: int, *indexes: set[str]) -> None:
    """So many statements, each by these indexes only, and no more rows read than that."""
    assert cost.scans == []
    assert len(cost.indexes) == len(indexes), [s.sql[:300] for s in cost.statements]
    for statement, allowed in zip(cost.statements, indexes, strict=True):
        assert statement.indexes <= allowed, statement
        assert statement.sorted_rows <= 1_000, statement
    assert cost.rows_read <= rows


def take(database: Database) -> list[set[str]]:
    """The update by key, and the payload where the update does not return it."""
    return [{PRIMARY}] if database.dialect.updates_return_rows else [{PRIMARY}, {PRIMARY}]


@pytest.mark.parametrize(
    ("limit", "buckets", "rows"),
    [
        (100, ALL_BUCKETS, 2_000),
        (10, ALL_BUCKETS, 900),
        (100, BucketRange(334, 667), 1_200),
        (100, BucketRange(0, 16), 400),
        (10, BucketRange(3, 5), 200),
    ],
    ids=str,
)
def test_a_claim_reads_its_heads_by_the_hot_index_and_takes_by_key(
    backlog: Database, limit: int, buckets: BucketRange, rows: int
) -> None:
    cost = watch(backlog, lambda: claim(backlog, claimant(buckets=buckets), limit, NOW))

    # Several slots: first of all it asks whether there is anything. One whose heads are all chosen
    # is asked for more: at most one statement more.
    reads = len(cost.statements) - len(take(backlog))
    assert reads in ((2, 3) if len(list(buckets.parts())) > 1 else (1,))
    check(cost, rows, *[{HOT}] * reads, *take(backlog))


def test_a_task_that_a_hint_names_is_taken_by_its_unique_key(backlog: Database) -> None:
    task = Task.objects.using(backlog.alias).filter(lane=LANE, status=TaskState.READY).first()
    assert task is not None
    cost = watch(backlog, lambda: take_named(backlog, claimant(), "default", task.task_id, NOW))

    unique = {UNIQUE, "sqlite_autoindex_skipper_scheduler_tasks_1"}
    check(cost, 5, *([unique] * len(take(backlog))))


def test_an_empty_share_costs_a_handful_of_rows(backlog: Database) -> None:
    empty = [
        claimant(lanes=[lane_of("default", "nothing here")]),
        claimant(lanes=[lane_of("default", f"nothing {number}") for number in range(5)]),
    ]
    Task.objects.using(backlog.alias).filter(lane=LANE, status=TaskState.READY, slot__lt=9).delete()
    empty.append(claimant(buckets=BucketRange(0, 144)))

    for nobody in empty:
        cost = watch(backlog, lambda nobody=nobody: claim(backlog, nobody, 100, NOW))  # type: ignore[misc]

        check(cost, 10, {HOT})


def test_outcomes_and_renewals_go_by_key(backlog: Database) -> None:
    held = [lease for _ in range(5) for lease in claim(backlog, claimant(), 100, NOW)]
    outcomes = [
        Succeeded("1"), Retry(5, [{"a": 1}]), Failed(FailReason.EXCEPTION, [{}]), Released(),
    ]  # fmt: skip

    check(watch(backlog, lambda: renew(backlog, held, NOW, 60)), 1_000, {PRIMARY})
    check(watch(backlog, lambda: load(backlog, held)), 1_000, {PRIMARY})
    for number, outcome in enumerate(outcomes):
        batch = [(lease, outcome) for lease in held[number * 100 : number * 100 + 150]]
        lost = [(lease, outcome) for lease in held[: number * 100]]
        cost = watch(backlog, lambda batch=batch: settle(backlog, batch, NOW))  # type: ignore[misc]
        check(cost, 900, *[{PRIMARY}] * len(cost.statements))
        if lost:
            cost = watch(backlog, lambda lost=lost: settle(backlog, lost[:100], NOW))  # type: ignore[misc]
            check(cost, 400, {PRIMARY}, {PRIMARY})


def test_promotion_reads_the_due_tasks_and_not_the_later_ones(backlog: Database) -> None:
    due = [row(bucket=n, status=TaskState.SCHEDULED, run_after=NOW) for n in range(0, 1000, 20)]
    nothing = watch(backlog, lambda: promote(backlog, [LANE], ALL_BUCKETS, NOW - 2 * DAY))
    save(backlog, *due)
    fifty = watch(backlog, lambda: promote(backlog, [LANE], ALL_BUCKETS, NOW))
    share = watch(backlog, lambda: promote(backlog, [LANE], BucketRange(0, 100), NOW))

    # InnoDB is asked for the last slot first.
    look = [{HOT}] * (1 + backlog.dialect.reads_past_ends)
    check(nothing, 150, *look)
    check(fifty, 500, *look, {PRIMARY})
    check(share, 30, *look)


def test_without_scheduled_tasks_no_slot_is_looked_for(database: Database) -> None:
    """InnoDB would read for each all rows that a big enqueue has not committed yet."""
    fill(database, 5, TaskState.READY)

    check(watch(database, lambda: promote(database, [LANE], ALL_BUCKETS, NOW)), 5, {HOT})


def test_looking_for_lost_leases_reads_the_running_tasks_only(backlog: Database) -> None:
    claim(backlog, claimant(), 100, NOW)

    found = watch(backlog, lambda: expired(backlog, [LANE], ALL_BUCKETS, NOW))
    share = watch(backlog, lambda: expired(backlog, [LANE], BucketRange(0, 100), NOW))

    check(found, 400, {HOT})
    check(share, 100, {HOT})


def test_pruning_reads_one_window_of_ids(backlog: Database) -> None:
    if backlog.connection.vendor == "postgresql":
        analyze(backlog)  # pruning is not urgent: autovacuum has been there before
    start = 0

    def walk() -> None:
        nonlocal start
        count, place = prune(backlog, "default", start, NOW, NOW)
        assert (count, place is None) == (1_000, False)
        start = place or 0

    for _ in range(2):
        check(watch(backlog, walk), 4_500, *[{PRIMARY}] * 7)


def test_an_id_that_is_there_is_found_by_its_index(backlog: Database) -> None:
    tasks = [new(f"given-{number}") for number in range(100)]
    add(backlog, tasks, NOW)

    cost = watch(backlog, lambda: add(backlog, tasks, NOW))

    check(cost, 700, set(), {UNIQUE, "sqlite_autoindex_skipper_scheduler_tasks_1"})


def test_the_lanes_in_use_are_found_by_skipping(backlog: Database) -> None:
    cost = watch(backlog, lambda: lanes_in_use(backlog, "default"))

    # One statement for each of three lanes, and one that finds no more.
    check(cost, 20, *[{HOT}] * 4)


def test_the_probe_of_a_large_backlog_does_not_read_it(backlog: Database) -> None:
    fill(backlog, 40, TaskState.READY, priority=5)

    cost = watch(backlog, lambda: choose(backlog, claimant(), 100))

    check(cost, 2_000, *[{HOT}] * len(cost.statements))
