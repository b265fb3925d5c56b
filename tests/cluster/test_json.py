"""GET /skipper/admin/cluster: the contract."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.http import HttpRequest
from django.test import Client

from skipper_django import conf, views
from skipper_django.overview import set_current_member
from tests.cluster.conftest import JSON
from tests.factories import MemberFactory, add_members, add_task

FIELDS = {
    "cluster_name", "current_member_id", "registered", "partitioning_active", "reason",
    "reason_text", "total_buckets", "taken_at", "members", "divisions", "unserved_queues",
    "recently_gone_count", "recently_gone",
}  # fmt: skip
MEMBER_FIELDS = {
    "member_id", "start_bucket_inclusive", "end_bucket_exclusive", "bucket_count", "share_percent",
    "current", "heartbeat_age_seconds", "state", "fetch_mode", "reason", "reason_text", "queues",
    "running", "concurrency", "counters", "host", "pid", "started_at", "version",
}  # fmt: skip


@pytest.fixture
def answer(queue: str, as_superuser: Callable[..., HttpRequest]) -> Callable[[], dict[str, Any]]:
    def get() -> dict[str, Any]:
        response = views.cluster(as_superuser(JSON))
        assert response.status_code == 200
        found: dict[str, Any] = json.loads(response.content)
        return found

    return get


def test_three_members_the_middle_one_current(answer: Callable[[], Any], queue: str) -> None:
    add_members(queue, "a", "b", "c")
    set_current_member(conf.load(), lambda: "b")
    try:
        found = answer()
    finally:
        set_current_member(conf.load(), None)
    assert set(found) == FIELDS
    assert all(set(member) == MEMBER_FIELDS for member in found["members"])
    head = ("cluster_name", "current_member_id", "registered", "partitioning_active")
    assert [found[name] for name in head] == ["default", "b", True, True]
    assert (found["total_buckets"], found["reason"]) == (1000, None)
    ranged = ("member_id", "start_bucket_inclusive", "end_bucket_exclusive", "bucket_count",
              "current")  # fmt: skip
    assert [tuple(member[name] for name in ranged) for member in found["members"]] == [
        ("a", 0, 334, 334, False), ("b", 334, 667, 333, True), ("c", 667, 1000, 333, False),
    ]  # fmt: skip


def test_one_member_owns_all(answer: Callable[[], Any], queue: str) -> None:
    add_members(queue, "only", queues="mail\nreports", running=3, claimed=10, stolen=2, age=5)
    (member,) = answer()["members"]
    assert member["bucket_count"] == 1000
    assert member["queues"] == ["mail", "reports"]
    assert (member["running"], member["concurrency"]) == (3, 4)
    assert member["counters"] == {"claimed": 10, "stolen": 2, "lost_races": 1}
    assert (member["state"], member["fetch_mode"]) == ("active", "partitioned")
    assert 5 <= member["heartbeat_age_seconds"] < 30


def test_nobody(answer: Callable[[], Any]) -> None:
    found = answer()
    assert (found["registered"], found["current_member_id"]) == (False, None)
    assert (found["partitioning_active"], found["members"]) == (False, [])
    assert found["reason"] == "no_live_member"
    assert found["reason_text"]


def test_gate_off_lists_the_members_without_ranges(answer: Callable[[], Any], queue: str) -> None:
    add_members(queue, "a", "b", whole="gate_off")
    found = answer()
    assert (found["partitioning_active"], found["reason"]) == (False, "gate_off")
    for member in found["members"]:
        assert member["start_bucket_inclusive"] == member["end_bucket_exclusive"] == 0
        assert (member["bucket_count"], member["share_percent"]) == (0, 0)
        assert (member["fetch_mode"], member["reason"]) == ("whole_queue", "gate_off")


def test_what_is_gone_and_what_is_missing(answer: Callable[[], Any], queue: str) -> None:
    add_members(queue, "crashed", age=90, running=2)
    add_task(queue, "mail")
    found = answer()
    assert found["unserved_queues"] == ["mail"]
    assert found["recently_gone_count"] == 1
    (gone,) = found["recently_gone"]
    assert gone["member_id"] == "crashed"
    assert 90 <= gone["heartbeat_age_seconds"] < 120


def test_hostile_names_arrive_as_they_are(answer: Callable[[], Any], queue: str) -> None:
    name = '</script><img src=x onerror="1">\u2028'
    MemberFactory._meta.model.objects.using(queue).bulk_create(
        [MemberFactory.build(alias=queue, member_id=name)]
    )
    assert answer()["members"][0]["member_id"] == name


def test_a_view_only_member_of_staff_may(viewer: Client) -> None:
    response = viewer.get(JSON)
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    assert response["X-Content-Type-Options"] == "nosniff"


def _clients() -> dict[str, Client]:
    User.objects.create_user("staff", is_staff=True)
    User.objects.create_superuser("retired", is_active=False)
    User.objects.create_superuser("not staff", is_staff=True)
    User.objects.filter(username="not staff").update(is_staff=False)
    clients = {"nobody": Client()}
    for user in User.objects.all():
        clients[user.username] = Client()
        clients[user.username].force_login(user)
    return clients


@pytest.mark.django_db
@pytest.mark.parametrize("who", ["nobody", "staff", "retired", "not staff"])
def test_others_get_403_as_json(who: str) -> None:
    add_members("default", "secret-name")
    response = _clients()[who].get(JSON)
    assert response.status_code == 403
    assert response["Content-Type"] == "application/json"
    assert set(response.json()) == {"message"}
    assert b"secret-name" not in response.content
    assert "no-store" in response["Cache-Control"]


def test_it_is_never_cached(viewer: Client) -> None:
    header = viewer.get(JSON)["Cache-Control"]
    assert "no-store" in header
    assert "private" in header


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options"])
def test_reading_only(viewer: Client, method: str) -> None:
    response = getattr(viewer, method)(JSON)
    assert response.status_code == 405
    assert response["Allow"] == "GET, HEAD"
    assert "no-store" in response["Cache-Control"]


def test_head(viewer: Client) -> None:
    response = viewer.head(JSON)
    assert (response.status_code, response.content) == (200, b"")


def test_a_database_that_cannot_be_read(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> None:
        raise OperationalError("secret-host refused")

    monkeypatch.setattr(views, "look", fails)
    response = viewer.get(JSON)
    assert response.status_code == 503
    assert set(response.json()) == {"message"}
    assert b"secret-host" not in response.content


@pytest.mark.django_db
def test_without_authentication_nobody_may(as_superuser: Callable[..., HttpRequest]) -> None:
    request = as_superuser(JSON)
    del request.user
    assert views.cluster(request).status_code == 403
