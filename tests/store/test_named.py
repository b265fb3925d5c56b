"""Taking the one task that a hint names, without looking for it: the same lease, or none."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from django.db import transaction
from django.test.utils import CaptureQueriesContext

from skipper_django.core.buckets import BucketRange, bucket_of, lane_of
from skipper_django.core.states import TaskState
from skipper_django.models import Task
from skipper_django.store.claim import claim, take_named
from skipper_django.store.database import Database
from skipper_django.store.lease import Lease
from tests.store.support import MINUTE, NOW, Running, all_rows, await_blocked, claimant, row, save

pytestmark = pytest.mark.django_db(transaction=True)


def named(database: Database, task_id: str = "mine", **claims: Any) -> list[Lease]:
    return take_named(database, claimant("ann", **claims), "default", task_id, NOW)


def columns(database: Database) -> dict[str, dict[str, Any]]:
    rows = Task.objects.using(database.alias).values()
    return {values["task_id"]: dict(values) for values in rows}


def test_the_lease_is_that_of_a_claim(database: Database) -> None:
    values: dict[str, Any] = {"args": "[1]", "priority": 3, "enqueued_at": NOW - MINUTE}
    save(database, row("mine", **values), row("other"))
    (taken,) = named(database)
    stored = columns(database)
    Task.objects.using(database.alias).all().delete()
    save(database, row("mine", **values))
    (lease,) = claim(database, claimant("ann"), 1, NOW)

    assert {k: row["status"] for k, row in stored.items() if k != "mine"} == {
        "other": TaskState.READY
    }
    own = {"id", "token", "lease_token", "run_after"}
    same = dataclasses.asdict(lease).items()
    assert {k: v for k, v in dataclasses.asdict(taken).items() if k not in own} == {
        k: v for k, v in same if k not in own
    }
    claimed = columns(database)["mine"]
    assert {k: v for k, v in stored["mine"].items() if k not in own} == {
        k: v for k, v in claimed.items() if k not in own
    }
    assert stored["mine"]["lease_token"] == taken.token


@pytest.mark.parametrize("state", [state for state in TaskState if state != TaskState.READY])
def test_what_is_not_ready_is_not_taken(database: Database, state: TaskState) -> None:
    save(database, row("mine", status=state))

    assert named(database) == []
    assert [task.status for task in all_rows(database)] == [state]


def test_what_is_not_in_the_claimants_share_is_not_taken(database: Database) -> None:
    """A hint may be late: its id may be another queue's by now, or another tenant's."""
    bucket = bucket_of("mine")
    save(database, row("mine", tenant="other"), row("theirs", queue_name="other"))
    save(database, row("mine"))

    assert named(database, "theirs") == []
    assert named(database, "gone") == []
    assert named(database, buckets=BucketRange(0, bucket)) == []
    assert named(database, buckets=BucketRange(bucket + 1, 1000)) == []
    assert named(database, lanes=[lane_of("default", "other")]) == []
    assert [lease.task_id for lease in named(database, buckets=BucketRange(bucket, bucket + 1))]
    assert sorted((task.tenant, task.status) for task in all_rows(database)) == [
        ("default", TaskState.READY),
        ("default", TaskState.RUNNING),
        ("other", TaskState.READY),
    ]


def test_it_is_one_statement_or_two_where_an_update_returns_nothing(database: Database) -> None:
    save(database, row("mine"))

    with CaptureQueriesContext(database.connection) as queries:
        named(database)

    assert len(queries) == (1 if database.dialect.updates_return_rows else 2)


def test_of_two_that_take_it_one_gets_it(database: Database) -> None:
    save(database, row("mine"))
    with transaction.atomic(database.alias):
        (lease,) = named(database)
        late = Running(lambda: named(Database(database.alias)))
        await_blocked(database, late)

    assert late.result() == []
    assert [task.lease_token for task in all_rows(database)] == [lease.token]


def test_a_row_that_cannot_be_claimed_is_parked(database: Database) -> None:
    """As by any other claim: the number has no successor."""
    if database.connection.vendor == "sqlite":
        pytest.skip("its numbers have no bound")
    save(database, row("mine", attempts=2**31 - 1))

    assert named(database) == []
    assert [task.status for task in all_rows(database)] == [TaskState.FAILED]
