"""Rows for the tests of pages: members as workers would have written them."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

from factory.declarations import LazyAttribute, SelfAttribute, Sequence
from factory.django import DjangoModelFactory

from skipper_django.core.buckets import lane_of, slot_of
from skipper_django.core.membership import MemberState
from skipper_django.core.states import TaskState
from skipper_django.models import Member, Task
from skipper_django.store.clock import clock_of

_numbers = itertools.count(1)


class MemberFactory(DjangoModelFactory[Member]):
    """A live member that fetches from its own range; `age` is that of its heartbeat, in seconds."""

    class Meta:
        model = Member

    class Params:
        alias = "default"
        age = 1.0
        whole = ""  # the reason why it fetches from the whole queue
        now = LazyAttribute(lambda member: clock_of(member.alias).now())

    tenant = "default"
    member_id = Sequence(lambda number: f"web-{number + 1:04}")
    incarnation = Sequence(lambda number: number + 1)
    host = LazyAttribute(lambda member: f"{member.member_id}.example")
    host_key = "elsewhere"
    pid = Sequence(lambda number: 4000 + number)
    process_started = "1"
    started_at = LazyAttribute(lambda member: member.now - timedelta(hours=2))
    heartbeat_at = LazyAttribute(lambda member: member.now - timedelta(seconds=member.age))
    version = "0.1.0"
    queues = ""
    concurrency = 4
    state = MemberState.ACTIVE.value
    fetch_mode = LazyAttribute(lambda member: "whole_queue" if member.whole else "partitioned")
    reason = SelfAttribute("whole")
    range_start = 0
    range_stop = 0
    running = 2
    claimed = 1234
    stolen = 5
    lost_races = 1
    partitioned_fetches = 100
    whole_queue_fetches = 0


def add_members(alias: str, *member_ids: str, **values: Any) -> list[Member]:
    """One row for each name."""
    rows = [MemberFactory.build(alias=alias, member_id=name, **values) for name in member_ids]
    return Member.objects.using(alias).bulk_create(rows, batch_size=500)


def add_task(
    alias: str,
    queue_name: str,
    status: TaskState = TaskState.READY,
    due_in: float = 0.0,
    **values: Any,
) -> Task:
    """A task of that queue, due so many seconds from now."""
    now = clock_of(alias).now()
    bucket = values.pop("bucket", 500)
    tenant = values.setdefault("tenant", "default")
    running = {"lease_expires_at": now + timedelta(minutes=1), "lease_token": 1}
    columns = {
        "task_id": f"task-{next(_numbers)}",
        "queue_name": queue_name,
        "lane": lane_of(tenant, queue_name),
        "bucket": bucket,
        "slot": slot_of(bucket),
        "name": "tests.tasks.noop",
        "backend": "default",
        "args": "[]",
        "kwargs": "{}",
        "status": status.value,
        "priority": 0,
        "ord": 0,
        "run_after": now + timedelta(seconds=due_in),
        "enqueued_at": now,
        "attempts": 0,
        "lost_leases": 0,
        **(running if status is TaskState.RUNNING else {}),
    }
    return Task.objects.using(alias).create(**{**columns, **values})
