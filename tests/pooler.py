"""A private PgBouncer in transaction mode between a test and its PostgreSQL server."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.servers import Server

PROJECT = Path(__file__).parents[1]
STOP_SECONDS = 30


class NoPooler(Exception):
    """PgBouncer cannot be had; the message says why."""


class Pooler:
    """Answers at `server` for the one behind it, from its start until `close()`."""

    def __init__(self, behind: Server, pool_size: int) -> None:
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "tests.pooler_guard", behind.address, str(pool_size)],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            self.server = replace(behind, host="127.0.0.1", port=self._answer()["port"])
        except NoPooler:
            self.close()
            raise

    def down(self) -> None:
        """Kill it, and with it every connection through it."""
        self._tell("down")

    def up(self) -> None:
        self._tell("up")

    def close(self) -> None:
        for pipe in (self._guard.stdin, self._guard.stdout):
            assert pipe is not None
            pipe.close()
        self._guard.wait(STOP_SECONDS)

    def _tell(self, command: str) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{command}\n")
        self._guard.stdin.flush()
        self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._guard.stdout is not None
        line = self._guard.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "its guard process died"}
        if "error" in answer:
            raise NoPooler(answer["error"])
        return answer
