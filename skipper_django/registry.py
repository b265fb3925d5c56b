"""Task definitions: the decorator, and the way from a stored name back to the function."""

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from importlib import import_module
from typing import Any, overload

from django.apps import apps

from . import conf
from .compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_PRIORITY,
    DEFAULT_TASK_QUEUE_NAME,
    InvalidTask,
    Task,
    TaskResult,
)
from .core.backoff import Backoff, Exponential, check_backoff
from .core.errors import BadBackoff, InvalidTaskId, UnknownTask
from .core.ids import check_task_id
from .core.payload import dump_arguments

DEFAULT_BACKOFF = Exponential()
MAX_NAME_LENGTH = 255
MAX_TIMEOUT_SECONDS = 366 * 24 * 3600  # no thread can wait for ever longer


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipperTask(Task):
    """Django's Task with a retry policy, a timeout, and an id that the caller may choose.

    `max_attempts` is how often the function is called at most; `backoff` gives the seconds before
    the next attempt; `timeout` ends an attempt after so many seconds (None: never).
    """

    max_attempts: int = 1
    backoff: Backoff = DEFAULT_BACKOFF
    timeout: float | None = None
    task_id: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.backoff, list):
            object.__setattr__(self, "backoff", tuple(self.backoff))
        _check_options(self)
        # Not super(): in a slotted dataclass it fails on some versions of Python.
        Task.__post_init__(self)
        register(self)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        task_id: str | None = None,
    ) -> "SkipperTask":
        """A copy with other values for one call; `task_id` makes the enqueue idempotent."""
        changed: Any = Task.using(
            self, priority=priority, queue_name=queue_name, run_after=run_after, backend=backend
        )
        copy: SkipperTask = changed if task_id is None else replace(changed, task_id=task_id)
        return copy

    def enqueue(self, *args: Any, **kwargs: Any) -> TaskResult:
        self.check_arguments(args, kwargs)
        return Task.enqueue(self, *args, **kwargs)

    async def aenqueue(self, *args: Any, **kwargs: Any) -> TaskResult:
        self.check_arguments(args, kwargs)
        return await Task.aenqueue(self, *args, **kwargs)

    def check_arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Refuse under another backend, an eager one say, the arguments that ours refuses."""
        if not getattr(self.get_backend(), "checks_arguments", False):
            dump_arguments(list(args), kwargs, conf.load().max_payload_bytes)


@overload
def task(function: Callable[..., Any], /) -> SkipperTask: ...
@overload
def task(
    *,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    takes_context: bool = ...,
    max_attempts: int = ...,
    backoff: Backoff | list[float] = ...,
    timeout: float | None = ...,
) -> Callable[[Callable[..., Any]], SkipperTask]: ...


def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    priority: int = DEFAULT_TASK_PRIORITY,
    queue_name: str = DEFAULT_TASK_QUEUE_NAME,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    takes_context: bool = False,
    **options: Any,
) -> SkipperTask | Callable[[Callable[..., Any]], SkipperTask]:
    """Django's @task, plus `max_attempts`, `backoff` and `timeout` on every version of Django.

    Raises InvalidTask, naming the option and the remedy, at the decoration.
    """
    unknown = sorted(options.keys() - {"max_attempts", "backoff", "timeout"})
    if unknown:
        raise TypeError(
            f"@task got {', '.join(unknown)}; it takes priority, queue_name, backend, "
            "takes_context, max_attempts, backoff and timeout; run_after and task_id belong to "
            "one call: .using(...)"
        )

    def decorate(function: Callable[..., Any]) -> SkipperTask:
        return SkipperTask(
            func=function,
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            takes_context=takes_context,
            run_after=None,
            **options,
        )

    return decorate if function is None else decorate(function)


def _check_options(task: SkipperTask) -> None:
    # Not module_path: whether this is a function at all is the backend's to say.
    name = getattr(task.func, "__qualname__", repr(task.func))
    # Any: what a caller without a type checker may give.
    attempts: Any = task.max_attempts
    timeout: Any = task.timeout
    if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
        raise InvalidTask(f"{name}: max_attempts is {attempts!r}; give a whole number from 1")
    if timeout is not None and not _is_timeout(timeout):
        raise InvalidTask(
            f"{name}: timeout is {timeout!r}; give seconds above 0 and up to "
            f"{MAX_TIMEOUT_SECONDS}, or None"
        )
    try:
        check_backoff(task.backoff)
        if task.task_id is not None:
            check_task_id(task.task_id)
    except (BadBackoff, InvalidTaskId) as error:
        raise InvalidTask(f"{name}: {error}") from error


def _is_timeout(timeout: object) -> bool:
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        return False
    return 0 < timeout <= MAX_TIMEOUT_SECONDS


_definitions: dict[str, Task] = {}


def register(definition: Task) -> None:
    """Remember a definition by the path of its function; copies of using() change nothing."""
    known = _definitions.get(definition.module_path)
    if known is None or known.func is not definition.func:
        _definitions[definition.module_path] = definition


def queue_names() -> tuple[str, ...]:
    """The queues that the definitions loaded so far name."""
    return tuple(sorted({definition.queue_name for definition in list(_definitions.values())}))


def resolve(name: str) -> Task:
    """The definition of that name.

    Only task definitions are ever returned, and only modules of the project and of its installed
    apps are imported for them: a forged name reaches nothing else. Raises UnknownTask.
    """
    if name in _definitions:
        return _definitions[name]
    module_name, _, attribute = name.rpartition(".")
    if not attribute.isidentifier():
        raise UnknownTask(f"{name!r} is not the dotted path of a task")
    module = sys.modules.get(module_name) or _import(module_name, name)
    # The import has registered what it decorated with our class; plain @task it has not.
    found = _definitions.get(name) or getattr(module, attribute, None)
    if not isinstance(found, Task):
        raise UnknownTask(
            f"{name!r} is no task here: decorate it with @task, or deploy its code to this worker"
        )
    return found


def _import(module_name: str, name: str) -> Any:
    if not module_name or not _belongs_to_project(module_name.partition(".")[0]):
        raise UnknownTask(
            f"{name!r} lies outside the project: add its app to INSTALLED_APPS to run its tasks"
        )
    try:
        return import_module(module_name)
    except Exception as error:
        raise UnknownTask(f"{name!r} cannot be imported: {error!r}") from error


def _belongs_to_project(package: str) -> bool:
    roots = {config.name.partition(".")[0] for config in apps.get_app_configs()}
    if package in roots | conf.project_packages():
        return True
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    places = [*(spec.submodule_search_locations or []), spec.origin or ""] if spec else []
    return any(os.path.dirname(place) == conf.project_directory() for place in places if place)


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
