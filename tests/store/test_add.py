"""Adding tasks: exact ids, one row an id, in the caller's transaction."""

from __future__ import annotations

import unicodedata
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from skipper_django.core.buckets import bucket_of, lane_of
from skipper_django.core.states import TaskState
from skipper_django.store.add import add
from skipper_django.store.claim import claim
from skipper_django.store.database import Database
from skipper_django.store.read import find
from tests.store.support import (
    MINUTE,
    NOW,
    Running,
    all_rows,
    await_blocked,
    claimant,
    default_connection,
    new,
    read,
    second_connection,
    side_by_side,
    task_ids,
)

pytestmark = pytest.mark.django_db(transaction=True)

DISTINCT_IDS = [
    "a", "a ", "A", " a", "a  ", "\xe4", "a\u0308", "\xdf", "ss", "\u1e9e", "\u0131", "i", "I",
    "\U0001f680", "\U0001f681", "\U0001f680" * 255, "\U0001f680" * 254, "a\t", "a\n", "%s", "%",
    "?", "'", '"', "\\", "\\'", "a\u200d", "a\u200b", "\ufeff", "\u2126", "\u03a9", "-- ", ":a",
    "x" * 255,    unicodedata.normalize("NFC", "caf\xe9"), unicodedata.normalize("NFD", "caf\xe9"),
]  # fmt: skip


def test_a_task_becomes_a_ready_row_with_all_it_was_given(database: Database) -> None:
    task = new("order-42", queue_name="mail", priority=7, args='["\U0001f680"]', kwargs='{"a":1}')

    existing = add(database, [task], NOW)

    stored = read(database, "order-42")
    assert existing == set()
    assert (stored.bucket, stored.slot) == (942, 58)
    assert stored.lane == lane_of("default", "mail")
    assert (stored.status, stored.priority, stored.ord) == (TaskState.READY, 7, -7)
    assert (stored.args, stored.kwargs) == ('["\U0001f680"]', '{"a":1}')
    assert (stored.run_after, stored.enqueued_at) == (NOW, NOW)
    assert (stored.attempts, stored.lost_leases, stored.worker_ids) == (0, 0, None)


@pytest.mark.parametrize(
    ("delay", "state"),
    [(-MINUTE, TaskState.READY), (timedelta(0), TaskState.READY), (MINUTE, TaskState.SCHEDULED)],
)
def test_a_task_that_is_due_later_is_scheduled(
    database: Database, delay: timedelta, state: TaskState
) -> None:
    add(database, [new("later", priority=5, run_after=NOW + delay)], NOW)

    stored = read(database, "later")
    assert stored.status == state
    assert stored.ord == (-5 if state is TaskState.READY else 0)
    assert stored.run_after == NOW + delay


@pytest.mark.parametrize("priority", [-100, 100, -32767, 32767])
def test_a_priority_at_the_edge_is_stored(database: Database, priority: int) -> None:
    add(database, [new("edge", priority=priority)], NOW)

    assert read(database, "edge").ord == -priority


def test_ids_are_kept_apart_exactly(database: Database) -> None:
    existing = add(database, [new(task_id) for task_id in DISTINCT_IDS], NOW)

    assert existing == set()
    assert task_ids(all_rows(database)) == DISTINCT_IDS
    assert set(find(database, "default", DISTINCT_IDS)) == set(DISTINCT_IDS)
    for task_id in DISTINCT_IDS:
        stored = read(database, task_id)
        assert stored.task_id == task_id
        assert stored.bucket == bucket_of(task_id)


def test_each_of_the_ids_is_found_again_when_it_is_added_again(database: Database) -> None:
    tasks = [new(task_id) for task_id in DISTINCT_IDS]
    add(database, tasks, NOW)

    assert add(database, tasks, NOW) == set(DISTINCT_IDS)
    assert len(all_rows(database)) == len(DISTINCT_IDS)


@pytest.mark.parametrize("text", ["\U0001f680" * 20_000, "\\\\'\"%s%%\u2028" * 5_000])
def test_arguments_of_any_size_and_alphabet_come_back(database: Database, text: str) -> None:
    add(database, [new("big", args=text, kwargs=text)], NOW)

    (lease,) = claim(database, claimant(), 1, NOW)
    assert lease.args == text
    assert lease.kwargs == text


@pytest.mark.parametrize("has_copy", [True, False], ids=["copy", "insert"])
def test_ten_thousand_tasks_are_a_few_statements(
    database: Database, monkeypatch: pytest.MonkeyPatch, has_copy: bool
) -> None:
    tasks = [new(args='["some argument"]') for _ in range(10_000)]
    if has_copy and not database.dialect.has_copy:
        pytest.skip("COPY is PostgreSQL's")
    monkeypatch.setattr(type(database.dialect), "has_copy", has_copy)

    with CaptureQueriesContext(database.connection) as queries:
        add(database, tasks, NOW)

    word = "COPY" if has_copy else "INSERT"
    inserts = [query for query in queries.captured_queries if word in query["sql"]]
    assert len(inserts) == (1 if has_copy else 10)
    assert len(queries) <= len(inserts) + 2  # BEGIN and COMMIT
    assert task_ids(all_rows(database)) == task_ids(tasks)


def test_one_task_is_one_statement_and_with_an_id_of_its_own_two(database: Database) -> None:
    with CaptureQueriesContext(database.connection) as queries, transaction.atomic(database.alias):
        add(database, [new()], NOW)
    plain = [query for query in queries.captured_queries if "skipper" in query["sql"]]
    with CaptureQueriesContext(database.connection) as queries, transaction.atomic(database.alias):
        add(database, [new("mine")], NOW)
    given = [query for query in queries.captured_queries if "skipper" in query["sql"]]

    assert len(plain) == 1
    assert len(given) == 2


def test_many_large_tasks_stay_below_the_packet_limit_of_the_server(database: Database) -> None:
    tasks = [new(args=f'["{"x" * 900_000}"]') for _ in range(40)]

    add(database, tasks, NOW)

    assert len(all_rows(database)) == 40


def test_nothing_to_add_is_nothing(database: Database) -> None:
    assert add(database, [], NOW) == set()


def test_an_existing_task_stays_as_it_is(database: Database) -> None:
    add(database, [new("mine", args="[1]", priority=1)], NOW)

    existing = add(database, [new("mine", args="[2]", priority=2)], NOW + MINUTE)

    stored = read(database, "mine")
    assert existing == {"mine"}
    assert (stored.args, stored.priority, stored.enqueued_at) == ("[1]", 1, NOW)


def test_a_running_task_is_not_touched_by_its_repetition(database: Database) -> None:
    add(database, [new("mine")], NOW)
    (lease,) = claim(database, claimant(), 1, NOW)

    assert add(database, [new("mine")], NOW) == {"mine"}
    assert read(database, "mine").lease_token == lease.token


def test_an_id_twice_in_one_call_is_one_row_that_is_new(database: Database) -> None:
    existing = add(database, [new("mine", args="[1]"), new("mine", args="[2]")], NOW)

    assert existing == set()
    assert [task.args for task in all_rows(database)] == ["[1]"]


def test_new_ids_beside_existing_ones_are_added(database: Database) -> None:
    add(database, [new("old")], NOW)

    existing = add(database, [new("first"), new("old"), new(), new("last")], NOW)

    assert existing == {"old"}
    assert len(all_rows(database)) == 4


def test_the_ids_of_tenants_are_their_own(database: Database) -> None:
    add(database, [new("mine", tenant="one")], NOW)

    assert add(database, [new("mine", tenant="two")], NOW) == set()
    assert add(database, [new("mine", tenant="two")], NOW) == {"mine"}
    assert set(find(database, "one", ["mine"])) == {"mine"}
    assert find(database, "three", ["mine"]) == {}


def test_thousands_of_given_ids_are_told_apart(database: Database) -> None:
    tasks = [new(f"given-{number}") for number in range(2_500)]
    add(database, tasks[:1_500], NOW)

    existing = add(database, tasks, NOW)

    assert existing == set(task_ids(tasks[:1_500]))
    assert len(all_rows(database)) == 2_500


def test_the_callers_transaction_stays_usable_after_an_existing_id(database: Database) -> None:
    add(database, [new("mine")], NOW)

    with transaction.atomic(database.alias):
        add(database, [new("before")], NOW)
        assert add(database, [new("mine")], NOW) == {"mine"}
        add(database, [new("after")], NOW)

    assert task_ids(all_rows(database)) == ["mine", "before", "after"]


def test_tasks_go_with_the_transaction_that_is_rolled_back(database: Database) -> None:
    with transaction.atomic(database.alias):
        add(database, [new(), new("mine")], NOW)
        transaction.set_rollback(True, using=database.alias)

    assert all_rows(database) == []
    assert add(database, [new("mine")], NOW) == set()


def test_a_savepoint_that_is_rolled_back_takes_only_its_tasks(database: Database) -> None:
    with transaction.atomic(database.alias):
        add(database, [new("outer")], NOW)
        with transaction.atomic(database.alias):
            add(database, [new("inner")], NOW)
            transaction.set_rollback(True, using=database.alias)

    assert task_ids(all_rows(database)) == ["outer"]


def test_many_tasks_without_a_transaction_are_all_or_none(database: Database) -> None:
    tasks = [new() for _ in range(1_500)]
    tasks.append(new(queue_name="x" * 5_000 + "\0"))
    if database.connection.vendor == "sqlite":
        tasks[-1] = new(name=None)

    with pytest.raises(Exception, match=r".+"):
        add(database, tasks, NOW)

    assert all_rows(database) == []


def test_a_task_is_invisible_before_the_commit(database: Database) -> None:
    with transaction.atomic(database.alias):
        add(database, [new()], NOW)

        elsewhere = Running(lambda: claim(Database(database.alias), claimant(), 10, NOW)).result()

    assert elsewhere == []
    assert len(claim(database, claimant(), 10, NOW)) == 1


@pytest.mark.parametrize("repetition", range(3))
def test_two_that_add_one_id_at_once_make_one_row(database: Database, repetition: int) -> None:
    def add_mine() -> tuple[set[str], set[str]]:
        mine = Database(database.alias)
        with transaction.atomic(database.alias):
            existing = add(mine, [new("mine")], NOW)
            found = set(find(mine, "default", ["mine"]))
        return existing, found

    answers = side_by_side(add_mine, add_mine, add_mine)

    assert sorted(len(existing) for existing, _ in answers) == [0, 1, 1]
    assert all(found == {"mine"} for _, found in answers)
    assert len(all_rows(database)) == 1


def test_the_second_waits_for_the_first_and_gets_its_row(database: Database) -> None:
    with transaction.atomic(database.alias):
        add(database, [new("mine", args="[1]")], NOW)
        second = Running(lambda: add(Database(database.alias), [new("mine", args="[2]")], NOW))
        await_blocked(database, second)

    assert second.result() == {"mine"}
    assert [task.args for task in all_rows(database)] == ["[1]"]


def test_the_second_adds_its_own_when_the_first_is_rolled_back(database: Database) -> None:
    with transaction.atomic(database.alias):
        add(database, [new("mine", args="[1]")], NOW)
        second = Running(lambda: add(Database(database.alias), [new("mine", args="[2]")], NOW))
        await_blocked(database, second)
        transaction.set_rollback(True, using=database.alias)

    assert second.result() == set()
    assert [task.args for task in all_rows(database)] == ["[2]"]


def test_two_that_add_the_same_ids_in_opposite_order_both_succeed(database: Database) -> None:
    ids = [f"given-{number}" for number in range(300)]

    def add_all(order: list[str]) -> Any:
        tasks = [new(task_id) for task_id in order]
        return lambda: add(Database(database.alias), tasks, NOW)

    answers = side_by_side(add_all(ids), add_all(ids[::-1]), add_all(ids), add_all(ids[::-1]))

    assert len(all_rows(database)) == 300
    assert sum(300 - len(existing) for existing in answers) == 300


def test_an_add_of_its_own_that_is_chosen_to_break_a_deadlock_is_repeated(
    database: Database,
) -> None:
    if database.connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer and no deadlocks of rows")
    add(database, [new(f"ballast-{number}") for number in range(200)], NOW)
    with second_connection(database.alias) as other, other.cursor() as cursor:
        if other.vendor == "postgresql":  # who looks first is the victim
            cursor.execute("SET deadlock_timeout = '30s'")
        other.set_autocommit(False)
        # The heavier transaction survives.
        cursor.execute(f"UPDATE {database.tasks} SET attempts = 1")  # noqa: S608
        cursor.execute(_copy_of_ballast(database, "b"))
        waiting = Running(
            lambda: add(Database(database.alias), [new("a"), new("b"), new("c")], NOW)
        )
        await_blocked(database, waiting)
        cursor.execute(_copy_of_ballast(database, "a"))
        other.commit()
        other.set_autocommit(True)

    assert waiting.result() == {"a", "b"}


def _copy_of_ballast(database: Database, task_id: str) -> str:
    columns = (
        "tenant, queue_name, lane, bucket, slot, name, backend, args, kwargs, status, priority, "
        "ord, run_after, enqueued_at"
    )
    return (
        f"INSERT INTO {database.tasks} (task_id, {columns}) SELECT '{task_id}', {columns} "  # noqa: S608
        f"FROM {database.tasks} WHERE task_id = 'ballast-0'"
    )


def test_parameters_may_be_bound_by_the_server(database: Database) -> None:
    if database.connection.vendor != "postgresql":
        pytest.skip("an option of PostgreSQL")

    with default_connection(database.alias, {"server_side_binding": True}) as bound:
        add(bound, [new("mine"), new(run_after=NOW + MINUTE)], NOW)
        assert add(bound, [new("mine")], NOW) == {"mine"}

    assert len(all_rows(database)) == 2
    assert connections[database.alias] is database.connection
