"""`manage.py skipper_worker`, as its user starts it, with all of its processes in hand."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from chaos.databases import PROJECT
from tests.waiting import wait_until


class Worker:
    """The command: its supervisor, and the processes that run tasks."""

    def __init__(self, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self.log_path = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "skipper_worker", *arguments],
                cwd=PROJECT,
                env={**os.environ, "DJANGO_SETTINGS_MODULE": "chaos.settings", **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.pid = self.process.pid

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def wait_for_log(self, text: str, seconds: float = 30.0) -> None:
        wait_until(lambda: text in self.log, seconds, f"{text!r} in {self.log_path}")

    @property
    def children(self) -> list[int]:
        with contextlib.suppress(OSError):
            path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
            return [int(pid) for pid in path.read_text().split()]
        return []

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def signal_children(self, number: signal.Signals) -> None:
        for pid in self.children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """SIGKILL for every process of it, the supervisor first, which would replace the others."""
        children = self.children
        self.process.kill()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def terminate(self) -> None:
        self.process.terminate()

    def wait(self, seconds: float = 40.0) -> int:
        return self.process.wait(seconds)

    def ask_to_end(self) -> None:
        """At the end of a scenario, whatever state it is in: hand everything back and go."""
        if self.is_running:
            self.signal_children(signal.SIGCONT)
            self.terminate()
            self.terminate()

    def end(self) -> None:
        try:
            self.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
