"""TASKS and SKIPPER: several entries side by side, changes in tests, no settings at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from skipper_django import conf
from skipper_django.compat import InvalidTask, TaskResultDoesNotExist, task_backends
from skipper_django.core.errors import PayloadTooLarge
from skipper_django.models import Task
from skipper_django.testing import run_ready
from tests.contract import tasks

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

OURS = "skipper_django.backend.SkipperBackend"
PROJECT = Path(__file__).parents[2]


def python(program: str, **environment: str) -> str:
    """What the program prints, in a process of its own, without settings if none are named."""
    inherited = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=PROJECT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_entries_with_other_tenants_live_side_by_side(queue: str, settings: Settings) -> None:
    settings.TASKS = {
        "default": {"BACKEND": OURS, "QUEUES": []},
        "mail": {"BACKEND": OURS, "QUEUES": ["mail"], "OPTIONS": {"TENANT": "post"}},
    }
    own = tasks.rich.using(task_id="same")

    ours = own.enqueue("ours")
    theirs = own.using(backend="mail").enqueue("theirs")

    assert (ours.backend, theirs.backend) == ("default", "mail")
    assert set(Task.objects.using(queue).values_list("tenant", "task_id", "backend")) == {
        ("default", "same", "default"),
        ("post", "same", "mail"),
    }
    assert task_backends["default"].get_result("same").args == ["ours"]
    assert task_backends["mail"].get_result("same").args == ["theirs"]
    assert run_ready() == 1
    assert run_ready(config=conf.load({"TENANT": "post"})) == 1
    theirs.refresh()
    assert theirs.return_value == "theirs"
    with pytest.raises(InvalidTask):
        tasks.rich.using(backend="mail", queue_name="other")


def test_tenants_do_not_see_each_other(queue: str, settings: Settings) -> None:
    result = tasks.other.enqueue(1)
    settings.SKIPPER = {**settings.SKIPPER, "TENANT": "somebody else"}

    with pytest.raises(TaskResultDoesNotExist):
        tasks.other.get_result(result.id)
    assert run_ready() == 0


@pytest.mark.django_db(databases=["default", "postgresql"])
def test_entries_with_other_databases_live_side_by_side(settings: Settings) -> None:
    if "postgresql" not in settings.DATABASES:
        pytest.skip("needs a second database")
    options = {"DATABASE": "postgresql"}
    settings.TASKS = {
        "default": {"BACKEND": OURS, "QUEUES": []},
        "far": {"BACKEND": OURS, "QUEUES": [], "OPTIONS": options},
    }

    tasks.other.enqueue("near")
    far = tasks.other.using(backend="far").enqueue("far")

    assert [row.args for row in Task.objects.using("default")] == ['["near"]']
    assert [row.args for row in Task.objects.using("postgresql")] == ['["far"]']
    assert run_ready(config=conf.load(options)) == 1
    far.refresh()
    assert far.return_value == "far"


def test_overridden_settings_take_effect_and_go_again(queue: str) -> None:
    limited = {"DATABASE": queue, "MAX_PAYLOAD_BYTES": 20, "TENANT": "limited"}
    with override_settings(SKIPPER=limited):
        inside = tasks.other.enqueue(1)
        with pytest.raises(PayloadTooLarge):
            tasks.other.enqueue("x" * 20)
    outside = tasks.other.enqueue("x" * 20)

    tenants = dict(Task.objects.using(queue).values_list("task_id", "tenant"))
    assert tenants == {inside.id: "limited", outside.id: "default"}
    one_queue = {"default": {"BACKEND": OURS, "QUEUES": ["mail"]}}
    with override_settings(TASKS=one_queue), pytest.raises(InvalidTask):
        tasks.other.using(priority=1)
    assert tasks.other.using(priority=1).priority == 1


def test_the_package_imports_before_any_settings_exist() -> None:
    program = """
import skipper_django
from skipper_django import (
    SkipperError, SkipperTask, enqueue_many, exponential, fixed, task,
)
import skipper_django.backend, skipper_django.compat, skipper_django.conf
import skipper_django.signals, skipper_django.registry, skipper_django.results
from django.conf import settings
print(settings.configured, sorted(skipper_django.__all__))
"""

    assert python(program).startswith("False ['SkipperError'")


def test_a_task_module_may_be_imported_while_the_apps_load() -> None:
    program = """
from django.conf import settings
settings.configure(
    TASKS={"default": {"BACKEND": "skipper_django.backend.SkipperBackend", "QUEUES": []}}
)
from skipper_django import task
import tests.tasks
print(tests.tasks.echo.module_path)
"""

    assert python(program).strip() == "tests.tasks.echo"


@pytest.mark.case("R6")
@pytest.mark.parametrize("decorator", ["skipper_django", tasks.framework.__name__])
def test_a_script_cannot_declare_a_task(decorator: str) -> None:
    program = f"""
import django
django.setup()
from {decorator} import task
try:
    @task
    def own():
        pass
except Exception as error:
    print(type(error).__name__, error)
"""

    said = python(program, DJANGO_SETTINGS_MODULE="tests.settings")

    assert said.startswith("InvalidTask")
    assert "move it into a module" in said
