"""Two callers with one id at the same moment: one task, and both callers go on."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction

from skipper_django import enqueue_many
from skipper_django.models import Task
from tests.contract import tasks
from tests.waiting import wait_until

# Views that are not frozen by the transaction, nor by being asked often.
WAITING = {
    "mysql": "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'",
    "postgresql": "SELECT 'waiting', COUNT(*) FROM pg_locks WHERE NOT granted",
}


def is_blocked(alias: str) -> bool:
    with connections[alias].cursor() as cursor:
        cursor.execute(WAITING[connections[alias].vendor])
        return int(cursor.fetchone()[1]) > 0


class Rival:
    """Enqueues the same id in a transaction of its own, which writes before and after."""

    def __init__(self, alias: str, many: bool) -> None:
        self.alias = alias
        self.many = many
        self.result: Any = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        task = tasks.other.using(task_id="one")
        try:
            with transaction.atomic(self.alias):
                Group.objects.using(self.alias).create(name="before")
                if self.many:
                    self.result = enqueue_many([(tasks.other, [0]), (task, ["rival"])])[1]
                else:
                    self.result = task.enqueue("rival")
                Group.objects.using(self.alias).create(name="after")
        finally:
            connections.close_all()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("many", [False, True], ids=["enqueue", "enqueue_many"])
@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_the_second_caller_waits_and_gets_what_the_first_left(
    queue: str, many: bool, commits: bool
) -> None:
    if connections[queue].vendor not in WAITING:
        pytest.skip("there is one writer at a time here")

    with transaction.atomic(queue):
        tasks.other.using(task_id="one").enqueue("first")
        rival = Rival(queue, many)
        wait_until(lambda: is_blocked(queue), what="the second caller waits for the first")
        transaction.set_rollback(not commits, queue)
    rival.thread.join(20)

    assert rival.result is not None
    assert rival.result.args == ["first" if commits else "rival"]
    row = Task.objects.using(queue).get(task_id="one")
    assert row.args == ('["first"]' if commits else '["rival"]')
    assert Group.objects.using(queue).count() == 2
