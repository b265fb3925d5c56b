"""What the cluster looks like: the workers' rule, read from the rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections

from skipper_django import conf
from skipper_django.core.buckets import BucketRange
from skipper_django.core.membership import MemberState, View
from skipper_django.core.states import TaskState
from skipper_django.overview import Overview, current_member_id, set_current_member
from skipper_django.store import members
from skipper_django.store.clock import clock_of
from skipper_django.store.database import Database
from tests.factories import add_members, add_task

See = Callable[..., Overview]


def ranges(overview: Overview) -> dict[str, str]:
    return {member.member_id: str(member.buckets) for member in overview.members}


def test_three_members_own_a_third_each(see: See, queue: str) -> None:
    add_members(queue, "c", "a", "b")
    assert ranges(see()) == {"a": "[0, 334)", "b": "[334, 667)", "c": "[667, 1000)"}


def test_names_are_sorted_bytewise_on_every_database(see: See, queue: str) -> None:
    add_members(queue, "b", "B", "a ", "a", "é", "z")
    assert list(ranges(see())) == ["B", "a", "a ", "b", "z", "é"]


@pytest.mark.parametrize("count", [1, 7, 64, 1001])
def test_the_ranges_are_those_that_the_workers_compute(see: See, queue: str, count: int) -> None:
    add_members(queue, *(f"m-{number:04}" for number in range(count)))
    config = conf.load()
    rows = members.all_of(Database(queue), "default")
    view = View.of(rows, clock_of(queue).now(), config.cluster_liveness_window)
    for member in see().members:
        buckets, reason = view.share_of(member.member_id, "default")
        assert member.buckets == (BucketRange(0, 0) if reason else buckets)


def test_no_row_at_all(see: See) -> None:
    overview = see()
    assert (overview.members, overview.gone, overview.divisions) == ((), (), ())
    assert (overview.partitioning_active, overview.reason) == (False, "no_live_member")


def test_the_window_decides_by_the_clock_of_the_database(see: See, queue: str) -> None:
    add_members(queue, "fresh", age=59)
    add_members(queue, "stale", age=61)
    overview = see()
    assert ranges(overview) == {"fresh": "[0, 1000)"}
    (gone,) = overview.gone
    assert (gone.report.row.member_id, round(gone.heartbeat_age)) == ("stale", 61)


def test_a_heartbeat_from_the_future_has_age_zero(see: See, queue: str) -> None:
    add_members(queue, "ahead", age=-30)
    assert see().members[0].heartbeat_age == 0


def test_a_member_known_to_be_dead_is_gone_at_once(see: See, queue: str) -> None:
    add_members(queue, "alive")
    add_members(queue, "killed", age=3, state=MemberState.DEAD)
    overview = see()
    assert ranges(overview) == {"alive": "[0, 1000)"}
    assert [gone.report.row.state for gone in overview.gone] == [MemberState.DEAD]


def test_the_latest_gone_come_first_and_not_without_end(see: See, queue: str) -> None:
    for number in range(60):
        add_members(queue, f"gone-{number:02}", age=100 + number)
    overview = see()
    assert overview.gone_count == 60
    assert [gone.report.row.member_id for gone in overview.gone] == [
        f"gone-{number:02}" for number in range(50)
    ]


def test_a_draining_member_is_live_without_a_range(see: See, queue: str) -> None:
    add_members(queue, "a", "b")
    add_members(queue, "leaving", state=MemberState.DRAINING)
    assert ranges(see()) == {"a": "[0, 500)", "b": "[500, 1000)", "leaving": "[0, 0)"}


def test_all_draining(see: See, queue: str) -> None:
    add_members(queue, "a", state=MemberState.DRAINING)
    overview = see()
    assert (overview.partitioning_active, overview.reason) == (False, "all_draining")


def test_whole_queue_members_have_no_range_and_the_others_keep_theirs(see: See, queue: str) -> None:
    add_members(queue, "a", "b")
    add_members(queue, "c", whole="gate_off")
    overview = see()
    assert ranges(overview) == {"a": "[0, 334)", "b": "[334, 667)", "c": "[0, 0)"}
    assert (overview.partitioning_active, overview.reason) == (True, "some_whole_queue")


@pytest.mark.parametrize("reason", ["gate_off", "gate_error", "range_error", "own_row_missing"])
def test_a_reason_that_all_share_is_that_of_the_cluster(see: See, queue: str, reason: str) -> None:
    add_members(queue, "a", "b", whole=reason)
    overview = see()
    assert (overview.partitioning_active, overview.reason) == (False, reason)


def test_several_reasons(see: See, queue: str) -> None:
    add_members(queue, "a", whole="gate_off")
    add_members(queue, "b", whole="gate_error")
    overview = see()
    assert (overview.partitioning_active, overview.reason) == (False, "several_reasons")


def test_a_member_that_has_just_joined_counts_as_partitioned(see: See, queue: str) -> None:
    add_members(queue, "new", fetch_mode="")
    overview = see()
    assert ranges(overview) == {"new": "[0, 1000)"}
    assert (overview.partitioning_active, overview.reason) == (True, None)


def test_without_registration_nobody_is_missed(see: See, queue: str, settings: Any) -> None:
    settings.SKIPPER = {**settings.SKIPPER, "CLUSTER_MEMBERSHIP_MANAGER": "single"}
    add_task(queue, "default")
    overview = see()
    assert (overview.partitioning_active, overview.reason) == (False, "not_registered")
    assert overview.unserved_queues == ()


def test_tenants_are_clusters_of_their_own(see: See, queue: str) -> None:
    add_members(queue, "same")
    add_members(queue, "same", "other", tenant="second")
    add_task(queue, "lonely", tenant="second")
    assert ranges(see()) == {"same": "[0, 1000)"}
    assert list(ranges(see("second"))) == ["other", "same"]


def test_members_of_different_queues_are_divided_queue_by_queue(see: See, queue: str) -> None:
    add_members(queue, "all")
    add_members(queue, "mail", queues="mail")
    add_task(queue, "default")
    add_task(queue, "reports")
    divisions = {division.queues: dict(division.ranges) for division in see().divisions}
    assert divisions == {
        ("default", "reports"): {"all": BucketRange(0, 1000)},
        ("mail",): {"all": BucketRange(0, 500), "mail": BucketRange(500, 1000)},
    }
    # Of most of its queues, as the worker says of itself.
    assert ranges(see()) == {"all": "[0, 1000)", "mail": "[500, 1000)"}


def test_a_queue_with_ready_tasks_that_nobody_serves(see: See, queue: str) -> None:
    add_members(queue, "mail", queues="mail")
    add_members(queue, "leaving", queues="reports", state=MemberState.DRAINING)
    add_members(queue, "dead", queues="invoices", age=100)
    for name in ("mail", "reports", "invoices"):
        add_task(queue, name)
    assert see().unserved_queues == ("invoices", "reports")


def test_due_tasks_count_as_ready_where_nobody_promotes_them(see: See, queue: str) -> None:
    add_task(queue, "due", TaskState.SCHEDULED, due_in=-5)
    add_task(queue, "later", TaskState.SCHEDULED, due_in=3600)
    add_task(queue, "done", TaskState.SUCCESSFUL)
    add_task(queue, "failed", TaskState.FAILED)
    assert see().unserved_queues == ("due",)


def test_a_member_that_serves_all_queues_leaves_none_unserved(see: See, queue: str) -> None:
    add_members(queue, "all")
    add_task(queue, "whatever")
    assert see().unserved_queues == ()


@pytest.mark.parametrize("count", [0, 1, 64, 1000])
def test_the_statements_do_not_grow_with_the_cluster(
    see: See, queue: str, count: int, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    """The rows, the queues (at most one statement each and the end), which have ready tasks."""
    add_members(queue, *(f"m-{number:04}" for number in range(count)), queues="mail")
    for number in range(30):
        add_task(queue, f"queue-{number}")
    with django_assert_max_num_queries(1 + 31 + 1, connection=connections[queue]):
        see()


def test_at_most_twenty_queues_are_searched_for_due_tasks(
    see: See, queue: str, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    for number in range(40):
        add_task(queue, f"queue-{number}", TaskState.SUCCESSFUL)
    with django_assert_max_num_queries(1 + 41 + 1 + 20, connection=connections[queue]):
        see()


def test_the_member_of_this_process_is_known_by_its_hook(see: See, queue: str) -> None:
    config = conf.load()
    add_members(queue, "web-1", "web-2")
    assert see().current is None
    set_current_member(config, lambda: "web-2")
    try:
        current = see().current
        assert current is not None
        assert (current.member_id, current.is_current) == ("web-2", True)
        assert see("second").current is None
    finally:
        set_current_member(config, None)
    assert current_member_id(config) is None


def test_a_current_member_whose_row_is_gone_is_not_registered(see: See, queue: str) -> None:
    set_current_member(conf.load(), lambda: "web-9")
    try:
        assert see().current is None
    finally:
        set_current_member(conf.load(), None)


def test_times_are_aware_whatever_use_tz_says(see: See, queue: str, settings: Any) -> None:
    settings.USE_TZ = False
    add_members(queue, "a", age=7)
    overview = see()
    assert overview.taken_at.utcoffset() == timedelta(0)
    assert 6 < overview.members[0].heartbeat_age < 20
