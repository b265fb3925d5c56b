"""The states of a task."""

from enum import IntEnum


class TaskState(IntEnum):
    """Values are stored: numbers never change meaning, finished states sort last."""

    SCHEDULED = 0  # due later, or waiting for its next attempt
    READY = 1
    RUNNING = 2  # leased to a worker
    SUCCESSFUL = 3
    FAILED = 4  # will not run again by itself; `reason` says why
    CANCELLED = 5

    @property
    def is_final(self) -> bool:
        return self >= TaskState.SUCCESSFUL
