"""Would make a task, but ends the process that imports it first."""

from __future__ import annotations

from skipper_django import task

if task is not None:
    raise SystemExit(3)


@task
def never() -> None:
    pass
