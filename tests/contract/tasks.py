"""Tasks of the contract tests: one for each thing the framework promises."""

from __future__ import annotations

import random
from importlib import import_module
from typing import Any

import django
from django.db import connections

from skipper_django import fixed, task

framework = import_module("django.tasks" if django.VERSION >= (6, 0) else "django_tasks")
plain_task: Any = framework.task
"""The decorator that Django, or the backport, brings itself."""

calls: list[Any] = []
"""What the tasks of a test did; the test clears it."""


@plain_task
def plain(value: Any = None) -> Any:
    return value


@task(priority=7, queue_name="mail", max_attempts=4, backoff=[1, 2], timeout=30)
def rich(value: Any = None) -> Any:
    return value


@task
def other(value: Any = None) -> Any:
    return value


@task(takes_context=True, max_attempts=3, backoff=fixed(10))
def until_third(context: Any) -> int:
    if context.attempt < 3:
        raise OSError(f"attempt {context.attempt}")
    return int(context.attempt)


@task
def mutate(items: list[Any], table: dict[str, Any]) -> None:
    calls.append((list(items), dict(table)))
    items.append("more")
    table["more"] = 1


@task
def returns(kind: str) -> Any:
    return {
        "nan": float("nan"),
        "infinity": {"score": float("inf")},
        "object": object(),
        "set": {1},
        "surrogate": "\ud800",
        "tuple": (1, (2, 3)),
        "none": None,
        "big": "x" * 2_000_000,
        "random": random.__name__,
    }[kind]


@task
def raises(kind: str) -> None:
    raise {"exit": SystemExit(3), "value": ValueError("bad value"), "base": BaseError("base")}[kind]


class BaseError(BaseException):
    pass


@task
def breaks_the_transaction(alias: str) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT * FROM a_table_that_is_not_there")


@task
def enqueues(value: Any) -> str:
    return str(other.enqueue(value).id)


@task
async def awaited(value: Any) -> Any:
    return value


@task
async def awaited_badly() -> None:
    raise RuntimeError("awaited no")


@task
def echo_values(*args: Any, **kwargs: Any) -> Any:
    return [args, kwargs]


@task
def repeat(text: str, times: int) -> str:
    return text * times


@task
def raises_text(text: str) -> None:
    raise ValueError(text)


@task
def writes_and_fails(alias: str) -> None:
    from django.contrib.auth.models import Group

    Group.objects.using(alias).create(name="written")
    raise ValueError("after writing")


@task
def saves_twice(alias: str) -> None:
    from django.contrib.auth.models import Group

    Group.objects.using(alias).create(name="twice")
    Group.objects.using(alias).create(name="twice")


@task
def fails_once() -> None:
    raise ValueError("once")


@task(max_attempts=3, backoff=0)
def fails_thrice() -> None:
    raise ValueError("again")
