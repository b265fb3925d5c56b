"""Task definitions: the decorator, its options, and the list of what has been defined."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from inspect import Parameter, signature
from typing import Any, overload

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
from .core.errors import BadBackoff, InvalidTaskId
from .core.ids import check_task_id
from .core.payload import dump_arguments
from .core.redaction import is_sensitive

DEFAULT_BACKOFF = Exponential()
MAX_NAME_LENGTH = 255
MAX_TIMEOUT_SECONDS = 366 * 24 * 3600  # no thread can wait for ever longer


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipperTask(Task):
    """Django's Task with a retry policy, a timeout, and an id that the caller may choose.

    `max_attempts` is how often the function is called at most; `backoff` gives the seconds before
    the next attempt; `timeout` ends an attempt after so many seconds (None: never). The values of
    the arguments named in `sensitive` are hidden wherever the task is shown or logged.
    """

    max_attempts: int = 1
    backoff: Backoff = DEFAULT_BACKOFF
    timeout: float | None = None
    sensitive: tuple[str, ...] = ()
    task_id: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.backoff, list):
            object.__setattr__(self, "backoff", tuple(self.backoff))
        if isinstance(self.sensitive, (list, set, frozenset)):
            object.__setattr__(self, "sensitive", tuple(sorted(self.sensitive)))
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
    sensitive: Sequence[str] = ...,
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
    """Django's @task, plus `max_attempts`, `backoff`, `timeout` and `sensitive`.

    Raises InvalidTask, naming the option and the remedy, at the decoration.
    """
    unknown = sorted(options.keys() - {"max_attempts", "backoff", "timeout", "sensitive"})
    if unknown:
        raise TypeError(
            f"@task got {', '.join(unknown)}; it takes priority, queue_name, backend, "
            "takes_context, max_attempts, backoff, timeout and sensitive; run_after and task_id "
            "belong to one call: .using(...)"
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
    if task.sensitive:
        _check_sensitive(task, name)
    try:
        check_backoff(task.backoff)
        if task.task_id is not None:
            check_task_id(task.task_id)
    except (BadBackoff, InvalidTaskId) as error:
        raise InvalidTask(f"{name}: {error}") from error


def _check_sensitive(task: SkipperTask, name: str) -> None:
    """A name that is misspelt would hide nothing."""
    marked: Any = task.sensitive
    if not isinstance(marked, tuple) or not all(isinstance(item, str) for item in marked):
        raise InvalidTask(f"{name}: sensitive is {marked!r}; give a list of argument names")
    names, takes_any = parameters(task)
    unknown = [] if takes_any else [item for item in marked if item not in names]
    if unknown:
        raise InvalidTask(
            f"{name}: sensitive names {', '.join(unknown)}, which it does not take; its "
            f"arguments are {', '.join(names)}"
        )


def parameters(task: Task) -> tuple[list[str], bool]:
    """The names that the task's positional and keyword arguments have; may it take any other?"""
    try:
        found = list(signature(task.func).parameters.values())
    except (TypeError, ValueError):
        return [], True
    takes_any = any(item.kind is Parameter.VAR_KEYWORD for item in found)
    names = [item.name for item in found if item.kind is not Parameter.VAR_KEYWORD]
    return names[1:] if task.takes_context else names, takes_any


def sensitive_names(function: Callable[..., Any], marked: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters whose values are hidden: those marked, and those named like a secret."""
    try:
        names = signature(function).parameters
    except (TypeError, ValueError):
        return marked
    return tuple(sorted({*marked, *(name for name in names if is_sensitive(name, marked))}))


def argument_names(task: Task, count: int) -> list[str]:
    """The names of so many positional arguments; those that `*args` takes have its name."""
    try:
        found = list(signature(task.func).parameters.values())[task.takes_context :]
    except (TypeError, ValueError):
        return []
    names: list[str] = []
    for item in found:
        if item.kind is Parameter.VAR_POSITIONAL:
            return names + [item.name] * (count - len(names))
        if item.kind is not Parameter.KEYWORD_ONLY:
            names.append(item.name)
    return names[:count]


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


def definition_of(name: str) -> Task | None:
    """The definition of that name, if the module it stands in has been imported."""
    return _definitions.get(name)


def queue_names() -> tuple[str, ...]:
    """The queues that the definitions loaded so far name."""
    return tuple(sorted({definition.queue_name for definition in list(_definitions.values())}))
