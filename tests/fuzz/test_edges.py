"""Anything thrown at every edge: a clear error or an answer, no 500, no stuck worker."""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connections
from django.test import Client
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from skipper_django import conf, doctor
from skipper_django.compat import (
    InvalidTask,
    TaskResult,
    TaskResultDoesNotExist,
    task_backends,
)
from skipper_django.core.config import Config, read_config
from skipper_django.core.diagnosis import Present, StoredRow, diagnose
from skipper_django.core.errors import InvalidSetting, SkipperError, UnknownTask
from skipper_django.core.payload import load_arguments
from skipper_django.lookup import resolve
from skipper_django.management.commands import skipper_cluster, skipper_doctor, skipper_worker
from skipper_django.models import Task
from skipper_django.store import repair
from skipper_django.store.clock import clock_of
from skipper_django.store.database import Database
from skipper_django.testing import run_ready
from tests.contract import tasks

FEW = settings(
    max_examples=40, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip

texts = st.text(max_size=40) | st.sampled_from(
    [
        "",
        "\0",
        "\ud800",
        "%",
        "%s",
        "'",
        '"',
        "' OR 1=1 --",
        "<script>",
        "../..",
        "a" * 300,
        "\u0661",
        "\U0001d7d9",
    ]
)
numbers = st.integers(-(2**70), 2**70)
scalars = st.none() | st.booleans() | numbers | st.floats() | texts | st.binary(max_size=8)
values = st.recursive(
    scalars | st.just(object()) | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts | numbers, inner, max_size=3)
        | st.tuples(inner)
        | st.sets(scalars, max_size=2)
    ),
    max_leaves=6,
)


# Enqueue and results


@FEW
@given(args=st.lists(values, max_size=3), kwargs=st.dictionaries(texts, values, max_size=2))
def test_any_arguments_are_stored_or_refused(
    queue: str, args: list[Any], kwargs: dict[str, Any]
) -> None:
    try:
        result = tasks.echo_values.enqueue(*args, **kwargs)
    except (SkipperError, InvalidTask):
        return
    again = task_backends["default"].get_result(result.id)
    assert (again.args, again.kwargs) == (result.args, result.kwargs)


@FEW
@given(
    options=st.fixed_dictionaries(
        {},
        optional={
            "priority": scalars,
            "queue_name": scalars,
            "task_id": scalars,
            "run_after": scalars | st.datetimes() | st.datetimes(timezones=st.timezones()),
        },
    )
)
def test_any_options_of_a_call_are_taken_or_refused(queue: str, options: dict[str, Any]) -> None:
    try:
        result = tasks.other.using(**options).enqueue(1)
    except (SkipperError, InvalidTask, TypeError):
        return
    assert task_backends["default"].get_result(result.id).id == result.id


@FEW
@given(result_id=texts)
def test_any_result_id_is_unknown_or_found(queue: str, result_id: str) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["default"].get_result(result_id)


@FEW
@given(name=texts | st.lists(texts, min_size=2, max_size=4).map(".".join))
@example("tests.contract.tasks..other")
def test_any_name_is_unknown(name: str) -> None:
    with pytest.raises(UnknownTask):
        resolve(name)


@FEW
@given(args=scalars, kwargs=scalars)
def test_any_stored_arguments_are_read_or_refused(args: Any, kwargs: Any) -> None:
    try:
        found = load_arguments(args, kwargs)
    except SkipperError:
        return
    assert [type(item) for item in found] == [list, dict]


# Rows

COLUMNS = (*repair.NUMBERS, *repair.MOMENTS, *repair.TEXTS, *repair.PAYLOADS, "worker_ids")
stored = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from(range(-1, 8))
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.binary(max_size=8)
    | st.datetimes().map(lambda moment: moment.isoformat(" ", "microseconds"))
)


def edited(columns: dict[str, Any]) -> int:
    """A row of SQLite, which keeps anything anywhere, with these columns."""
    row = Task.objects.get(task_id=tasks.other.enqueue("x").id)
    with connections["default"].cursor() as cursor:
        for name, value in columns.items():
            try:
                cursor.execute(
                    f"UPDATE skipper_scheduler_tasks SET {name} = %s WHERE id = %s",  # noqa: S608
                    [value, row.pk],
                )
            except DatabaseError:
                continue  # a rule of the table
    return row.pk


def bad_rows(repairs: bool) -> list[doctor.BadTask]:
    report = doctor.Report("default")
    database = Database("default")
    doctor.check_rows(database, conf.load(), clock_of("default"), repairs, report)
    return report.tasks


@pytest.fixture
def root(transactional_db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


@pytest.mark.django_db(transaction=True)
@FEW
@example(columns={"bucket": 0, "slot": 0, "tenant": "1"})
@example(columns={"queue_name": "b", "priority": 99, "ord": -99})
@given(columns=st.dictionaries(st.sampled_from(COLUMNS), stored, max_size=6))
def test_any_row_is_shown_run_and_mended(root: Client, columns: dict[str, Any]) -> None:
    Task.objects.all().delete()
    pk = edited(columns)
    good = tasks.other.enqueue("good")

    for path in ("", f"{pk}/change/"):
        assert root.get(f"/admin/skipper_django/task/{path}").status_code == 200
    row = Task.objects.defer("task_id").get(pk=pk)
    if isinstance(row.task_id, str):
        found = task_backends["default"].get_result(good.id)
        assert isinstance(found, TaskResult)
    run_ready()
    good.refresh()
    assert good.return_value == "good"
    bad_rows(repairs=True)
    assert bad_rows(repairs=False) == []


@FEW
@given(columns=st.fixed_dictionaries(dict.fromkeys(COLUMNS, scalars)))
def test_any_row_has_a_diagnosis(columns: dict[str, Any]) -> None:
    moments = {
        name: value if isinstance(value, datetime) else None
        for name, value in columns.items()
        if name in repair.MOMENTS
    }
    now = datetime.fromisoformat("2026-01-01 00:00:00+00:00")

    diagnosis = diagnose(
        StoredRow(1, {**columns, **moments}), Present(now, now + timedelta(hours=1))
    )

    assert diagnosis.faults
    assert diagnosis.changes


# Pages

KEYS = st.sampled_from(
    ["q", "p", "o", "all", "e", "status", "queue", "status__exact", "args__contains", "id",
     "pk__in",
     "_popup", "_to_field", "_facets", "page", "tenant", "lease_token__gt"]
)  # fmt: skip
queries = st.dictionaries(KEYS | texts, texts | numbers.map(str), max_size=4)
storable = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.integers().map(str)


@pytest.mark.django_db
@FEW
@given(query=queries)
@example({"p": "\u0663"})
@example({"o": "1.-2.x.99999999999999999999"})
@example({"status": "\u0663"})
@example({"queue": str(2**70)})
def test_any_parameters_of_the_list_are_answered(root: Client, query: dict[str, str]) -> None:
    answer = root.get("/admin/skipper_django/task/", _encodable(query))

    assert answer.status_code in (200, 302, 400)
    if answer.status_code == 400:
        assert b"Traceback" not in answer.content


@pytest.mark.django_db
@FEW
@given(key=storable, page=st.sampled_from(["change", "history", "delete"]))
def test_any_key_of_a_page_is_answered(root: Client, key: str, page: str) -> None:
    path = f"/admin/skipper_django/task/{quote(key, safe='')}/{page}/"

    assert root.get(path).status_code in (200, 301, 302, 403, 404, 400)


@pytest.mark.django_db
@FEW
@given(query=queries, method=st.sampled_from(["get", "post", "put", "delete", "options"]))
def test_the_json_tells_a_stranger_nothing(
    root: Client, query: dict[str, str], method: str
) -> None:
    for client, allowed in ((Client(), {403, 405}), (root, {200, 405})):
        answer = getattr(client, method)("/skipper/admin/cluster", _encodable(query))
        assert answer.status_code in allowed
        assert b"Traceback" not in answer.content


@pytest.mark.django_db
@FEW
@given(query=queries)
def test_the_cluster_page_answers_any_parameters(root: Client, query: dict[str, str]) -> None:
    assert root.get("/admin/skipper_django/member/", _encodable(query)).status_code == 200


def _encodable(query: dict[str, str]) -> dict[str, str]:
    """A URL is bytes: what has no UTF-8 form cannot be sent."""
    return {
        key.encode("utf-8", "replace").decode(): value.encode("utf-8", "replace").decode()
        for key, value in query.items()
    }


# Settings and command lines


@FEW
@given(
    values=st.dictionaries(
        st.sampled_from([name.upper() for name in Config.__dataclass_fields__]) | texts | scalars,
        values | st.timedeltas(),
        max_size=4,
    )
    | values
)
def test_any_settings_are_read_and_what_is_wrong_is_named(values: Any) -> None:
    config, problems = read_config(values)

    assert isinstance(config, Config)
    assert {type(problem) for problem in problems} <= {InvalidSetting}
    assert all(str(problem) for problem in problems)


OPTIONS = [
    "--queue", "--concurrency", "--processes", "--drain", "--tenant", "--database",
    "--member-name", "--shutdown-timeout", "--metrics-port", "--metrics-address", "--json",
    "--watch", "--repair",
]  # fmt: skip


@FEW
@given(
    command=st.sampled_from([skipper_cluster, skipper_doctor, skipper_worker]),
    line=st.lists(st.sampled_from(OPTIONS) | texts | numbers.map(str), max_size=5),
)
def test_any_command_line_is_parsed_or_refused(command: Any, line: list[str]) -> None:
    parser = command.Command(stderr=io.StringIO()).create_parser("manage.py", "command")
    assert isinstance(command.Command(), BaseCommand)
    parser.print_help = lambda *args: None
    with suppress(CommandError, SystemExit):
        parser.parse_args(line)


@pytest.mark.django_db
@FEW
@given(
    command=st.sampled_from(["skipper_cluster", "skipper_doctor", "skipper_worker"]),
    database=texts,
)
def test_any_database_that_is_not_there_is_a_command_error(command: str, database: str) -> None:
    with pytest.raises(CommandError):
        call_command(command, database=database, stdout=io.StringIO())


@pytest.mark.django_db
@FEW
@given(tenant=texts)
def test_any_tenant_is_shown_or_refused(tenant: str) -> None:
    with suppress(CommandError):
        call_command("skipper_cluster", tenant=tenant, stdout=io.StringIO())
