"""The doctor finds every kind of nonsense in a row, and repairs it or parks the task."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections

from skipper_django import conf, doctor
from skipper_django.core.buckets import BUCKETS, bucket_of, lane_of, slot_of
from skipper_django.core.diagnosis import diagnose
from skipper_django.core.outcome import load_errors
from skipper_django.core.states import TaskState
from skipper_django.models import Task
from skipper_django.store.clock import clock_of
from skipper_django.testing import run_ready
from tests.contract import tasks
from tests.doctor.nonsense import FAILED, PARKED, READY, REPAIRED, RUNNING, write
from tests.factories import add_members, add_task

pytestmark = pytest.mark.django_db(transaction=True)

TEXTS = ("args", "kwargs", "result", "name", "queue_name", "task_id", "tenant", "backend")


@pytest.fixture(autouse=True)
def _on_the_database_under_test(queue: str) -> None:
    pass


def bad_row(alias: str, values: dict[str, Any]) -> Task:
    row = Task.objects.using(alias).get(task_id=tasks.other.enqueue("kept").id)
    if refusal := write(alias, row.pk, **values):
        pytest.skip(f"the database refuses it: {refusal}")
    return row


def look(alias: str, repairs: bool = False) -> doctor.Report:
    return doctor.examine(conf.load(), clock_of(alias), repairs)


def texts(alias: str, pk: int) -> dict[str, Any]:
    table = connections[alias].ops.quote_name(Task._meta.db_table)
    with connections[alias].cursor() as cursor:
        sql = f"SELECT {', '.join(TEXTS)} FROM {table} WHERE id = %s"  # noqa: S608
        cursor.execute(sql, [pk])
        return dict(zip(TEXTS, cursor.fetchone(), strict=True))


@pytest.mark.parametrize("values", REPAIRED.values(), ids=REPAIRED)
def test_what_can_be_computed_again_is_repaired(alias: str, values: dict[str, Any]) -> None:
    row = bad_row(alias, values)
    good = tasks.other.enqueue("good")
    before = texts(alias, row.pk)

    found = look(alias)
    assert [task.action for task in found.tasks] == ["found"]
    assert not found.is_healthy
    repaired = look(alias, repairs=True)

    assert [(task.task_id, task.action) for task in repaired.tasks] == [(row.task_id, "repaired")]
    assert look(alias).tasks == []
    assert texts(alias, row.pk) == before
    now = Task.objects.using(alias).get(pk=row.pk)
    assert (now.lane, now.bucket) == (lane_of("default", "default"), bucket_of(row.task_id))
    assert now.slot == slot_of(now.bucket)
    if now.status == READY:
        assert run_ready() == 2
        good.refresh()
        assert Task.objects.using(alias).filter(status=TaskState.SUCCESSFUL.value).count() == 2


@pytest.mark.parametrize(("reason", "values"), PARKED.values(), ids=PARKED)
def test_what_cannot_be_run_is_parked_with_a_reason_and_keeps_its_text(
    alias: str, reason: str, values: dict[str, Any]
) -> None:
    row = bad_row(alias, values)
    good = tasks.other.enqueue("good")
    before = texts(alias, row.pk)

    report = look(alias, repairs=True)

    assert [(task.action, task.reason) for task in report.tasks] == [("parked", reason)]
    now = Task.objects.using(alias).get(pk=row.pk)
    assert (now.status, now.reason, now.ord) == (FAILED, reason, 0)
    assert now.finished_at is not None
    assert (now.lease_token, now.lease_expires_at) == (None, None)
    if not isinstance(values.get("args"), bytes):
        assert texts(alias, row.pk) == before
    last = load_errors(now.errors)[-1]
    assert last["exception_class_path"] == "skipper_django.core.errors.BadRow"
    assert report.tasks[0].faults[0] in last["message"]
    assert look(alias).tasks == []
    assert run_ready() == 1
    good.refresh()
    assert good.return_value == "good"


def test_the_text_of_errors_that_are_no_json_is_kept_in_full(alias: str) -> None:
    row = bad_row(alias, {"errors": "what somebody wrote " + "x" * 50_000})

    look(alias, repairs=True)

    (error,) = load_errors(Task.objects.using(alias).get(pk=row.pk).errors)
    assert error["traceback"] == "what somebody wrote " + "x" * 50_000


def test_a_text_that_is_no_utf_8_is_written_with_escapes(alias: str) -> None:
    if connections[alias].vendor != "sqlite":
        pytest.skip("the servers keep UTF-8 only")
    row = bad_row(alias, {})
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "UPDATE skipper_scheduler_tasks SET args = CAST(X'5B22C3FF225D' AS TEXT) WHERE id = %s",
            [row.pk],
        )

    (task,) = look(alias, repairs=True).tasks

    assert task.action == "parked"  # an escape is no JSON
    assert Task.objects.using(alias).get(pk=row.pk).args == '["\\xc3\\xff"]'
    assert look(alias).tasks == []


@pytest.mark.parametrize("held_by", ["a live lease", "a live member with longer leases"])
def test_a_task_that_is_being_run_is_reported_and_never_touched(alias: str, held_by: str) -> None:
    now = clock_of(alias).now()
    token = 7 << 32
    expires = now + timedelta(seconds=50)
    if held_by != "a live lease":
        add_members(alias, "live", incarnation=7)
        expires = now + timedelta(days=300)
    row = add_task(
        alias, "default", TaskState.RUNNING, lease_token=token, lease_expires_at=expires,
        bucket=1_500, args="nonsense", priority=9_999,
    )  # fmt: skip
    before = Task.objects.using(alias).filter(pk=row.pk).values().get()

    report = look(alias, repairs=True)

    assert [(task.action, task.reason) for task in report.tasks] == [("running", "bad_arguments")]
    assert Task.objects.using(alias).filter(pk=row.pk).values().get() == before
    assert not report.is_healthy


def test_a_row_that_moves_on_between_look_and_repair_is_left_alone(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = bad_row(alias, {"bucket": 1_500})
    plain = diagnose

    def claimed_meanwhile(*args: Any) -> Any:
        expires = clock_of(alias).now() + timedelta(seconds=60)
        Task.objects.using(alias).filter(pk=row.pk).update(
            status=RUNNING, ord=0, lease_token=5, lease_expires_at=expires, attempts=1
        )
        return plain(*args)

    monkeypatch.setattr(doctor, "diagnose", claimed_meanwhile)

    (task,) = look(alias, repairs=True).tasks

    assert task.action == "moved"
    assert Task.objects.using(alias).get(pk=row.pk).bucket == 1_500


def test_thousands_of_rows_are_walked_in_bounded_batches(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skipper_django.store import repair

    monkeypatch.setattr(repair, "BATCH", 7)
    monkeypatch.setattr(repair, "MAX_CHARACTERS", 100)
    for number in range(23):
        task_id, args = f"task-{number}", '["' + "x" * number * 5 + '"]'
        wrong = (bucket_of(task_id) + 1) % BUCKETS
        add_task(alias, "default", args=args, task_id=task_id, bucket=wrong)

    report = look(alias, repairs=True)

    assert (report.rows, report.counts) == (23, {"repaired": 23})
    assert look(alias).is_healthy is False  # nobody serves the queue
    assert [finding.code for finding in look(alias).findings if finding.level == "error"] == [
        "unserved_queues"
    ]


def test_the_command_says_what_it_found_and_ends_with_the_documented_status(alias: str) -> None:
    add_members(alias, "live")
    output = io.StringIO()
    call_command("skipper_doctor", stdout=output)  # no SystemExit: healthy
    assert "Healthy." in output.getvalue()
    row = bad_row(alias, {"args": "nonsense \x1b[31m"})

    with pytest.raises(SystemExit) as ended:
        call_command("skipper_doctor", stdout=output)
    assert ended.value.code == 1
    assert row.task_id in output.getvalue()
    assert "\x1b" not in output.getvalue()
    call_command("skipper_doctor", "--repair", "--json", stdout=(answer := io.StringIO()))

    found = json.loads(answer.getvalue())
    assert found["healthy"] is True
    assert found["bad_rows"] == {"parked": 1}
    assert found["tasks"][0]["task_id"] == row.task_id
