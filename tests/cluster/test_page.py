"""The Cluster page as HTML: who may see it, what it says, what it costs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import OperationalError, connections
from django.http import HttpRequest
from django.test import Client
from django.urls import reverse

from skipper_django import conf
from skipper_django.cluster_admin import MemberAdmin, age_text
from skipper_django.core.membership import MemberState
from skipper_django.models import Member
from skipper_django.overview import set_current_member
from tests.cluster.conftest import PAGE
from tests.factories import MemberFactory, add_members, add_task

HOSTILE = "<script>alert(1)</script>\"'&{{ 7|add:7 }}{% now %}"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;{{ 7|add:7 }}{% now %}"


def text_of(client: Client, path: str = PAGE) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("count", [0, 1, 64, 1000])
def test_the_page_at_any_size(
    queue: str,
    as_superuser: Callable[..., HttpRequest],
    count: int,
    django_assert_max_num_queries: Callable[..., Any],
) -> None:
    add_members(queue, *(f"m-{number:04}" for number in range(count)))
    add_task(queue, "default")
    page = MemberAdmin(Member, admin.site)
    with django_assert_max_num_queries(4, connection=connections[queue]):
        text = page.changelist_view(as_superuser(PAGE)).render().content.decode()  # type: ignore[attr-defined]
    assert text.count('role="rowheader"') == min(count, 100)
    assert text.count("<title>m-") == count
    assert ("No worker is live" in text) is (count == 0)
    assert len(text) < 400_000


def test_the_ranges_stand_in_the_bar_and_in_the_table(viewer: Client) -> None:
    add_members("default", "web-1", "web-2", "web-3")
    text = text_of(viewer)
    for shown in ("[0, 334)", "[334, 667)", "[667, 1000)", "33.4 %", "33.3 %"):
        assert shown in text
    assert re.findall(r'<svg x="([\d.]+%)" width="([\d.]+%)"', text) == [
        ("0%", "33.4%"), ("33.4%", "33.3%"), ("66.7%", "33.3%"),
    ]  # fmt: skip


def test_the_bar_is_no_matter_of_language(viewer: Client, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    add_members("default", "web-1", "web-2", "web-3")
    text = text_of(viewer)
    assert '<svg x="33.4%" width="33.3%"' in text
    assert "33,4 %" in text
    assert "eigener Bereich" in text


def test_nothing_inline(viewer: Client) -> None:
    add_members("default", "web-1")
    add_task("default", "orphan")
    text = text_of(viewer)
    body = text[text.index('<div id="content-main">') : text.index("<footer")]
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script", body)
    assert "//" not in re.sub(r"http://www.w3.org\S*", "", body)


def test_the_fragment_is_what_the_page_holds(viewer: Client) -> None:
    add_members("default", "web-1")
    fragment = text_of(viewer, f"{PAGE}fragment/")
    parts = re.findall(r'data-part="(\w+)"', fragment)
    assert parts == re.findall(r'data-part="(\w+)"', text_of(viewer))
    assert "<html" not in fragment
    assert "web-1" in fragment


def test_a_thousand_members_come_in_pages(viewer: Client) -> None:
    add_members("default", *(f"m-{number:04}" for number in range(1000)))
    text = text_of(viewer, f"{PAGE}?page=10")
    assert '<span class="sk-member">m-0999</span>' in text
    assert '<span class="sk-member">m-0899</span>' not in text
    for page in ("0", "99", "x"):
        assert text_of(viewer, f"{PAGE}?page={page}").count('role="rowheader"') == 100


@pytest.mark.parametrize("path", [PAGE, f"{PAGE}fragment/"])
def test_who_may_look(path: str, viewer: Client) -> None:
    assert viewer.get(path).status_code == 200
    assert viewer.head(path).status_code == 200
    stranger = Client()
    assert stranger.get(path).status_code == 302
    stranger.force_login(User.objects.create_user("staff", is_staff=True))
    assert stranger.get(path).status_code == 403
    customer = Client()
    customer.force_login(User.objects.create_user("customer"))
    assert customer.get(path).status_code == 302


@pytest.mark.parametrize("path", [PAGE, f"{PAGE}fragment/"])
def test_it_is_never_cached(path: str, viewer: Client) -> None:
    assert "no-store" in viewer.get(path)["Cache-Control"]


def test_there_is_nothing_to_add_change_or_delete(admin_client: Client) -> None:
    (row,) = add_members("default", "web-1")
    pk = Member.objects.get(member_id=row.member_id).pk
    for path in ("add/", f"{pk}/change/", f"{pk}/delete/", f"{pk}/"):
        assert admin_client.get(PAGE + path).status_code == 404
    for path in (PAGE, f"{PAGE}fragment/"):
        response = admin_client.post(path, {"action": "delete_selected", "_selected_action": pk})
        assert response.status_code == 405
    assert Member.objects.count() == 1


def test_the_index_links_to_the_page(viewer: Client) -> None:
    text = text_of(viewer, reverse("admin:index"))
    assert f'href="{PAGE}"' in text
    assert f"{PAGE}add/" not in text


def test_hostile_text_is_text(viewer: Client) -> None:
    MemberFactory.create(
        member_id=HOSTILE, host=HOSTILE, queues=HOSTILE, version=HOSTILE[:32],
        fetch_mode="<b>mode</b>", reason="<b>why</b>",
    )  # fmt: skip
    MemberFactory.create(member_id=HOSTILE + "2", host=HOSTILE, age=100)
    add_task("default", "queue " + HOSTILE)
    text = text_of(viewer)
    assert "<script>alert" not in text
    assert "<b>" not in text
    assert text.count(ESCAPED) >= 6


def test_the_badge_says_why(viewer: Client) -> None:
    add_members("default", "web-1", "web-2")
    assert "sk-badge sk-on" in text_of(viewer)
    Member.objects.filter(member_id="web-2").update(fetch_mode="whole_queue", reason="gate_error")
    text = text_of(viewer)
    assert "Partly active" in text
    assert "the TASK_PARTITIONING callable raised" in text
    Member.objects.update(fetch_mode="whole_queue", reason="gate_off")
    text = text_of(viewer)
    assert "Not active" in text
    assert "partitioning is switched off" in text
    assert "[0, 500)" not in text


def test_a_code_that_this_version_does_not_know_stands_for_itself(viewer: Client) -> None:
    add_members("default", "web-1", whole="made_tomorrow")
    assert "made_tomorrow" in text_of(viewer)


def test_a_draining_member_fetches_nothing(viewer: Client) -> None:
    add_members("default", "web-1", state=MemberState.DRAINING, fetch_mode="partitioned")
    text = text_of(viewer)
    assert "Draining" in text
    assert "nothing any more" in text


def test_the_member_of_this_web_process_is_marked(viewer: Client) -> None:
    add_members("default", "web-1", "web-2")
    assert "not a member" in text_of(viewer)
    set_current_member(conf.load(), lambda: "web-2")
    try:
        text = text_of(viewer)
    finally:
        set_current_member(conf.load(), None)
    assert text.count('aria-current="true"') == 1
    assert "this web process" in text


def test_recently_gone(viewer: Client) -> None:
    add_members("default", "killed", state=MemberState.DEAD, running=3)
    add_members("default", "silent", age=600)
    text = text_of(viewer)
    assert "its process is gone" in text
    assert "no heartbeat within the liveness window" in text
    assert "10 min ago" in text


def test_a_database_that_cannot_be_read_is_said_on_the_page(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any) -> None:
        raise OperationalError("secret-host refused")

    monkeypatch.setattr("skipper_django.cluster_admin.look", fails)
    for path in (PAGE, f"{PAGE}fragment/"):
        text = text_of(viewer, path)
        assert "cannot be read" in text
        assert "secret-host" not in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (119.4, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h")],
)
def test_ages(seconds: float, text: str) -> None:
    assert age_text(seconds) == text


@pytest.mark.parametrize("use_tz", [True, False])
def test_times_are_in_the_zone_of_the_project(viewer: Client, settings: Any, use_tz: bool) -> None:
    settings.USE_TZ = use_tz
    settings.TIME_ZONE = "Asia/Tokyo"
    settings.LANGUAGE_CODE = "de"
    add_members("default", "web-1", started_at=datetime(2026, 1, 1, 20, 5, tzinfo=UTC))
    assert "02.01.2026 05:05" in text_of(viewer)
