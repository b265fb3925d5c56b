"""Run one leased task and say what it led to: the only place that calls user code."""

import logging
import os
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import Any, Protocol

from django.views.decorators.debug import sensitive_variables

from ..compat import (
    Task,
    TaskContext,
    TaskResult,
    TaskResultStatus,
    task_backends,
    task_finished,
    task_started,
)
from ..core.backoff import delay_before_retry
from ..core.clock import Clock, monotonic
from ..core.errors import (
    BadArguments,
    BadBackoff,
    BadRow,
    HiddenError,
    NotSerializable,
    PayloadTooLarge,
    SkipperError,
    TaskTimeout,
    UnknownTask,
)
from ..core.outcome import (
    Failed,
    Outcome,
    Retry,
    Succeeded,
    describe_error,
    load_errors,
    reason_of,
)
from ..core.payload import dump_result, load_arguments
from ..core.reasons import FailReason
from ..core.redaction import HIDDEN, redacted, secrets_of
from ..lookup import resolve, stored_task
from ..registry import DEFAULT_BACKOFF, argument_names, sensitive_names
from ..results import as_project_time, leased_result, task_errors
from ..signals import task_retrying
from ..store.lease import Lease

logger = logging.getLogger("skipper_django.worker")

PARKED: dict[type[SkipperError], FailReason] = {
    UnknownTask: FailReason.UNKNOWN_TASK,
    BadArguments: FailReason.BAD_ARGUMENTS,
}


_is_async = lru_cache(1024)(iscoroutinefunction)
_sensitive_names = lru_cache(1024)(sensitive_names)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A lease with everything that its task needs to be called."""

    lease: Lease
    task: Task
    # Not in the repr, which reports of errors show.
    args: list[Any] = field(repr=False)
    kwargs: dict[str, Any] = field(repr=False)
    result: TaskResult = field(repr=False)

    @property
    def is_async(self) -> bool:
        return _is_async(self.task.func)

    @property
    def secrets(self) -> frozenset[str]:
        """The values of its sensitive arguments, as text."""
        names = argument_names(self.task, len(self.args))
        return secrets_of(self.args, self.kwargs, names, getattr(self.task, "sensitive", ()))

    @property
    def timeout(self) -> float | None:
        timeout: float | None = getattr(self.task, "timeout", None)
        return timeout


class HasMemberId(Protocol):
    """A member may join anew under another name."""

    member_id: str


@dataclass(frozen=True, slots=True)
class Executor:
    """What all attempts of one worker share."""

    clock: Clock
    member: HasMemberId
    max_result_bytes: int
    holds_leases: Callable[[], bool] = lambda: True

    def may_start(self, lease: Lease) -> bool:
        """Is the task certain to be this worker's still? Asked right before it is called."""
        return monotonic() < lease.trusted_until and self.holds_leases()

    def prepare(self, lease: Lease) -> Attempt | Failed:
        """Find the code and decode the arguments; what cannot run is parked with a reason."""
        try:
            return self._prepare(lease)
        except Exception as error:
            # The row holds what no worker writes; the loop and the other tasks go on.
            logger.exception("task %r cannot be prepared", lease.task_id)
            return Failed(FailReason.BAD_ROW, [describe_error(BadRow(repr(error)), lease.attempts)])

    def _prepare(self, lease: Lease) -> Attempt | Failed:
        try:
            task = resolve(lease.name)
            args, kwargs = load_arguments(lease.args, lease.kwargs)
        except (UnknownTask, BadArguments) as error:
            return self._park(lease, error)
        if (task.queue_name, task.priority) != (lease.queue_name, lease.priority):
            task = _task_as_stored(lease)
        return Attempt(lease, task, args, kwargs, leased_result(lease, task, args, kwargs))

    def run(self, attempt: Attempt, interruptible: Callable[[Callable[[], Any]], Any]) -> Outcome:
        """Call a sync task once; `interruptible` makes the call and enforces the timeout."""
        self._started(attempt)
        try:
            value = interruptible(lambda: self._call(attempt))
        except BaseException as error:
            return self._failed(attempt, error)
        return self._returned(attempt, value)

    async def run_async(
        self, attempt: Attempt, limited: Callable[[Any], Awaitable[Any]]
    ) -> Outcome:
        """Call an async task once; `limited` awaits it and enforces the timeout by cancelling."""
        self._started(attempt)
        try:
            value = await limited(self._call(attempt))
        except BaseException as error:
            return self._failed(attempt, error)
        return self._returned(attempt, value)

    def give_up(self, attempt: Attempt, although: str = "was raised in it") -> Outcome:
        """The outcome of an attempt that does not react to its timeout."""
        try:
            raise TaskTimeout(f"ran on after its timeout of {attempt.timeout:g} s {although}")
        except TaskTimeout as error:
            return self._failed(attempt, error)

    def _park(self, lease: Lease, error: SkipperError) -> Failed:
        """Set aside what this worker cannot run; it can be sent back when the code is there."""
        reason, errors = PARKED[type(error)], _errors(lease, error)
        self._log(logging.WARNING, f"parked ({reason}): {error}", lease)
        task = _task_as_stored(lease)
        attempt = Attempt(lease, task, [], {}, leased_result(lease, task, [], {}))
        object.__setattr__(attempt.result, "errors", task_errors(errors))
        self._finish(attempt, TaskResultStatus.FAILED, None)
        return Failed(reason, errors)

    def _call(self, attempt: Attempt) -> Any:
        process = os.getpid()
        try:
            return self._call_function(attempt)
        finally:
            if os.getpid() != process:
                # The task forked, and this is the child. It must not go on as if it were the
                # worker: run what waits, talk on its connections.
                os._exit(0)

    def _call_function(self, attempt: Attempt) -> Any:
        function = attempt.task.func
        if names := _sensitive_names(function, getattr(attempt.task, "sensitive", ())):
            function = sensitive_variables(*names)(function)  # for Django's reports of errors
        if attempt.task.takes_context:
            context: TaskContext = TaskContext(task_result=attempt.result)
            return function(context, *attempt.args, **attempt.kwargs)
        return function(*attempt.args, **attempt.kwargs)

    def _started(self, attempt: Attempt) -> None:
        task_started.send_robust(sender=_sender(attempt), task_result=attempt.result)

    def _returned(self, attempt: Attempt, value: Any) -> Outcome:
        try:
            result = dump_result(value, self.max_result_bytes)
        except (NotSerializable, PayloadTooLarge) as error:
            # Not retried: the work is done, only its answer cannot be kept.
            errors = _errors(attempt.lease, error, attempt.secrets)
            return self._ended_badly(attempt, FailReason.BAD_RESULT, errors, error)
        self._finish(attempt, TaskResultStatus.SUCCESSFUL, value)
        self._log(logging.INFO, "succeeded", attempt.lease)
        return Succeeded(result)

    def _failed(self, attempt: Attempt, error: BaseException) -> Outcome:
        """Called inside the except block, so that signals and loggers find the live exception."""
        lease, task, secrets = attempt.lease, attempt.task, attempt.secrets
        errors = _errors(lease, error, secrets)
        object.__setattr__(attempt.result, "errors", task_errors(errors))
        if lease.policy_attempt < getattr(task, "max_attempts", 1):
            backoff = getattr(task, "backoff", DEFAULT_BACKOFF)
            try:
                delay = delay_before_retry(backoff, lease.policy_attempt, error, attempt.result)
            except BadBackoff as bad:
                errors.append(describe_error(bad, lease.attempts, secrets))
                return self._ended_badly(attempt, FailReason.BAD_BACKOFF, errors, error)
            if delay is not None:
                text = redacted(repr(error), secrets)
                self._log(logging.INFO, f"failed, runs again in {delay:g} s: {text}", lease)
                task_retrying.send_robust(
                    sender=_sender(attempt), task_result=attempt.result, delay=delay
                )
                return Retry(delay, errors)
        return self._ended_badly(attempt, reason_of(error), errors, error)

    def _ended_badly(
        self,
        attempt: Attempt,
        reason: FailReason,
        errors: list[dict[str, Any]],
        error: BaseException,
    ) -> Failed:
        object.__setattr__(attempt.result, "errors", task_errors(errors))
        self._finish_failed(attempt, errors)
        text = redacted(repr(error), attempt.secrets)
        self._log(logging.ERROR, f"failed ({reason}): {text}", attempt.lease)
        return Failed(reason, errors)

    def _finish_failed(self, attempt: Attempt, errors: list[dict[str, Any]]) -> None:
        telling = [error for error in errors if HIDDEN in str(error.get("traceback"))]
        if not telling:
            self._finish(attempt, TaskResultStatus.FAILED, None)
            return
        # The framework logs the exception that is being handled: not this one.
        try:
            raise HiddenError(f"{telling[-1]['exception_class_path']}: {telling[-1]['message']}")
        except HiddenError as stand_in:
            stand_in.__context__ = None
            self._finish(attempt, TaskResultStatus.FAILED, None)

    def _finish(self, attempt: Attempt, status: TaskResultStatus, value: Any) -> None:
        result = attempt.result
        object.__setattr__(result, "status", status)
        object.__setattr__(result, "finished_at", as_project_time(self.clock.estimate()))
        object.__setattr__(result, "_return_value", value)
        task_finished.send_robust(sender=_sender(attempt), task_result=result)

    def _log(self, level: int, message: str, lease: Lease) -> None:
        if logger.isEnabledFor(level):
            logger.log(
                level, "%s %s %s", lease.name, lease.task_id, message,
                extra=log_fields(lease, self.member.member_id),
            )  # fmt: skip


def log_fields(lease: Lease, member_id: str) -> dict[str, Any]:
    """What every log line about a task carries."""
    return {
        "task_id": lease.task_id,
        "task_name": lease.name,
        "attempt": lease.attempts,
        "queue_name": lease.queue_name,
        "member_id": member_id,
    }


def _errors(
    lease: Lease, error: BaseException, secrets: Collection[str] = ()
) -> list[dict[str, Any]]:
    return [*load_errors(lease.errors), describe_error(error, lease.attempts, secrets)]


def _task_as_stored(lease: Lease) -> Task:
    return stored_task(
        lease.name,
        queue_name=lease.queue_name,
        priority=lease.priority,
        backend=lease.backend,
        run_after=None,
    )


def _sender(attempt: Attempt) -> type[Any]:
    """The class of the task's backend, as the framework wants it for its signals."""
    try:
        return type(task_backends[attempt.lease.backend])
    except Exception:  # an alias that TASKS no longer has
        return object
