"""SKIPPER and TASKS: what cannot work is reported by key, with a remedy; nothing is raised."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core import checks
from django.core.checks import CheckMessage
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from skipper_django.core.config import KEYS
from tests.contract import tasks

# The checks of models ask each database what it is, once in a process.
pytestmark = pytest.mark.django_db(databases="__all__")

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

OURS = "skipper_django.backend.SkipperBackend"
DUMMY = tasks.framework.__name__ + ".backends.dummy.DummyBackend"


def problems(*ids: str) -> list[CheckMessage]:
    return [m for m in checks.run_checks() if m.id in ids and not m.is_silenced()]


def said(message: CheckMessage) -> str:
    return f"{message.msg} {message.hint}"


def no_callable() -> None:
    pass


def test_the_settings_of_the_tests_are_clean() -> None:
    assert not [m for m in checks.run_checks() if str(m.id).startswith("skipper")]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ({"TENNANT": "a"}, ["TENNANT", "'TENANT'"]),
        ({"tenant": "a"}, ["'tenant'", "'TENANT'"]),
        ({"HEARTBEAT_INTERVAL": 5}, ["'CLUSTER_HEARTBEAT_INTERVAL'"]),
        ({"COLOUR": "red"}, ["COLOUR", *KEYS]),
        ({5: 5}, ["5", "TENANT"]),
        ({"TENANT": ""}, ["'TENANT'", "1 to 100"]),
        ({"TENANT": "x" * 101}, ["'TENANT'", "1 to 100"]),
        ({"TENANT": "\ud800"}, ["'TENANT'"]),
        ({"DATABASE": None}, ["'DATABASE'"]),
        ({"CLUSTER_MEMBERSHIP_MANAGER": "zookeeper"}, ["'database' or 'single'"]),
        ({"CLUSTER_MEMBER_NAME": "two\nlines"}, ["'CLUSTER_MEMBER_NAME'"]),
        ({"CLUSTER_HEARTBEAT_INTERVAL": "10"}, ["'CLUSTER_HEARTBEAT_INTERVAL'", "timedelta"]),
        ({"CLUSTER_LIVENESS_WINDOW": 29}, ["29 s", "3 times"]),
        ({"TASK_PARTITIONING": 1}, ["'TASK_PARTITIONING'", "dotted path"]),
        ({"TASK_PARTITIONING": "tests.gone.gate"}, ["tests.gone.gate", "imported"]),
        ({"TASK_PARTITIONING": f"{__name__}.OURS"}, ["OURS", "callable"]),
        ({"LEASE_DURATION": 0}, ["'LEASE_DURATION'"]),
        ({"STEAL_AFTER": -1}, ["'STEAL_AFTER'"]),
        ({"RETENTION": float("inf")}, ["'RETENTION'"]),
        ({"MAX_PAYLOAD_BYTES": 0}, ["'MAX_PAYLOAD_BYTES'"]),
        ({"MAX_PAYLOAD_BYTES": 1.5}, ["'MAX_PAYLOAD_BYTES'"]),
        ({"TABLE_PREFIX": "a-b"}, ["'TABLE_PREFIX'"]),
        ({"TABLE_PREFIX": "x" * 16}, ["'TABLE_PREFIX'", "1 to 15"]),
        ([("TENANT", "a")], ["list", "dict"]),
        ("TENANT", ["str", "dict"]),
    ],
    ids=str,
)
@pytest.mark.case("R21")
def test_a_wrong_setting_is_an_error_that_names_it(
    settings: Settings, values: Any, texts: list[str]
) -> None:
    settings.SKIPPER = values

    (message,) = problems("skipper.E001")

    assert message.level == checks.ERROR
    for text in texts:
        assert text in said(message)


def test_every_wrong_setting_is_named_at_once(settings: Settings) -> None:
    settings.SKIPPER = {"TENANT": 5, "RETENTION": "long", "COLOR": 1}

    assert len(problems("skipper.E001")) == 3


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"TENANT": "mandant-ä", "DATABASE": "default", "TABLE_PREFIX": "a_1"},
        {"CLUSTER_HEARTBEAT_INTERVAL": timedelta(seconds=2), "CLUSTER_LIVENESS_WINDOW": 6},
        {"TASK_PARTITIONING": f"{__name__}.no_callable", "STEAL_AFTER": None},
        {"TASK_PARTITIONING": False, "CLUSTER_MEMBERSHIP_MANAGER": "single"},
    ],
    ids=str,
)
def test_settings_that_work_are_clean(settings: Settings, values: dict[str, Any]) -> None:
    settings.SKIPPER = values

    assert not [m for m in checks.run_checks() if str(m.id).startswith("skipper.E")]


@pytest.mark.parametrize(
    ("entry", "texts"),
    [
        ({"BACKEND": "skipper_django.backend.SkiperBackend"}, ["SkiperBackend", OURS]),
        ({"BACKEND": "skiper_django.backend.SkipperBackend"}, ["skiper_django", OURS]),
        ({"BACKEND": ""}, ["''", OURS]),
        ({"BACKEND": 5}, ["5", OURS]),
        ({"BACKEND": None}, ["None", OURS]),
        ({"BACKENDS": OURS}, ["None", OURS]),
        ({}, ["None", OURS]),
        ({"BACKEND": "os.path.join"}, ["no task backend", OURS]),
        ({"BACKEND": "skipper_django.backend.Call"}, ["no task backend", OURS]),
        (OURS, ["str", "BACKEND"]),
        (None, ["NoneType", "BACKEND"]),
        ({"BACKEND": OURS, "QUEUE": ["mail"]}, ["'QUEUE'", "'QUEUES'"]),
        ({"BACKEND": OURS, "TENANT": "a"}, ["'TENANT'", "OPTIONS"]),
        ({"BACKEND": OURS, "QUEUES": "mail"}, ["'mail'", "list"]),
        ({"BACKEND": OURS, "QUEUES": None}, ["None", "list"]),
        ({"BACKEND": OURS, "QUEUES": [""]}, ["''", "1 to 100"]),
        ({"BACKEND": OURS, "QUEUES": ["a", 5]}, ["5", "1 to 100"]),
        ({"BACKEND": OURS, "OPTIONS": ["TENANT"]}, ["list", "dict"]),
        ({"BACKEND": OURS, "OPTIONS": None}, ["NoneType", "dict"]),
        ({"BACKEND": OURS, "OPTIONS": {"TENNANT": "a"}}, ["'TENNANT'", "'TENANT'"]),
        ({"BACKEND": OURS, "OPTIONS": {"RETENTION": 5}}, ["'RETENTION'", "SKIPPER"]),
        ({"BACKEND": OURS, "OPTIONS": {"TENANT": ""}}, ["'TENANT'", "1 to 100"]),
        ({"BACKEND": OURS, "OPTIONS": {"TENANT": ["a"]}}, ["'TENANT'", "1 to 100"]),
    ],
    ids=str,
)
def test_a_wrong_entry_of_tasks_is_an_error_that_names_it(
    settings: Settings, entry: Any, texts: list[str]
) -> None:
    settings.TASKS = {"default": {"BACKEND": OURS}, "second": entry}

    (message,) = problems("skipper.E002")

    assert message.level == checks.ERROR
    assert "'second'" in said(message)
    for text in texts:
        assert text in said(message)


@pytest.mark.parametrize("value", [[OURS], OURS, 5], ids=str)
def test_tasks_that_are_no_dict_are_an_error(settings: Settings, value: Any) -> None:
    settings.TASKS = value

    (message,) = problems("skipper.E002")

    assert type(value).__name__ in said(message)


def test_the_command_reports_a_misspelt_backend(settings: Settings) -> None:
    settings.TASKS = {"default": {"BACKEND": "skipper_django.backend.SkiperBackend"}}

    with pytest.raises(SystemCheckError, match=r"skipper\.E002"):
        call_command("check")


@pytest.mark.parametrize(
    "entry",
    [
        {"BACKEND": OURS, "QUEUES": ["mail", "ä"], "OPTIONS": {"TENANT": "a"}},
        {"BACKEND": OURS, "QUEUES": ("mail",), "OPTIONS": {}},
        {"BACKEND": DUMMY, "ANYTHING": 1, "OPTIONS": {"DATABASE": "elsewhere", "TENNANT": 1}},
        {"BACKEND": "skipper_django.testing.EagerBackend", "QUEUES": []},
        {"BACKEND": f"{__name__}.Subclass"},
    ],
    ids=str,
)
def test_an_entry_that_works_is_clean(settings: Settings, entry: dict[str, Any]) -> None:
    settings.TASKS = {"default": entry}

    assert not [m for m in checks.run_checks() if str(m.id).startswith("skipper")]


def test_what_a_backend_itself_reports_is_heard(settings: Settings) -> None:
    settings.TASKS = {"default": {"BACKEND": f"{__name__}.Complaining"}}

    assert [m.msg for m in problems("tests.W001")] == ["complaint"]


def __getattr__(name: str) -> Any:
    from skipper_django.backend import SkipperBackend

    class Complaining(SkipperBackend):
        def check(self, **kwargs: Any) -> list[CheckMessage]:
            return [checks.Warning("complaint", id="tests.W001")]

    if name == "Complaining":
        return Complaining
    if name == "Subclass":
        return SkipperBackend
    raise AttributeError(name)
