"""A project with several entries in TASKS: page, JSON and command show the cluster of each."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from skipper_django import conf
from skipper_django.overview import set_current_member
from tests.cluster.conftest import JSON, PAGE
from tests.factories import add_members

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

OURS = "skipper_django.backend.SkipperBackend"


@pytest.fixture
def several(settings: Settings) -> None:
    """That of SKIPPER, another tenant's, one on a database of its own, and what is none of them."""
    settings.TASKS = {
        "default": {"BACKEND": OURS, "QUEUES": []},
        "acme & co": {"BACKEND": OURS, "QUEUES": [], "OPTIONS": {"TENANT": "acme"}},
        "again": {"BACKEND": OURS, "QUEUES": ["mail"], "OPTIONS": {"TENANT": "acme"}},
        "django": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"},
        "broken": {"BACKEND": OURS, "QUEUES": [], "OPTIONS": {"TENANT": ""}},
    }
    add_members("default", "ours")
    add_members("default", "theirs", tenant="acme")


pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("several")]


def names(found: dict[str, Any]) -> tuple[str, list[str]]:
    return found["cluster_name"], [member["member_id"] for member in found["members"]]


def links(text: str) -> list[tuple[str, str]]:
    nav = re.search(r'<nav class="sk-clusters".*?</nav>', text, re.DOTALL)
    return re.findall(r'<a href="(.*?)"(?: aria-current="page")?>(.*?)</a>', nav[0]) if nav else []


def shown(text: str) -> list[str]:
    return re.findall(r'<span class="sk-member">(.*?)</span>', text)


def test_each_is_there_once_under_its_first_name() -> None:
    found = {name: config.tenant for name, config in conf.clusters().items()}
    assert found == {"": "default", "acme & co": "acme"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ("default", ["ours"])),
        ("?backend=", ("default", ["ours"])),
        ("?backend=default", ("default", ["ours"])),
        ("?backend=acme%20%26%20co", ("acme", ["theirs"])),
        ("?backend=again", ("acme", ["theirs"])),
    ],
)
def test_the_json_of_each(viewer: Client, query: str, expected: Any) -> None:
    assert names(viewer.get(JSON + query).json()) == expected


@pytest.mark.parametrize("name", ["nowhere", "django", "<script>"])
def test_one_that_does_not_exist(viewer: Client, name: str) -> None:
    answer = viewer.get(JSON, {"backend": name})
    assert (answer.status_code, set(answer.json())) == (404, {"message"})
    assert viewer.get(PAGE, {"backend": name}).status_code == 404
    assert viewer.get(f"{PAGE}fragment/", {"backend": name}).status_code == 404
    assert Client().get(JSON, {"backend": name}).status_code == 403, "nobody else is told"
    with pytest.raises(CommandError, match="TASKS has no entry"):
        call_command("skipper_cluster", "--backend", name)


def test_the_page_links_to_each(viewer: Client) -> None:
    text = viewer.get(PAGE).content.decode()
    expected = [("?", "default"), ("?backend=acme%20%26%20co", "acme")]
    assert (shown(text), links(text)) == (["ours"], expected)
    assert 'href="?" aria-current="page"' in text

    text = viewer.get(PAGE + expected[1][0]).content.decode()
    assert (shown(text), links(text)) == (["theirs"], expected)
    assert 'co" aria-current="page"' in text
    fragment = viewer.get(f"{PAGE}fragment/{expected[1][0]}").content.decode()
    assert shown(fragment) == ["theirs"]


def test_pages_stay_with_the_cluster(viewer: Client) -> None:
    add_members("default", *(f"m-{number:03}" for number in range(150)), tenant="acme")
    text = viewer.get(PAGE, {"backend": "acme & co"}).content.decode()
    assert 'href="?backend=acme%20%26%20co&amp;page=2"' in text
    assert len(shown(viewer.get(f"{PAGE}?backend=again&page=2").content.decode())) == 51


def test_databases_are_named_where_they_differ(
    viewer: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conf, "databases", lambda: {"default": {}, "archive": {}})
    elsewhere = {"BACKEND": OURS, "QUEUES": [], "OPTIONS": {"DATABASE": "archive"}}
    settings.TASKS = {**settings.TASKS, "archive": elsewhere}
    texts = [text for _, text in links(viewer.get(PAGE).content.decode())]
    assert texts == ["default (default)", "acme (default)", "default (archive)"]


def test_one_cluster_alone_has_no_links(viewer: Client, settings: Settings) -> None:
    settings.TASKS = {"default": {"BACKEND": OURS, "QUEUES": []}}
    assert not links(viewer.get(PAGE).content.decode())


def test_this_process_is_marked_in_its_own_cluster(viewer: Client) -> None:
    config = conf.of_backend("again")
    set_current_member(config, lambda: "theirs")
    try:
        assert viewer.get(JSON).json()["current_member_id"] is None
        assert viewer.get(JSON, {"backend": "again"}).json()["current_member_id"] == "theirs"
    finally:
        set_current_member(config, None)


def test_the_command() -> None:
    output = io.StringIO()
    call_command("skipper_cluster", "--json", "--backend", "again", stdout=output)
    assert names(json.loads(output.getvalue())) == ("acme", ["theirs"])
    with pytest.raises(CommandError, match="give no others beside it"):
        call_command("skipper_cluster", "--backend", "again", "--tenant", "acme")
