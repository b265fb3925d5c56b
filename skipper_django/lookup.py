"""The way from a stored name back to the function: only to what declares itself a task.

Names come from rows, which somebody may forge. A name leads to a task definition or to nothing; and
for a name whose module is not loaded, only a module is imported that belongs to the project or to
an installed app, and whose source, read first, makes a task of a function of that name.
"""

import ast
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from importlib import import_module
from typing import Any

from django.apps import apps

from . import conf
from .compat import Task
from .core.errors import UnknownTask
from .registry import SkipperTask, definition_of


def resolve(name: str) -> Task:
    """The definition of that name. Raises UnknownTask."""
    known = definition_of(name)
    if known is not None:
        return known
    module_name, _, attribute = name.rpartition(".")
    if not module_name or not all(part.isidentifier() for part in name.split(".")):
        raise UnknownTask(f"{name!r} is not the dotted path of a task")
    module = sys.modules.get(module_name) or _import(module_name, attribute)
    # The import has registered what it decorated with our class; plain @task it has not. Not
    # getattr(): a module may have a __getattr__ that imports.
    found = definition_of(name) or getattr(module, "__dict__", {}).get(attribute)
    if not isinstance(found, Task):
        raise UnknownTask(_no_task(name))
    return found


def _import(module_name: str, attribute: str) -> Any:
    name = f"{module_name}.{attribute}"
    if not _may_import(module_name):
        raise UnknownTask(
            f"{name!r} lies outside the project: add its app to INSTALLED_APPS to run its tasks"
        )
    try:
        if not _declares(module_name, attribute):
            raise UnknownTask(_no_task(name))
        return import_module(module_name)
    except UnknownTask:
        raise
    except (Exception, SystemExit) as error:  # a script may end itself at its import
        raise UnknownTask(f"{name!r} cannot be imported: {error!r}") from error


def _no_task(name: str) -> str:
    return f"{name!r} is no task here: decorate it with @task, or deploy its code to this worker"


def _may_import(module_name: str) -> bool:
    package, _, _ = module_name.partition(".")
    if "__main__" in module_name.split("."):
        return False  # it is there to run something
    if any(f"{module_name}.".startswith(f"{app.name}.") for app in apps.get_app_configs()):
        return True
    return package in conf.project_packages() or _lies_beside_the_project(package)


def _lies_beside_the_project(package: str) -> bool:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    places = [*(spec.submodule_search_locations or []), spec.origin or ""] if spec else []
    return any(os.path.dirname(place) == conf.project_directory() for place in places if place)


def _declares(module_name: str, attribute: str) -> bool:
    """Does the module, judged by its source, decorate or wrap a function of that name?

    Whatever else a module does at its import, it is not run for a name that is no task of it.
    """
    spec = importlib.util.find_spec(module_name)
    loader: Any = spec.loader if spec else None
    source = loader.get_source(module_name) if hasattr(loader, "get_source") else None
    if source is None:
        return True  # missing, which the import will tell, or compiled
    return any(
        (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.name == attribute
            and bool(node.decorator_list)
        )
        or (
            isinstance(node, ast.Call)
            and any(isinstance(arg, ast.Name) and arg.id == attribute for arg in _passed(node))
        )
        for node in ast.walk(ast.parse(source))
    )


def _passed(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def stored_task(
    name: str, *, queue_name: str, priority: int, backend: str, run_after: datetime | None
) -> Task:
    """The task of a stored row, not validated anew: queues and code may have changed since."""
    try:
        definition = resolve(name)
    except UnknownTask:
        definition = _unvalidated(func=_placeholder(name), takes_context=False)
    known = {field.name: getattr(definition, field.name) for field in fields(definition)}
    return _unvalidated(
        **{
            **known,
            "queue_name": queue_name,
            "priority": priority,
            "backend": backend,
            "run_after": run_after,
        }
    )


def _unvalidated(**values: Any) -> SkipperTask:
    task = object.__new__(SkipperTask)
    for field in fields(SkipperTask):
        object.__setattr__(task, field.name, values.get(field.name, field.default))
    return task


def _placeholder(name: str) -> Callable[..., Any]:
    """Stands for a function whose code is gone; it can be shown, not called."""

    def missing(*args: Any, **kwargs: Any) -> Any:
        raise UnknownTask(f"the code of {name!r} cannot be imported here")

    missing.__module__, _, missing.__qualname__ = name.rpartition(".")
    missing.__name__ = missing.__qualname__
    return missing
