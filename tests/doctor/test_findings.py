"""Everything the doctor looks at beside the rows: settings, schema, clocks, leases, members."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from skipper_django import conf, doctor
from skipper_django.core.states import TaskState
from skipper_django.models import Member, Task
from skipper_django.store import clock
from skipper_django.store.clock import clock_of
from tests.docs.pages import DOCS, code, rows, section
from tests.factories import add_members, add_task

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _on_the_database_under_test(queue: str) -> None:
    pass


def codes(alias: str, repairs: bool = False) -> dict[str, doctor.Finding]:
    report = doctor.examine(conf.load(), clock_of(alias), repairs)
    return {finding.code: finding for finding in report.findings}


@pytest.fixture
def without_hot_index(alias: str) -> Iterator[None]:
    (index,) = Task._meta.indexes
    with connections[alias].schema_editor() as editor:
        editor.remove_index(Task, index)
    yield
    with connections[alias].schema_editor() as editor:
        editor.add_index(Task, index)


def test_a_queue_in_good_order_has_no_errors(alias: str) -> None:
    add_members(alias, "live")
    add_task(alias, "default", bucket=500, task_id="task-0")
    Task.objects.using(alias).all().delete()

    report = doctor.examine(conf.load(), clock_of(alias))

    assert report.is_healthy
    assert [finding for finding in report.findings if finding.level == "error"] == []


def test_a_missing_index_is_named(alias: str, without_hot_index: None) -> None:
    finding = codes(alias)["schema"]

    assert (finding.level, "tasks_hot" in finding.text) == ("error", True)


def test_a_missing_table_ends_the_examination_with_the_remedy(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Member._meta, "db_table", "skipper_gone")

    found = codes(alias)

    assert "skipper_gone" in found["no_table"].text
    assert "migrate" in found["no_table"].remedy
    assert "unserved_queues" not in found


def test_a_pending_migration_is_named(alias: str) -> None:
    recorder = MigrationRecorder(connections[alias])
    recorder.record_unapplied("skipper_django", "0003_view_task_data")
    try:
        assert "0003_view_task_data" in codes(alias)["migrations_pending"].text
    finally:
        recorder.record_applied("skipper_django", "0003_view_task_data")


@pytest.mark.case("R20")
@pytest.mark.parametrize(("seconds", "words"), [(600, "600 s ahead"), (-3600, "3600 s behind")])
def test_a_host_whose_clock_is_off_is_told_so(
    alias: str, monkeypatch: pytest.MonkeyPatch, seconds: int, words: str
) -> None:
    real = datetime

    class Off(real):  # type: ignore[valid-type, misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real.now(tz) + timedelta(seconds=seconds)

    monkeypatch.setattr(clock, "datetime", Off)

    finding = codes(alias)["clock_skew"]

    assert words in finding.text
    assert finding.level == "warning"


def test_a_clock_that_is_right_is_not_mentioned(alias: str) -> None:
    assert "clock_skew" not in codes(alias)


def test_settings_that_cannot_work_are_findings(alias: str, settings: Settings) -> None:
    settings.SKIPPER = {"DATABASE": alias, "LEASE": 5}
    output = io.StringIO()

    with pytest.raises(SystemExit):
        call_command("skipper_doctor", "--json", stdout=output)

    (finding,) = [f for f in json.loads(output.getvalue())["findings"] if f["level"] == "error"]
    assert finding["code"] == "skipper.E001"
    assert "LEASE_DURATION" in finding["text"]


def test_a_lease_that_nobody_reclaims_is_an_error(alias: str) -> None:
    long_ago = clock_of(alias).now() - timedelta(minutes=10)
    add_task(alias, "default", TaskState.RUNNING, lease_expires_at=long_ago)

    assert "1 running tasks" in codes(alias)["expired_lease"].text


def test_tasks_long_past_their_retention_are_told(alias: str) -> None:
    long_ago = clock_of(alias).now() - timedelta(days=40)
    for number in range(3):
        add_task(alias, "default", TaskState.SUCCESSFUL, finished_at=long_ago, bucket=number)

    finding = codes(alias)["prune_lag"]

    assert "3 finished tasks" in finding.text
    assert f"{33 * 24 * 60} minutes" in finding.text


@pytest.mark.case("R19")
def test_members_long_dead_are_told_and_repair_deletes_their_rows(alias: str) -> None:
    add_members(alias, "live")
    add_members(alias, *(f"gone-{number}" for number in range(300)), age=8 * 3600)
    add_members(alias, "lately", age=3600)

    assert "300 members" in codes(alias)["orphan_members"].text
    assert codes(alias, repairs=True)["orphan_members"].repaired

    assert "orphan_members" not in codes(alias)
    left = Member.objects.using(alias).values_list("member_id", flat=True)
    assert sorted(left) == ["lately", "live"]


def test_nonsense_in_the_row_of_a_member_is_told(alias: str) -> None:
    add_members(alias, "odd", state=77, range_start=500, range_stop=-5)

    assert "member odd" in codes(alias)["bad_member"].text


def test_waiting_tasks_that_nobody_serves_are_an_error(alias: str) -> None:
    add_task(alias, "lonely")

    assert "lonely" in codes(alias)["unserved_queues"].text


def test_a_database_that_is_not_there_is_a_clear_error(alias: str) -> None:
    with pytest.raises(CommandError, match="no database 'nowhere'"):
        call_command("skipper_doctor", database="nowhere")


def test_the_page_lists_exactly_the_findings_there_are() -> None:
    text = section((DOCS / "doctor.md").read_text(), "## Findings")
    source = Path(str(doctor.__file__)).read_text()
    made = re.findall(r'(?:report\.add\(\s*|_Tally\()"(\w+)"', source)

    assert sorted(code(row[0]) for row in rows(text)) == sorted(made)
