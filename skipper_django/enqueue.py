"""Add tasks in the caller's transaction: validate, serialise, insert, announce."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import transaction
from django.utils import timezone

from .compat import Task, TaskResult, task_backends, task_enqueued
from .core.config import Config
from .core.ids import new_task_ids
from .core.payload import dump_arguments
from .lookup import stored_task
from .registry import SkipperTask, register
from .results import as_project_time, enqueued_result, stored_result

if TYPE_CHECKING:
    from .models import Task as TaskRow
    from .store.add import NewTask
    from .store.database import Database


class Call(NamedTuple):
    """A task with the arguments to call it with."""

    task: Task
    args: Sequence[Any]
    kwargs: dict[str, Any]


def enqueue_many(calls: Iterable[Sequence[Any]]) -> list[TaskResult]:
    """Add many tasks in one transaction and a few statements; their results, in the same order.

    Each call is `(task, args)` or `(task, args, kwargs)`. Validated like single enqueues, all
    before the first row is written. Runs in the caller's transaction if there is one.
    """
    groups: dict[str, list[tuple[int, Call]]] = {}
    for index, call in enumerate(map(_read_call, calls)):
        groups.setdefault(call.task.backend, []).append((index, call))
    results: dict[int, TaskResult] = {}
    with ExitStack() as stack:
        backends = {alias: task_backends[alias] for alias in groups}
        if len(groups) > 1:
            for alias, group in groups.items():
                _validate_group(backends[alias], [call for _, call in group])
            for database in sorted(
                {b.database for b in backends.values() if hasattr(b, "database")}
            ):
                stack.enter_context(transaction.atomic(database))
        for alias, group in groups.items():
            indexes, group_calls = zip(*group, strict=True)
            results.update(zip(indexes, _enqueue_group(backends[alias], group_calls), strict=True))
    return [results[index] for index in range(len(results))]


def _read_call(call: Any) -> Call:
    if not isinstance(call, (tuple, list)) or len(call) not in (2, 3):
        raise TypeError(
            f"enqueue_many takes (task, args) or (task, args, kwargs), not {_kind(call)}"
        )
    task, args, kwargs = (*call, {})[:3]
    if not isinstance(task, Task) or not isinstance(args, (list, tuple)):
        raise TypeError(f"enqueue_many takes (task, list of arguments, dict), not {_kind(call)}")
    if not isinstance(kwargs, dict):
        raise TypeError(f"enqueue_many takes a dict of keyword arguments, not {_kind(kwargs)}")
    return Call(task, args, kwargs)


def _kind(value: Any) -> str:
    """What it is, without what is in it: arguments may be secret."""
    if isinstance(value, (tuple, list)):
        return f"({', '.join(type(item).__name__ for item in value)})"
    return type(value).__name__


def _validate_group(backend: Any, calls: Sequence[Call]) -> None:
    if hasattr(backend, "validate_calls"):
        backend.validate_calls(calls)
        return
    for call in calls:
        backend.validate_task(call.task)
        if isinstance(call.task, SkipperTask):
            call.task.check_arguments(call.args, call.kwargs)


def _enqueue_group(backend: Any, calls: Sequence[Call]) -> list[TaskResult]:
    if hasattr(backend, "enqueue_calls"):
        results: list[TaskResult] = backend.enqueue_calls(calls)
        return results
    return [call.task.enqueue(*call.args, **call.kwargs) for call in calls]


def enqueue(config: Config, sender: type[Any], calls: Sequence[Call]) -> list[TaskResult]:
    """Add the calls to the queue of `config` and announce each that was not there before."""
    # Here, not above: task modules are imported before the app registry is ready.
    from .store.add import add
    from .store.clock import clock_of
    from .store.database import Database
    from .wakeup import announce

    # First of all: what is refused must not have opened a connection.
    payloads = [dump_call(config, call) for call in calls]
    database = Database(config.database)
    now = clock_of(config.database).now()
    ids = new_task_ids(now, len(calls))
    tasks = [_new_task(config, *each, now) for each in zip(calls, payloads, ids, strict=True)]
    existing = add(database, tasks, now)
    announce(config, database, tasks, now)
    rows = _rows_of(database, config.tenant, existing)
    results: list[TaskResult] = []
    known: dict[str, TaskResult] = {}
    for task, call in zip(tasks, calls, strict=True):
        if task.task_id not in known:
            if task.task_id in rows:
                result = result_of(rows[task.task_id], call.task.backend)
            elif task.task_id in existing:  # pruned at this very moment
                (result,) = enqueue(config, sender, [call])
            else:
                result = enqueued_result(call.task, task.task_id, call.args, call.kwargs, now)
                task_enqueued.send_robust(sender=sender, task_result=result)
            known[task.task_id] = result
        results.append(known[task.task_id])
    return results


def dump_call(config: Config, call: Call) -> tuple[str, str]:
    """The JSON of the call's arguments; raises what makes them impossible to keep."""
    return dump_arguments(list(call.args), call.kwargs, config.max_payload_bytes)


def result_of(row: TaskRow, backend_alias: str) -> TaskResult:
    """The result that a row holds; its code may be gone."""
    waits = row.attempts == 0 and row.run_after > row.enqueued_at
    task = stored_task(
        row.name,
        queue_name=row.queue_name,
        priority=row.priority,
        backend=backend_alias,
        run_after=as_project_time(row.run_after) if waits else None,
    )
    return stored_result(row, task)


def _new_task(
    config: Config, call: Call, payload: tuple[str, str], new_id: str, now: datetime
) -> NewTask:
    from .store.add import NewTask

    task = call.task
    register(task)
    args, kwargs = payload
    given: str | None = getattr(task, "task_id", None)
    return NewTask(
        task_id=given or new_id,
        id_given=given is not None,
        tenant=config.tenant,
        queue_name=task.queue_name,
        name=task.module_path,
        backend=task.backend,
        args=args,
        kwargs=kwargs,
        priority=task.priority,
        run_after=None if task.run_after is None else in_utc(task.run_after),
    )


def in_utc(moment: datetime) -> datetime:
    """The moment in UTC; a naive one is in the project's TIME_ZONE."""
    if moment.tzinfo is None:  # only under USE_TZ=False: the framework refuses it otherwise
        moment = timezone.make_aware(moment, timezone.get_default_timezone())
    return moment.astimezone(UTC)


def _rows_of(database: Database, tenant: str, task_ids: set[str]) -> dict[str, TaskRow]:
    if not task_ids:
        return {}
    from .models import Task as TaskRow
    from .store.read import find

    rows = find(database, tenant, sorted(task_ids))
    hidden = task_ids - rows.keys()
    if hidden and database.connection.in_atomic_block:
        # MySQL at repeatable read: the caller's snapshot is older than the row. Locks see it.
        newest = TaskRow.objects.using(database.alias).select_for_update()
        for row in newest.filter(tenant=tenant, task_id__in=hidden):
            rows[row.task_id] = row
    return rows
