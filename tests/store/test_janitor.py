"""What the janitor adds to the statements that it calls."""

from __future__ import annotations

from datetime import timedelta

from skipper_django.core.buckets import ALL_BUCKETS, Share
from skipper_django.core.clock import ManualClock
from skipper_django.core.config import Config
from skipper_django.core.states import TaskState
from skipper_django.janitor import Janitor
from skipper_django.models import Task
from skipper_django.store.database import Database
from skipper_django.store.upkeep import SECOND_LOSS_DELAY
from tests.store.support import LANE, NOW, row, save


def test_a_task_lost_twice_waits_whoever_reclaims_it_and_however_late(database: Database) -> None:
    clock = ManualClock(NOW)
    expires = NOW - timedelta(seconds=30)
    save(database, row(status=TaskState.RUNNING, lost_leases=1, lease_expires_at=expires))

    janitor = Janitor(database, clock, Config(database=database.alias))
    count = janitor.reclaim([Share((LANE,), ALL_BUCKETS)], late=20.0)

    task = Task.objects.using(database.alias).get()
    assert (count, task.status) == (1, TaskState.SCHEDULED)
    assert task.run_after == NOW + SECOND_LOSS_DELAY
