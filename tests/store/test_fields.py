"""Columns whose values mean the same on every database."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import override_settings

from skipper_django.models import Task
from skipper_django.store.database import Database
from tests.store.support import NOW, all_rows, default_connection, read, row, save, task_ids

pytestmark = pytest.mark.django_db(transaction=True)

BERLIN = ZoneInfo("Europe/Berlin")
MOMENTS = [
    NOW,
    datetime(2026, 7, 1, 12, 0, 0, 1, UTC),
    datetime(2026, 7, 1, 12, 0, 0, 999_999, UTC),
    datetime(2026, 7, 1, 12, 0, 0, 100_000, UTC),
    datetime(1971, 1, 1, tzinfo=UTC),
    datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC),
    datetime(9999, 12, 30, 23, 59, 59, 999_999, UTC),
    # The hour that comes twice, and the one that does not come at all.
    datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=0),
    datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN),
    datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=-11, minutes=-30))),
]
# Python calls no two moments of different zones equal where one is in an ambiguous hour.
INSTANTS = [moment.astimezone(UTC) for moment in MOMENTS]
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns"]


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("zone", ZONES)
def test_a_moment_comes_back_exactly_whatever_the_settings_say(
    database: Database, use_tz: bool, zone: str
) -> None:
    with (
        override_settings(USE_TZ=use_tz, TIME_ZONE=zone),
        default_connection(database.alias) as fresh,
    ):
        save(fresh, *(row(run_after=moment) for moment in MOMENTS))

        found = [task.run_after for task in all_rows(fresh)]

    assert found == INSTANTS
    assert {moment.utcoffset() for moment in found} == {timedelta(0)}


@pytest.mark.parametrize("zone", ZONES)
def test_a_moment_comes_back_exactly_whatever_the_zone_of_the_connection(
    database: Database, zone: str
) -> None:
    with default_connection(database.alias, TIME_ZONE=zone) as fresh:
        save(fresh, *(row(run_after=moment) for moment in MOMENTS))

        assert [task.run_after for task in all_rows(fresh)] == INSTANTS

    assert [task.run_after for task in all_rows(database)] == INSTANTS


@pytest.mark.parametrize("use_tz", [True, False])
def test_moments_compare_and_sort_as_instants(database: Database, use_tz: bool) -> None:
    with (
        override_settings(USE_TZ=use_tz, TIME_ZONE="Europe/Berlin"),
        default_connection(database.alias) as fresh,
    ):
        save(fresh, *(row(run_after=moment) for moment in MOMENTS))
        rows = Task.objects.using(fresh.alias)

        in_order = [task.run_after for task in rows.order_by("run_after", "id")]
        assert in_order == sorted(INSTANTS)
        for moment, instant in zip(MOMENTS, INSTANTS, strict=True):
            expected = sum(other < instant for other in INSTANTS)
            assert rows.filter(run_after__lt=moment).count() == expected
            assert rows.filter(run_after=moment).exists()
        assert rows.filter(run_after__in=MOMENTS).count() == len(MOMENTS)


def test_no_moment_is_null(database: Database) -> None:
    save(database, row("mine"))

    assert read(database, "mine").started_at is None
    assert Task.objects.using(database.alias).filter(started_at__isnull=True).exists()


@pytest.mark.parametrize(
    "value", [date(2026, 7, 1), "2026-07-01T12:00:00+00:00", "2026-07-01 12:00:00.000000+00:00"]
)
def test_a_date_or_text_filters_like_the_moment_it_names(database: Database, value: Any) -> None:
    save(
        database,
        row("before", run_after=NOW - timedelta(days=3)),
        row("after", run_after=NOW + timedelta(days=3)),
    )

    found = Task.objects.using(database.alias).filter(run_after__gte=value)

    assert task_ids(list(found)) == ["after"]


def test_text_of_any_length_and_alphabet_comes_back(database: Database) -> None:
    texts = ["", "x" * 70_000, "\U0001f680" * 100_000, "a \n\t\u2028 '\"\\%s", "\x01\x7f\ufffd"]
    save(database, *(row(args=text, result=text) for text in texts))

    assert [task.args for task in all_rows(database)] == texts
    assert [task.result for task in all_rows(database)] == texts


@pytest.mark.parametrize("column", ["tenant", "queue_name", "name", "backend"])
def test_names_are_compared_byte_by_byte(database: Database, column: str) -> None:
    values = ["a", "A", "a ", "\xe4", "a\u0308", "\U0001f680", "\U0001f681"]
    save(database, *(row(**{column: value}) for value in values))

    for value in values:
        found = Task.objects.using(database.alias).filter(**{column: value})
        assert [getattr(task, column) for task in found] == [value]


def test_names_of_full_length_fit(database: Database) -> None:
    rocket = "\U0001f680"
    save(
        database,
        row(rocket * 255, tenant=rocket * 100, queue_name=rocket * 100, name=rocket * 255),
    )

    (stored,) = all_rows(database)
    assert (stored.tenant, stored.name) == (rocket * 100, rocket * 255)
