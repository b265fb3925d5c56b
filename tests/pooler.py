"""A private PgBouncer in transaction mode between a test and its PostgreSQL server."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tests.guards import Unavailable, answer_of, release, tell
from tests.servers import Server

PROJECT = Path(__file__).parents[1]
STOP_SECONDS = 30


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
            self.server = replace(behind, host="127.0.0.1", port=answer_of(self._guard)["port"])
        except Unavailable:
            self.close()
            raise

    def down(self) -> None:
        """Kill it, and with it every connection through it."""
        tell(self._guard, "down")

    def up(self) -> None:
        tell(self._guard, "up")

    def close(self) -> None:
        release(self._guard)
        self._guard.wait(STOP_SECONDS)
