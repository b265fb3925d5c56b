"""A worker runs what is in the queue and stores what it led to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skipper_django.models import Task
from skipper_django.worker.options import EXIT_DONE
from tests import tasks
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State


def test_drain_runs_all_that_is_ready_and_stops(
    alias: str, enqueue: Any, start_worker: Any
) -> None:
    for number in range(50):
        enqueue(tasks.echo, number)

    status = start_worker(drain=True).join()

    rows = Task.objects.using(alias)
    assert status == EXIT_DONE
    assert rows.filter(status=State.SUCCESSFUL).count() == 50
    assert [json.loads(row.result)[0][0] for row in rows.order_by("id")] == list(range(50))
    assert set(rows.values_list("attempts", flat=True)) == {1}


def test_priority_then_age_decides_the_order_of_one_slot(
    enqueue: Any, start_worker: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "order")
    for priority in (0, 50, -50, 0, 50):
        enqueue(worker_tasks.record.using(priority=priority), path, f"{priority}")

    start_worker(drain=True, concurrency=1).join()

    assert worker_tasks.lines(path) == ["50", "50", "0", "0", "-50"]


def test_what_an_attempt_raised_is_kept_with_class_message_and_traceback(
    enqueue: Any, start_worker: Any, fresh: Any
) -> None:
    row = enqueue(tasks.fail, "broken")

    start_worker(drain=True).join()

    (error,) = json.loads(fresh(row).errors)
    assert fresh(row).status == State.FAILED
    assert fresh(row).reason == "exception"
    assert error["exception_class_path"] == "builtins.ValueError"
    assert error["message"] == "broken"
    first, second, *_ = error["traceback"].splitlines()
    assert first == "Traceback (most recent call last):"
    assert "tasks.py" in second, "the task's own frames only"
    assert second.endswith("in fail")


def test_three_attempts_are_three_calls_with_the_backoff_between(
    enqueue: Any, start_worker: Any, fresh: Any, alias: str
) -> None:
    row = enqueue(tasks.fail_thrice)
    due = []

    for _ in range(3):
        start_worker(drain=True).join()
        due.append(fresh(row).run_after)
        Task.objects.using(alias).filter(status=State.SCHEDULED).update(run_after=row.enqueued_at)

    assert fresh(row).status == State.FAILED
    assert fresh(row).attempts == 3
    assert [error["attempt"] for error in json.loads(fresh(row).errors)] == [1, 2, 3]
    assert 9 < (due[0] - row.enqueued_at).total_seconds() < 40


def test_async_tasks_run_side_by_side(enqueue: Any, start_worker: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "async")
    for number in range(4):
        enqueue(worker_tasks.async_nap, path, str(number))

    start_worker(drain=True, concurrency=4).join()

    seen = worker_tasks.lines(path)
    assert sorted(seen) == sorted([f"{w} {n}" for w in ("start", "end") for n in range(4)])
    assert all(line.startswith("start") for line in seen[:2]), "the second started before an end"


def test_async_failures_and_results_are_stored(
    enqueue: Any, start_worker: Any, fresh: Any, alias: str
) -> None:
    good, bad = enqueue(tasks.async_echo, {"a": [1]}), enqueue(tasks.async_fail)
    with_orm = enqueue(worker_tasks.async_query, alias)

    start_worker(drain=True).join()

    assert json.loads(fresh(good).result) == {"a": [1]}
    assert fresh(bad).reason == "exception"
    assert json.loads(fresh(with_orm).result) >= 1


def test_system_exit_fails_the_task_and_not_the_worker(
    enqueue: Any, start_worker: Any, fresh: Any
) -> None:
    row, other = enqueue(worker_tasks.raise_system_exit), enqueue(tasks.noop)

    assert start_worker(drain=True).join() == EXIT_DONE

    assert fresh(row).status == State.FAILED
    assert fresh(other).status == State.SUCCESSFUL


@pytest.mark.case("R6")
def test_what_cannot_run_is_parked_with_a_reason_and_the_rest_goes_on(
    alias: str, enqueue: Any, start_worker: Any, fresh: Any
) -> None:
    gone, broken, forged, fine = (enqueue(tasks.noop) for _ in range(4))
    rows = Task.objects.using(alias)
    rows.filter(pk=gone.pk).update(name="tests.no_such_module.task")
    rows.filter(pk=broken.pk).update(args="[1")
    rows.filter(pk=forged.pk).update(name="os.system", args='["true"]')

    start_worker(drain=True).join()

    reasons = [(fresh(row).status, fresh(row).reason) for row in (gone, broken, forged)]
    assert reasons == [
        (State.FAILED, "unknown_task"),
        (State.FAILED, "bad_arguments"),
        (State.FAILED, "unknown_task"),
    ]
    assert fresh(fine).status == State.SUCCESSFUL


@pytest.mark.case("R4")
def test_a_result_that_is_not_json_fails_once_with_a_reason(
    enqueue: Any, start_worker: Any, fresh: Any
) -> None:
    row = enqueue(tasks.return_infinity)

    start_worker(drain=True).join()

    assert (fresh(row).status, fresh(row).reason) == (State.FAILED, "bad_result")
    assert fresh(row).attempts == 1
    assert "NotSerializable" in fresh(row).errors


@pytest.mark.case("R12")
def test_a_worker_claims_only_what_its_slots_can_start(
    alias: str, enqueue: Any, start_worker: Any, tmp_path: Path
) -> None:
    for number in range(20):
        enqueue(worker_tasks.slow, str(tmp_path / "log"), str(number), 1.0)

    first = start_worker(concurrency=2)
    running = Task.objects.using(alias).filter(status=State.RUNNING)
    wait_until(lambda: running.count() == 2)
    most = max(wait_until(running.count) for _ in range(50))

    assert most == 2
    first.shutdown.request()


def test_a_queue_that_is_not_served_stays_as_it_is(
    enqueue: Any, start_worker: Any, fresh: Any
) -> None:
    mail = enqueue(tasks.noop.using(queue_name="mail"))
    other = enqueue(tasks.noop.using(queue_name="other"))

    start_worker(drain=True, queues=("mail",)).join()

    assert fresh(mail).status == State.SUCCESSFUL
    assert fresh(other).status == State.READY


def test_a_queue_that_nobody_named_before_is_found(
    enqueue: Any, start_worker: Any, wait_for_state: Callable[..., Task]
) -> None:
    start_worker()

    row = enqueue(tasks.noop.using(queue_name="never seen before"))

    wait_for_state(row, State.SUCCESSFUL)


def test_a_task_due_later_waits_and_is_then_promoted_by_the_worker(
    alias: str, enqueue: Any, start_worker: Any, fresh: Any, wait_for_state: Any
) -> None:
    from datetime import timedelta

    row = enqueue(tasks.noop)
    later = row.enqueued_at + timedelta(days=1)
    rows = Task.objects.using(alias).filter(pk=row.pk)
    rows.update(status=State.SCHEDULED, ord=0, run_after=later)
    start_worker()
    beside = enqueue(tasks.noop)
    wait_for_state(beside, State.SUCCESSFUL)
    assert fresh(row).status == State.SCHEDULED

    rows.update(run_after=row.enqueued_at)

    assert wait_for_state(row, State.SUCCESSFUL).attempts == 1


def test_a_tenant_sees_only_its_own_tasks(
    alias: str, enqueue: Any, start_worker: Any, fresh: Any
) -> None:
    row = enqueue(tasks.noop)
    from skipper_django.core.buckets import lane_of

    Task.objects.using(alias).filter(pk=row.pk).update(
        tenant="other", lane=lane_of("other", row.queue_name)
    )

    start_worker(drain=True).join()

    assert fresh(row).status == State.READY
