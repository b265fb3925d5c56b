"""Fallbacks that take a broken cluster to come about: tasks are run, row and JSON say why."""

from __future__ import annotations

import io
import json
import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command

from skipper_django.core.clock import Clock
from skipper_django.core.membership import View
from skipper_django.models import Member, Task
from skipper_django.store.clock import clock_of
from tests import tasks
from tests.factories import MemberFactory
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State

QUICK = {"cluster_heartbeat_interval": 0.2, "cluster_liveness_window": 60}
TASKS_OF_ALL_RANGES = 20


@pytest.fixture
def assert_falls_back(alias: str, enqueue: Any) -> Any:
    """The member `name` runs every task, and all who ask are told of the whole queue and why."""

    def check(name: str, reason: str) -> None:
        rows = [enqueue(tasks.noop) for _ in range(TASKS_OF_ALL_RANGES)]
        done = Task.objects.using(alias).filter(
            pk__in=[row.pk for row in rows], status=State.SUCCESSFUL
        )
        wait_until(lambda: done.count() == TASKS_OF_ALL_RANGES, what="all tasks are done")
        assert set(done.values_list("worker_ids", "attempts")) == {(f"{name}\n", 1)}

        member = Member.objects.using(alias).filter(member_id=name)
        told = {"fetch_mode": "whole_queue", "reason": reason, "range_start": 0, "range_stop": 0}
        wait_until(member.filter(**told).exists, what=f"the row says {reason}")
        assert member.get().partitioned_fetches == 0

        shown = _json_of(alias, name)
        assert (shown["fetch_mode"], shown["reason"]) == ("whole_queue", reason)
        assert shown["bucket_count"] == 0
        assert shown["reason_text"]

    return check


def _json_of(alias: str, name: str) -> dict[str, Any]:
    output = io.StringIO()
    call_command("skipper_cluster", "--json", database=alias, stdout=output)
    (shown,) = (m for m in json.loads(output.getvalue())["members"] if m["member_id"] == name)
    return dict(shown)


class Leaping:
    """A database's clock that leaps ahead between any two looks at it."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.monotonic = clock.monotonic
        self._clock = clock
        self._leap = timedelta(seconds=seconds)
        self._leaps = 0
        self._lock = threading.Lock()

    def now(self) -> datetime:
        with self._lock:
            self._leaps += 1
        return self.estimate()

    def estimate(self) -> datetime:
        return self._clock.now() + self._leaps * self._leap


def test_a10_a_member_that_finds_nobody_live_fetches_the_whole_queue(
    alias: str, start_worker: Any, assert_falls_back: Any
) -> None:
    # Whenever it looks at the members, its own heartbeat of a moment ago is too old.
    clock = Leaping(clock_of(alias), seconds=61)

    # One look, one leap: leases must not seem to expire, nor finished tasks to be too old.
    start_worker({**QUICK, "lease_duration": 1e8, "retention": 1e9}, clock=clock, member_name="a")

    assert_falls_back("a", "no_live_member")


def test_a10_a_member_beyond_the_last_bucket_fetches_the_whole_queue(
    alias: str, start_worker: Any, assert_falls_back: Any, enqueue: Any, wait_for_state: Any
) -> None:
    # Heartbeats from the future: none drops out within this test.
    Member.objects.using(alias).bulk_create(
        MemberFactory.build(alias=alias, member_id=f"m-{number:04}", age=-3600.0)
        for number in range(1000)
    )

    start_worker(QUICK, member_name="z")

    assert_falls_back("z", "beyond_last_bucket")


def test_a10_a_member_whose_range_cannot_be_computed_fetches_the_whole_queue(
    start_worker: Any,
    assert_falls_back: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Nothing from outside is known to bring it about.
    def fails(view: View, member_id: str, queue_name: str) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(View, "share_of", fails)
    start_worker(QUICK, member_name="a")

    assert_falls_back("a", "range_error")
    assert "the range cannot be computed" in caplog.text
