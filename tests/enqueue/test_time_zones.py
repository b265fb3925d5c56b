"""USE_TZ=False, as many projects still have it: the same moments, told in local time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from django.utils import timezone as timezone_of_project

from skipper_django.compat import TaskResultStatus
from skipper_django.models import Task
from skipper_django.testing import frozen_clock, run_ready
from tests.contract import tasks

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.case("R26")


@pytest.fixture(params=["Asia/Shanghai", "America/St_Johns"])
def naive(queue: str, settings: Settings, request: pytest.FixtureRequest) -> str:
    settings.USE_TZ = False
    settings.TIME_ZONE = request.param
    return queue


def local(moment: datetime) -> datetime:
    return timezone_of_project.make_naive(moment, timezone_of_project.get_default_timezone())


def test_every_time_of_a_result_is_naive_local_time(naive: str) -> None:
    with frozen_clock(database=naive) as clock:
        start = clock.now()
        result = tasks.other.enqueue(1)
        clock.advance(5)
        run_ready()
        result.refresh()

    assert result.enqueued_at == local(start)
    assert result.started_at == result.finished_at == local(start + timedelta(seconds=5))
    assert Task.objects.using(naive).get().enqueued_at == start


@pytest.mark.parametrize("is_naive", [True, False], ids=["naive", "aware"])
def test_run_after_means_the_same_moment_naive_or_aware(naive: str, is_naive: bool) -> None:
    with frozen_clock(database=naive) as clock:
        due = clock.now() + timedelta(hours=9)
        given = local(due) if is_naive else due.astimezone(timezone(timedelta(hours=-7)))
        result = tasks.other.using(run_after=given).enqueue(1)
        read = tasks.other.get_result(result.id)
        assert Task.objects.using(naive).get().run_after == due
        assert read.task.run_after == local(due)

        clock.advance(9 * 3600 - 1)
        assert run_ready() == 0
        clock.advance(1)
        assert run_ready() == 1

    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL


def test_a_retried_task_waits_its_delay(naive: str) -> None:
    with frozen_clock(database=naive) as clock:
        result = tasks.until_third.enqueue()
        runs = [run_ready()]
        for seconds in (9, 1, 9, 1):
            clock.advance(seconds)
            runs.append(run_ready())

    result.refresh()
    assert runs == [1, 0, 1, 0, 1]
    assert result.status == TaskResultStatus.SUCCESSFUL


def test_the_clock_of_the_database_is_read_right(naive: str) -> None:
    result = tasks.other.enqueue(1)

    assert result.enqueued_at is not None
    assert abs(result.enqueued_at - local(datetime.now(UTC))) < timedelta(minutes=1)
    assert tasks.other.get_result(result.id) == result


@pytest.mark.parametrize(
    "run_after",
    [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1000, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=timezone(timedelta(hours=14))),
    ],
    ids=str,
)
def test_far_moments_are_kept_exactly(queue: str, run_after: datetime) -> None:
    result = tasks.other.using(run_after=run_after).enqueue(1)

    row = Task.objects.using(queue).get()
    assert row.run_after == run_after
    is_due = run_after.year < 2000
    assert row.status == (Task.State.READY if is_due else Task.State.SCHEDULED)
    assert tasks.other.get_result(result.id).task.run_after == (None if is_due else run_after)
