"""manage.py skipper_cluster."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from skipper_django import overview
from skipper_django.core.membership import MemberState
from skipper_django.management.commands import skipper_cluster
from skipper_django.text_table import width
from tests.factories import add_members, add_task


def run(*args: str) -> str:
    output = io.StringIO()
    call_command("skipper_cluster", *args, stdout=output)
    return output.getvalue()


def test_the_table(queue: str) -> None:
    add_members(queue, "web-1", "web-2", "web-3", age=4, claimed=12)
    lines = run().splitlines()
    assert lines[0] == "Cluster default: 3 live members, partitioning active"
    assert lines[2].split() == [
        "MEMBER", "RANGE", "SHARE", "BEAT", "STATE", "RUNNING", "CLAIMED", "STOLEN", "LOST",
        "FETCHES", "FROM",
    ]  # fmt: skip
    assert [line.split("  ")[1].strip() for line in lines[3:]] == [
        "[0, 334)", "[334, 667)", "[667, 1000)",
    ]  # fmt: skip


def test_nobody_is_said_in_words(queue: str) -> None:
    add_task(queue, "mail")
    lines = run().splitlines()
    assert lines[0] == "Cluster default: 0 live members, partitioning not active"
    assert "manage.py skipper_worker" in lines[2]
    assert lines[3] == ("WARNING: no live worker serves queue mail, which has tasks to run")


def test_no_line_is_longer_than_a_hundred_columns(queue: str) -> None:
    add_members(queue, "x" * 150, "漢字" * 40, "tab\tand\x1b[31mred", queues="q" * 90)
    add_members(queue, "slow", whole="gate_off", claimed=10**12, stolen=10**7, lost_races=10**7)
    add_members(queue, "gone" * 30, age=100, host="h" * 200)
    add_members(queue, "leaving", state=MemberState.DRAINING)
    add_task(queue, "u" * 100)
    lines = run().splitlines()
    assert max(map(width, lines)) <= 100
    assert "\x1b" not in "".join(lines)
    table = [line for line in lines if "[" in line and "/4" in line]
    assert len({width(line[: line.index("/4")]) for line in table}) == 1


def test_json_is_what_the_page_answers(queue: str) -> None:
    add_members(queue, "web-1")
    found = json.loads(run("--json"))
    assert found["members"][0]["end_bucket_exclusive"] == 1000
    assert found["cluster_name"] == "default"


def test_another_tenant_on_a_named_database(alias: str) -> None:
    add_members(alias, "theirs", tenant="second")
    found = json.loads(run("--json", "--tenant", "second", "--database", alias))
    assert [member["member_id"] for member in found["members"]] == ["theirs"]


@pytest.mark.django_db(transaction=True)
def test_watching_goes_on_through_an_outage(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add_members(queue, "web-1")
    real, looks = overview.look, iter(range(9))

    def look(*args: Any) -> Any:
        number = next(looks)
        if number == 1:
            raise OperationalError("gone away")
        if number == 3:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(skipper_cluster, "look", look)
    lines = run("--json", "--watch", "0.1").splitlines()
    assert [sorted(json.loads(line))[:1] for line in lines] == [
        ["cluster_name"], ["message"], ["cluster_name"],
    ]  # fmt: skip


def test_a_database_that_does_not_exist() -> None:
    with pytest.raises(CommandError, match="no database 'nowhere'"):
        run("--database", "nowhere")


@pytest.mark.django_db
def test_a_database_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> None:
        raise OperationalError("no such table")

    monkeypatch.setattr(skipper_cluster, "look", fails)
    with pytest.raises(CommandError, match=r"manage\.py migrate --database=default"):
        run()


@pytest.mark.parametrize("interval", ["0", "x", "-1", "nan", "4000"])
def test_intervals_that_make_no_sense(interval: str) -> None:
    with pytest.raises(CommandError, match="number of seconds"):
        run(f"--watch={interval}")
