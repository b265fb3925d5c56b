"""Rows and leases as the Tasks framework's TaskResult."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from . import conf
from .compat import Task, TaskError, TaskResult, TaskResultStatus, normalize_json
from .core.outcome import load_errors
from .core.states import TaskState

if TYPE_CHECKING:
    from .models import Task as TaskRow
    from .store.lease import Lease

STATUS = {
    TaskState.SCHEDULED: TaskResultStatus.READY,
    TaskState.READY: TaskResultStatus.READY,
    TaskState.RUNNING: TaskResultStatus.RUNNING,
    TaskState.SUCCESSFUL: TaskResultStatus.SUCCESSFUL,
    TaskState.FAILED: TaskResultStatus.FAILED,
    TaskState.CANCELLED: TaskResultStatus.FAILED,
}


def enqueued_result(
    task: Task, task_id: str, args: Any, kwargs: dict[str, Any], enqueued_at: datetime
) -> TaskResult:
    """The result of a task that has just been added."""
    return TaskResult(
        task=task,
        id=task_id,
        status=TaskResultStatus.READY,
        enqueued_at=as_project_time(enqueued_at),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        errors=[],
        worker_ids=[],
    )


class LeasedResult(TaskResult):
    """Its arguments have just been read from JSON: no need to normalise them again."""

    __slots__ = ()

    def __post_init__(self) -> None:
        pass


def leased_result(lease: Lease, task: Task, args: Any, kwargs: dict[str, Any]) -> TaskResult:
    """The result of a task that this worker is about to run."""
    return LeasedResult(
        task=task,
        id=lease.task_id,
        status=TaskResultStatus.RUNNING,
        enqueued_at=as_project_time(lease.enqueued_at),
        started_at=as_project_time(lease.started_at),
        finished_at=None,
        last_attempted_at=as_project_time(lease.last_attempted_at),
        args=args,
        kwargs=kwargs,
        backend=lease.backend,
        errors=task_errors(load_errors(lease.errors)) if lease.errors else [],
        worker_ids=lease.worker_ids.splitlines(),
    )


def stored_result(row: TaskRow, task: Task) -> TaskResult:
    """The result that a row holds, whatever state it is in, even with nonsense in it."""
    args, kwargs = _stored_arguments(row)
    result: TaskResult = TaskResult(
        task=task,
        id=row.task_id,
        status=_status(row.status),
        enqueued_at=as_project_time(row.enqueued_at),
        started_at=as_project_time(row.started_at),
        finished_at=as_project_time(row.finished_at),
        last_attempted_at=as_project_time(row.last_attempted_at),
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        errors=task_errors(load_errors(row.errors)),
        worker_ids=(row.worker_ids or "").splitlines(),
    )
    if row.result is not None:
        object.__setattr__(result, "_return_value", _decoded(row.result, None))
    return result


def task_errors(errors: list[dict[str, Any]]) -> list[TaskError]:
    return [
        TaskError(
            exception_class_path=str(error.get("exception_class_path", "")),
            traceback=str(error.get("traceback", "")),
        )
        for error in errors
    ]


def as_project_time(moment: datetime | None) -> datetime | None:
    """Aware under USE_TZ; else naive in the project's TIME_ZONE, as Django has it."""
    if moment is None or conf.uses_time_zones():
        return moment
    return timezone.make_naive(moment, timezone.get_default_timezone())


def _status(value: int) -> TaskResultStatus:
    try:
        return STATUS[TaskState(value)]
    except ValueError:  # a number that no state has
        return TaskResultStatus.FAILED


def _stored_arguments(row: TaskRow) -> tuple[list[Any], dict[str, Any]]:
    args, kwargs = _decoded(row.args, []), _decoded(row.kwargs, {})
    try:
        # TaskResult does the same, by recursion, and would raise.
        normalize_json([args, kwargs])
    except RecursionError:
        return [], {}
    return args, kwargs


def _decoded(text: str | None, fallback: Any) -> Any:
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return fallback
    return value if fallback is None or isinstance(value, type(fallback)) else fallback
