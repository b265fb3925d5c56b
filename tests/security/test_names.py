"""A worker runs task functions and nothing else, whatever name somebody writes into a row."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import skipper_django
from skipper_django.compat import Task as TaskDefinition
from skipper_django.core.errors import UnknownTask
from skipper_django.lookup import resolve
from skipper_django.models import Task
from skipper_django.testing import run_ready
from tests.contract import tasks

FORGED = [
    "os.system",
    "os.path.join",
    "subprocess.call",
    "builtins.exec",
    "django.core.management.call_command",
    "django.core.management.commands.flush.Command",
    "django.contrib.auth.models.User.objects.all",
    "django.contrib.auth.management.commands.changepassword.Command",
    "skipper_django.testing.run_ready",
    "skipper_django.lookup.resolve",
    "tests.settings.SECRET_KEY",
    "tests.contract.tasks.random",
    "tests.contract.tasks.other.func",
    "tests.contract.tasks.calls.clear",
    "tests.contract.tasks.__builtins__",
    "tests.security.forged.script.main",
    "tests.security.forged.script.no_such_name",
    "tests.security.forged.__main__.run",
    "tests.security.forged.ends.never",
    "tests.security.forged.fine.plain",
    "manage.main",
    "this.s",
    "antigravity.webbrowser",
    "...",
    ".system",
    "",
    "os;system",
    "__import__('os').system",
    "../../etc/passwd",
    "tests.contract.tasks.other ",
    "tests.contract.tasks.\0other",
]


@pytest.fixture(autouse=True)
def no_mark() -> Iterator[None]:
    os.environ.pop("SKIPPER_TEST_FORGED", None)
    loaded = set(sys.modules)
    yield
    assert "SKIPPER_TEST_FORGED" not in os.environ
    for name in set(sys.modules) - loaded:
        if name.startswith("tests.security.forged."):
            del sys.modules[name]


@pytest.mark.case("R29")
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_name_leads_nowhere_and_runs_nothing(name: str) -> None:
    before = set(sys.modules)

    with pytest.raises(UnknownTask):
        resolve(name)

    imported = set(sys.modules) - before
    # The packages above a module of the project or an app may be; its source is read, not run.
    above = {".".join(name.split(".")[:length]) for length in range(1, name.count("."))}
    assert imported <= {*above, "tests.security.forged.ends"}


@pytest.mark.case("R29")
@pytest.mark.django_db(transaction=True)
def test_a_worker_parks_rows_of_forged_names_and_runs_the_others(queue: str) -> None:
    names = [name for name in FORGED if "\0" not in name]
    for name in names:
        row = Task.objects.using(queue).get(task_id=tasks.other.enqueue("x").id)
        Task.objects.using(queue).filter(pk=row.pk).update(name=name, args='["true"]', kwargs="{}")
    good = tasks.other.enqueue("good")

    run_ready()

    good.refresh()
    assert good.return_value == "good"
    forged = Task.objects.using(queue).filter(name__in=names)
    assert set(forged.values_list("status", "reason")) == {(4, "unknown_task")}


@pytest.mark.parametrize(("name", "answer"), [("late", "ran"), ("wrapped", "wrapped")])
def test_a_task_of_a_module_that_nobody_has_imported_is_found(name: str, answer: str) -> None:
    found = resolve(f"tests.security.forged.fine.{name}")

    assert isinstance(found, TaskDefinition)
    assert found.func() == answer


def test_a_module_is_judged_by_its_source_before_it_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test of the test: without that look the script would have been run."""
    from skipper_django import lookup

    monkeypatch.setattr(lookup, "_declares", lambda *names: True)
    with pytest.raises(UnknownTask):
        resolve("tests.security.forged.script.main")

    assert os.environ.pop("SKIPPER_TEST_FORGED") == "the script was run"


def test_nothing_in_the_package_unpickles_or_evaluates() -> None:
    forbidden = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "yaml"}
    for path in Path(skipper_django.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            assert not {module.partition(".")[0] for module in modules} & forbidden, path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), path
