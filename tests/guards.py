"""The test's side of the processes that own private servers: one line of JSON to each command."""

from __future__ import annotations

import json
import subprocess
from typing import Any


class Unavailable(Exception):
    """The server cannot be had; the message says why."""


def answer_of(guard: subprocess.Popen[str]) -> dict[str, Any]:
    assert guard.stdout is not None
    line = guard.stdout.readline()
    answer: dict[str, Any] = json.loads(line) if line else {"error": "its guard process died"}
    if "error" in answer:
        raise Unavailable(answer["error"])
    return answer


def tell(guard: subprocess.Popen[str], command: str) -> None:
    """Returns when it has been carried out."""
    assert guard.stdin is not None
    guard.stdin.write(f"{command}\n")
    guard.stdin.flush()
    answer_of(guard)


def release(guard: subprocess.Popen[str]) -> None:
    """The server ends with its guard, the guard with this pipe."""
    for pipe in (guard.stdin, guard.stdout):
        if pipe is not None:
            pipe.close()
