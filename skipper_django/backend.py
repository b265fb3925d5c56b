"""The backend of the Tasks framework: what `TASKS` names."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from . import conf
from .compat import BaseTaskBackend, InvalidTask, Task, TaskResult, TaskResultDoesNotExist
from .core.config import Config
from .core.errors import InvalidTaskId
from .core.ids import check_task_id
from .enqueue import Call, dump_call, enqueue, in_utc, result_of
from .registry import MAX_NAME_LENGTH, SkipperTask

MAX_QUEUE_NAME_LENGTH = conf.MAX_QUEUE_NAME_LENGTH


class SkipperBackend(BaseTaskBackend):
    """Keeps tasks in the table of this app, for the workers of its tenant.

    The framework makes one instance per thread and coroutine, perhaps before the apps are loaded:
    so the constructor only remembers its options.
    """

    task_class = SkipperTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
    checks_arguments = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, dict(params))

    @property
    def config(self) -> Config:
        return conf.load(self.options)

    @property
    def database(self) -> str:
        """The alias whose transaction an enqueue joins."""
        return self.config.database

    def validate_task(self, task: Task) -> None:
        # The framework compares these values before it asks what they are.
        _check_types(task)
        super().validate_task(task)
        _check_function(task)

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: dict[str, Any]) -> TaskResult:
        return self.enqueue_calls([Call(task, args, kwargs)])[0]

    def enqueue_calls(self, calls: Sequence[Call]) -> list[TaskResult]:
        """Add many at once; each is validated before the first is written."""
        self._validate_tasks(calls)
        return enqueue(self.config, type(self), calls)

    def validate_calls(self, calls: Sequence[Call]) -> None:
        """Raise what enqueue_calls() would refuse, without touching the database."""
        self._validate_tasks(calls)
        config = self.config
        for call in calls:
            dump_call(config, call)

    def _validate_tasks(self, calls: Sequence[Call]) -> None:
        checked: set[int] = set()
        for call in calls:
            if id(call.task) not in checked:
                checked.add(id(call.task))
                self.validate_task(call.task)

    def get_result(self, result_id: str) -> TaskResult:
        from .store.database import Database
        from .store.read import find

        try:
            check_task_id(result_id)
        except InvalidTaskId as error:
            raise TaskResultDoesNotExist(result_id) from error
        config = self.config
        rows = find(Database(config.database), config.tenant, [result_id])
        if result_id not in rows:
            raise TaskResultDoesNotExist(result_id)
        return result_of(rows[result_id], self.alias)


def _check_types(task: Task) -> None:
    if isinstance(task.priority, bool) or not isinstance(task.priority, int):
        raise InvalidTask(f"priority is {task.priority!r}; give a whole number")
    if not conf.is_queue_name(task.queue_name):
        raise InvalidTask(
            f"queue_name is {task.queue_name!r}; give text of 1 to {MAX_QUEUE_NAME_LENGTH} "
            "characters"
        )
    if task.run_after is not None:
        _check_run_after(task.run_after)


def _check_run_after(moment: object) -> None:
    if not isinstance(moment, datetime):
        raise InvalidTask(f"run_after is {moment!r}; give a datetime")
    try:
        in_utc(moment)
    except OverflowError as error:
        raise InvalidTask(f"run_after is {moment}, which UTC cannot express") from error


def _check_function(task: Task) -> None:
    if task.func.__module__ == "__main__":
        raise InvalidTask(
            f"{task.module_path} is defined in the script that was started, where no worker "
            "can import it: move it into a module"
        )
    if not task.func.__qualname__.isidentifier():
        raise InvalidTask(
            f"{task.module_path} is not the name of a function of a module: a worker could not "
            "import it; define the task with def, outside of any class"
        )
    if len(task.module_path) > MAX_NAME_LENGTH:
        raise InvalidTask(
            f"{task.module_path} is longer than {MAX_NAME_LENGTH} characters; shorten it"
        )
