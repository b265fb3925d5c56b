"""A row is read whatever is in it: without its code, its queue, or any sense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from skipper_django.compat import TaskResult, TaskResultStatus, task_backends
from skipper_django.core.errors import UnknownTask
from skipper_django.models import Task
from skipper_django.testing import run_ready
from tests.contract import tasks

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

DEEP = "[" * 100_000 + "]" * 100_000
RATHER_DEEP = "[" * 2_000 + "]" * 2_000
NONSENSE: dict[str, dict[str, Any]] = {
    "unknown status": {"status": 99},
    "negative status": {"status": -1},
    "bad arguments": {"args": "[1", "kwargs": "nonsense"},
    "arguments of another shape": {"args": '{"a": 1}', "kwargs": "[1]"},
    "empty arguments": {"args": "", "kwargs": ""},
    "arguments too deep": {"args": DEEP, "kwargs": DEEP},
    "arguments rather deep": {"args": RATHER_DEEP, "kwargs": f'{{"a": {RATHER_DEEP}}}'},
    "bad result": {"status": 3, "result": "{"},
    "result too deep": {"status": 3, "result": DEEP},
    "bad errors": {"status": 4, "errors": "not JSON"},
    "errors of another shape": {"status": 4, "errors": '[1, null, {"attempt": []}]'},
    "errors too deep": {"status": 4, "errors": DEEP},
    "unreadable numbers": {"args": f"[{'9' * 5000}]", "kwargs": '{"a": NaN}'},
    "surrogates": {"args": r'["\ud800"]', "kwargs": r'{"\ud800": 1}'},
    "odd workers": {"worker_ids": "\n\n\u2028x"},
    "no name": {"name": ""},
    "dots": {"name": "..."},
    "name with spaces": {"name": "tests.contract. tasks"},
    "forged name": {"name": "os.system"},
    "forged module": {"name": "tests.contract.tasks.random.random"},
    "no backend": {"backend": "gone"},
    "unknown reason": {"reason": "because"},
    "far priority": {"priority": 30_000},
}


@pytest.mark.parametrize("values", NONSENSE.values(), ids=NONSENSE)
def test_a_row_of_nonsense_still_reads_as_a_result(queue: str, values: dict[str, Any]) -> None:
    result_id = tasks.other.enqueue(1).id
    Task.objects.using(queue).update(**values)

    result = task_backends["default"].get_result(result_id)

    assert isinstance(result, TaskResult)
    assert result.id == result_id
    assert result.status in TaskResultStatus
    assert isinstance(result.args, list)
    assert isinstance(result.kwargs, dict)
    assert isinstance(result.errors, list)
    assert isinstance(result.task.module_path, str)
    assert isinstance(result.task.name, str)


def test_a_result_outlives_the_code_of_its_task(queue: str) -> None:
    result_id = tasks.other.enqueue("kept").id
    Task.objects.using(queue).update(name="tests.contract.tasks.removed_in_this_release")

    result = task_backends["default"].get_result(result_id)

    assert (result.task.name, result.args) == ("removed_in_this_release", ["kept"])
    assert result.task.module_path == "tests.contract.tasks.removed_in_this_release"
    with pytest.raises(UnknownTask, match="removed_in_this_release"):
        result.task.call("kept")


def test_a_result_outlives_its_queue(queue: str, settings: Settings) -> None:
    result_id = tasks.rich.enqueue("kept").id
    settings.TASKS = {
        "default": {"BACKEND": "skipper_django.backend.SkipperBackend", "QUEUES": ["other"]}
    }

    result = task_backends["default"].get_result(result_id)
    run_ready()

    assert result.task.queue_name == "mail"
    result.refresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, "kept")
