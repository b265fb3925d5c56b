"""System checks of SKIPPER and TASKS: every setting that cannot work.

Errors are E, warnings W; each names the setting and the remedy. docs/checks.md lists them.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.core.checks.registry import registry
from django.utils.module_loading import import_string

from . import conf
from .compat import BaseTaskBackend, check_tasks, task_backends

BACKEND = "skipper_django.backend.SkipperBackend"
ENTRY_KEYS = ("BACKEND", "QUEUES", "OPTIONS")

# The framework's own check raises where a backend cannot be imported, and so ends all checks;
# check_task_backends() does its work, and reports.
registry.registered_checks.discard(check_tasks)


@register
def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """SKIPPER: unknown keys, wrong values, impossible combinations."""
    config, problems = conf.read()
    messages: list[CheckMessage] = [
        Error(str(problem), hint="Correct the SKIPPER setting.", id="skipper.E001")
        for problem in problems
    ]
    if isinstance(config.task_partitioning, str):
        messages += _check_gate(config.task_partitioning)
    return messages


@register
def check_task_backends(**kwargs: Any) -> list[CheckMessage]:
    """TASKS: every entry, and what its backend itself has to say."""
    entries = conf.raw_task_settings()
    if not isinstance(entries, Mapping):
        return [_wrong(f"TASKS is {type(entries).__name__}.", "Give a dict of backends by alias.")]
    messages: list[CheckMessage] = []
    for alias, params in entries.items():
        problems = list(_check_entry(alias, params))
        messages += problems or task_backends[alias].check(**kwargs)
    return messages


def _check_gate(path: str) -> Iterator[CheckMessage]:
    try:
        problem = "" if callable(import_string(path)) else "is not callable"
    except Exception as error:
        problem = f"cannot be imported: {error}"
    if problem:
        yield Error(
            f"SKIPPER['TASK_PARTITIONING'] is {path!r}, which {problem}",
            hint="Give the dotted path of a callable, True or False.",
            id="skipper.E001",
        )


def _check_entry(alias: str, params: Any) -> Iterator[CheckMessage]:
    if not isinstance(params, Mapping):
        yield _wrong(
            f"TASKS[{alias!r}] is {type(params).__name__}.", f"Give a dict with {_KEYS_TEXT}."
        )
        return
    path = params.get("BACKEND")
    hint = f"Give the dotted path of a backend, such as {BACKEND!r}."
    try:
        backend = import_string(str(path or ""))
    except Exception as error:
        yield _wrong(
            f"TASKS[{alias!r}]['BACKEND'] is {path!r}, which cannot be imported: {error}", hint
        )
        return
    if not (isinstance(backend, type) and issubclass(backend, BaseTaskBackend)):
        yield _wrong(f"TASKS[{alias!r}]['BACKEND'] is {path!r}, which is no task backend.", hint)
    elif conf.is_our_backend(backend):
        yield from _check_keys(alias, params)
        yield from _check_queues(alias, params.get("QUEUES", []))
        yield from _check_backend_options(alias, params.get("OPTIONS", {}))


def _check_keys(alias: str, params: Mapping[Any, Any]) -> Iterator[CheckMessage]:
    for key in params:
        if key not in ENTRY_KEYS:
            near = get_close_matches(str(key).upper(), ENTRY_KEYS, n=1)
            yield _wrong(
                f"TASKS[{alias!r}] has an unknown key {key!r}.",
                f"Did you mean {near[0]!r}?" if near else f"The keys are {_KEYS_TEXT}.",
            )


def _check_queues(alias: str, queues: Any) -> Iterator[CheckMessage]:
    if not isinstance(queues, (list, tuple, set, frozenset)):
        yield _wrong(
            f"TASKS[{alias!r}]['QUEUES'] is {queues!r}.",
            "Give a list of queue names; an empty one allows every name.",
        )
        return
    for name in queues:
        if not conf.is_queue_name(name):
            yield _wrong(
                f"TASKS[{alias!r}]['QUEUES'] has {name!r}.",
                f"Give text of 1 to {conf.MAX_QUEUE_NAME_LENGTH} characters.",
            )


def _check_backend_options(alias: str, options: Any) -> Iterator[CheckMessage]:
    if not isinstance(options, Mapping):
        yield _wrong(
            f"TASKS[{alias!r}]['OPTIONS'] is {type(options).__name__}.",
            "Give a dict with TENANT or DATABASE.",
        )
        return
    general = {str(problem) for problem in conf.read()[1]}
    for problem in conf.read(options)[1]:
        if str(problem) not in general:
            yield _wrong(f"TASKS[{alias!r}]: {problem}", "Correct the OPTIONS.")


def _wrong(message: str, hint: str) -> Error:
    return Error(message, hint=hint, id="skipper.E002")


_KEYS_TEXT = "BACKEND, QUEUES and OPTIONS"
