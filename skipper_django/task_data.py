"""Arguments, results and errors of a task as they may be shown: sensitive values are hidden."""

import json
from typing import Any

from .core.errors import UnknownTask
from .core.outcome import load_errors
from .core.redaction import redacted, secrets_of, without_secrets
from .lookup import resolve
from .models import Task
from .registry import argument_names


class TaskData:
    """What stands in one row. Which arguments are sensitive, its code says, if it is here."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._args, self._kwargs = _decoded(task.args), _decoded(task.kwargs)
        self._names: list[str] = []
        self._marked: tuple[str, ...] = ()
        try:
            definition = resolve(task.name)
        except UnknownTask:
            return
        self._marked = getattr(definition, "sensitive", ())
        if isinstance(self._args, list):
            self._names = argument_names(definition, len(self._args))

    def arguments(self) -> tuple[str, str]:
        """Positional and keyword arguments, indented; what is no JSON as it stands."""
        if not (isinstance(self._args, list) and isinstance(self._kwargs, dict)):
            return str(self._task.args), str(self._task.kwargs)
        args, kwargs = without_secrets(self._args, self._kwargs, self._names, self._marked)
        return _indented(args), _indented(kwargs)

    def result(self) -> str:
        value = _decoded(self._task.result)
        text = str(self._task.result) if value is None else _indented(value)
        return redacted(text, self._secrets())

    def errors(self) -> list[str]:
        """One text an attempt."""
        secrets = self._secrets()
        return [
            redacted(f"Attempt {error.get('attempt')}\n{error.get('traceback', '')}", secrets)
            for error in load_errors(self._task.errors)
        ]

    def _secrets(self) -> frozenset[str]:
        args = self._args if isinstance(self._args, list) else []
        kwargs = self._kwargs if isinstance(self._kwargs, dict) else {}
        return secrets_of(args, kwargs, self._names, self._marked)


def _decoded(text: str | None) -> Any:
    try:
        value = json.loads(text or "null")
        _indented(value)  # what can be read may still be too deep to be written
    except (TypeError, ValueError, RecursionError):
        return None
    return value


def _indented(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
