"""An enqueue is part of the caller's transaction, as any other row of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.db import DatabaseError, connections, transaction

from skipper_django import enqueue_many
from skipper_django.compat import TaskResultDoesNotExist
from skipper_django.models import Task
from skipper_django.testing import run_ready
from tests.contract import tasks
from tests.threads import in_thread

pytestmark = pytest.mark.django_db(transaction=True)


class Regret(Exception):
    pass


@contextmanager
def rolled_back(alias: str) -> Iterator[None]:
    """A transaction whose caller regrets it at its end."""
    with suppress(Regret), transaction.atomic(alias):
        yield
        raise Regret


def count(alias: str) -> int:
    return Task.objects.using(alias).count()


@pytest.mark.case("R1")
def test_a_rollback_takes_the_task_with_it(queue: str) -> None:
    with rolled_back(queue):
        Group.objects.using(queue).create(name="order")
        result = tasks.other.enqueue(1)
        enqueue_many([(tasks.other, [2]), (tasks.rich.using(task_id="own"), [3])])

    assert count(queue) == 0
    assert run_ready() == 0
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


@pytest.mark.case("R1")
def test_a_rollback_to_a_savepoint_takes_only_its_own_tasks(queue: str) -> None:
    with transaction.atomic(queue):
        kept = tasks.other.enqueue("kept")
        with rolled_back(queue):
            tasks.other.enqueue("lost")

    assert [row.task_id for row in Task.objects.using(queue)] == [kept.id]


@pytest.mark.case("R1")
def test_nobody_sees_a_task_before_its_commit(queue: str) -> None:
    with transaction.atomic(queue):
        result = tasks.other.enqueue(1)
        own = tasks.other.using(task_id="own").enqueue(2)

        assert in_thread(partial(count, queue)) == 0
        assert in_thread(run_ready) == 0
        assert tasks.other.get_result(result.id).args == [1]

    assert in_thread(run_ready) == 2
    own.refresh()
    assert own.return_value == 2


@pytest.mark.case("R1")
@pytest.mark.parametrize("many", [False, True], ids=["enqueue", "enqueue_many"])
def test_a_failing_enqueue_fails_the_business_change(
    queue: str, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def business() -> None:
        with transaction.atomic(queue):
            Group.objects.using(queue).create(name="order")
            monkeypatch.setattr(Task._meta, "db_table", "a_table_that_is_not_there")
            if many:
                enqueue_many([(tasks.other, [1]), (tasks.other.using(task_id="own"), [2])])
            else:
                tasks.other.enqueue(1)

    with pytest.raises(DatabaseError):
        business()

    assert not Group.objects.using(queue).exists()


@pytest.mark.case("R1")
def test_a_refused_argument_leaves_the_transaction_usable(queue: str) -> None:
    with transaction.atomic(queue):
        with pytest.raises(TypeError):
            tasks.other.enqueue(object())
        with pytest.raises(TypeError):
            enqueue_many([(tasks.other, [1]), (tasks.other, [object()])])
        Group.objects.using(queue).create(name="order")
        tasks.other.enqueue(1)

    assert count(queue) == 1
    assert Group.objects.using(queue).exists()


@pytest.mark.parametrize("many", [False, True], ids=["enqueue", "enqueue_many"])
def test_an_id_that_exists_leaves_the_transaction_usable(queue: str, many: bool) -> None:
    first = tasks.other.using(task_id="welcome-42").enqueue("first")

    with transaction.atomic(queue):
        Group.objects.using(queue).create(name="order")
        task = tasks.other.using(task_id=first.id, priority=9)
        again = enqueue_many([(task, ["again"])])[0] if many else task.enqueue("again")
        tasks.other.enqueue(1)

    assert again == tasks.other.get_result(first.id)
    assert (again.args, again.task.priority) == (["first"], 0)
    assert count(queue) == 2
    assert Group.objects.using(queue).exists()


def test_an_id_that_another_connection_has_just_added_is_found(queue: str) -> None:
    task = tasks.other.using(task_id="welcome-42")

    with transaction.atomic(queue):
        assert not Group.objects.using(queue).exists()  # a snapshot is taken here, if ever
        if connections[queue].vendor != "sqlite":  # there the one writer is this transaction
            in_thread(lambda: task.enqueue("first"))
        result = task.enqueue("again")

    assert result.args == ["first" if connections[queue].vendor != "sqlite" else "again"]
    assert count(queue) == 1


def test_an_id_that_a_snapshot_hides_is_found(queue: str) -> None:
    if connections[queue].vendor != "mysql":
        pytest.skip("a snapshot refuses the insert, or there is none")
    task = tasks.other.using(task_id="welcome-42")
    repeatable = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
    with connections[queue].cursor() as cursor:
        cursor.execute(repeatable)
    try:
        with transaction.atomic(queue):
            assert not Task.objects.using(queue).exists()
            in_thread(lambda: task.enqueue("first"))
            results = [task.enqueue("again"), *enqueue_many([(task, ["many"])])]
    finally:
        with connections[queue].cursor() as cursor:
            cursor.execute(repeatable.replace("REPEATABLE READ", "READ COMMITTED"))

    assert [result.args for result in results] == [["first"], ["first"]]


def test_the_existing_result_comes_back_whatever_became_of_it(queue: str) -> None:
    task = tasks.other.using(task_id="welcome-42")
    task.enqueue("first")
    run_ready()

    again = task.enqueue("again")

    assert (again.return_value, again.args) == ("first", ["first"])
    assert run_ready() == 0


@pytest.mark.case("R7")
def test_an_async_caller_joins_its_own_transaction(queue: str) -> None:
    async def view() -> Any:
        return await tasks.awaited.aenqueue(1)

    with rolled_back(queue):
        async_to_sync(view)()
        assert count(queue) == 1

    assert count(queue) == 0


@pytest.mark.case("R2")
def test_on_commit_enqueues_after_the_commit_of_the_alias_it_names(queue: str) -> None:
    with transaction.atomic(queue):
        transaction.on_commit(partial(tasks.other.enqueue, 1), using=queue)
        assert count(queue) == 0
    with rolled_back(queue):
        transaction.on_commit(partial(tasks.other.enqueue, 2), using=queue)

    assert [row.args for row in Task.objects.using(queue)] == ["[1]"]


@pytest.mark.parametrize("size", [2, 2_500])
def test_enqueue_many_is_one_transaction_of_its_own(queue: str, size: int) -> None:
    calls = [(tasks.other, [number]) for number in range(size)]
    failing = [(tasks.other.using(task_id="own"), [0]), *calls]
    refuse = Refusal(after=1)

    with connections[queue].execute_wrapper(refuse), pytest.raises(Regret):
        enqueue_many(failing)

    assert refuse.statements == 2
    assert count(queue) == 0


class Refusal:
    """Fails every statement after the first few."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.statements = 0

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.statements += 1
        if self.statements > self.after:
            raise Regret
        return execute(sql, params, many, context)
