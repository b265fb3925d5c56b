"""Rows of docs/parity.md that take the command or the JSON to observe."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from skipper_django import enqueue_many
from skipper_django.core.partition import partition
from skipper_django.models import Task
from tests import tasks
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks
from tests.worker.conftest import skipper_settings

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State

QUICK = {"CLUSTER_HEARTBEAT_INTERVAL": 0.3, "CLUSTER_LIVENESS_WINDOW": 3}
FIELDS = {
    "member_id",
    "start_bucket_inclusive",
    "end_bucket_exclusive",
    "bucket_count",
    "current",
}


def from_command(alias: str) -> dict[str, Any]:
    """What `skipper_cluster --json` prints."""
    output = io.StringIO()
    call_command("skipper_cluster", "--json", database=alias, stdout=output)
    found: dict[str, Any] = json.loads(output.getvalue())
    return found


def shown(found: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [
        (member["member_id"], member["start_bucket_inclusive"], member["end_bucket_exclusive"])
        for member in found["members"]
    ]


def is_partitioned(found: dict[str, Any], members: int) -> bool:
    modes = [member["fetch_mode"] for member in found["members"]]
    return modes == ["partitioned"] * members


def test_a1_who_does_not_register_is_told_of_with_the_reason(
    alias: str, settings: Settings, worker_process: Any, enqueue: Any, wait_for_state: Any
) -> None:
    single = {"CLUSTER_MEMBERSHIP_MANAGER": "single"}
    settings.SKIPPER = {**settings.SKIPPER, **single}
    worker = worker_process(**skipper_settings(**single))

    wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL, 40)
    found = from_command(alias)

    assert (found["registered"], found["partitioning_active"]) == (False, False)
    assert (found["members"], found["reason"]) == ([], "not_registered")
    assert "CLUSTER_MEMBERSHIP_MANAGER" in found["reason_text"]
    assert "fetches whole_queue" not in worker.log, "it never had anything else"


@pytest.mark.parametrize("alias", ["default"], ids=["sqlite"])
def test_a3_a16_every_view_has_the_same_members_in_the_same_order(
    alias: str, worker_process: Any
) -> None:
    # By bytes, Ä comes after z and B before a, whatever a database's collation says.
    for name in ("Ä", "a", "B"):
        worker_process("--member-name", name, **skipper_settings(**QUICK))
    wait_until(lambda: is_partitioned(from_command(alias), 3), 40, "three members with ranges")
    client = Client()
    client.force_login(User.objects.create_superuser("root"))

    answer = client.get("/skipper/admin/cluster")

    expected = [("B", 0, 334), ("a", 334, 667), ("Ä", 667, 1000)]
    assert shown(from_command(alias)) == shown(answer.json()) == expected
    assert answer["Cache-Control"].startswith("max-age=0, no-cache, no-store")
    found = answer.json()
    assert (found["cluster_name"], found["total_buckets"]) == ("default", 1000)
    assert (found["current_member_id"], found["registered"]) == (None, False)
    assert (found["partitioning_active"], found["reason"]) == (True, None)
    assert all(set(member) >= FIELDS for member in found["members"])
    assert [member["bucket_count"] for member in found["members"]] == [334, 333, 333]


@pytest.mark.parametrize("alias", ["default"], ids=["sqlite"])
def test_a19_three_processes_share_one_sqlite_file(
    alias: str, worker_process: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    names = ["a", "b", "c"]
    workers = [
        worker_process("--member-name", name, **skipper_settings(**QUICK, STEAL_AFTER=None))
        for name in names
    ]
    wait_until(lambda: is_partitioned(from_command(alias), 3), 40, "three members with ranges")

    enqueue_many([(worker_tasks.record, [str(path), str(n)]) for n in range(1000)])
    done = Task.objects.filter(status=State.SUCCESSFUL)
    wait_until(lambda: done.count() == 1000, 60, "all are done")

    assert Counter(worker_tasks.lines(path)) == Counter(str(n) for n in range(1000))
    owners = partition(names)
    assert all(row.bucket in owners[row.worker_ids.strip()] for row in done)
    assert set(done.values_list("attempts", "lost_leases")) == {(1, 0)}
    assert not [worker.log for worker in workers if "ERROR" in worker.log]
