"""Worker processes, started as their users start them, and what they use."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PATIENCE_SECONDS = 300.0
PAUSE_SECONDS = 0.005
BARE_DJANGO = (
    "import django; django.setup(); "
    "print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmRSS')))"
)


class WorkerFailed(Exception):
    """The worker said something or ended badly; the message is what it said."""


@dataclass
class Running:
    """A `manage.py skipper_worker` and when it was started."""

    process: subprocess.Popen[bytes]
    log: Path
    started: float

    def wait(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE_SECONDS)
        said = self.log.read_text()
        if self.process.returncode is None:
            raise WorkerFailed(f"still runs after {PATIENCE_SECONDS:g} s: {said}")
        if self.process.returncode or said:
            raise WorkerFailed(f"exit status {self.process.returncode}: {said}")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.wait()

    def child(self) -> int:
        """The process that runs the tasks: the supervisor's only child."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@contextlib.contextmanager
def worker(directory: Path, *arguments: str) -> Iterator[Running]:
    """Start a worker, quiet unless something is wrong; kill it if it is still there at the end."""
    log = directory / "worker.log"
    command = [sys.executable, "manage.py", "skipper_worker", "-v", "0", *arguments]
    with log.open("wb") as output:
        started = time.monotonic()
        process = subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield Running(process, log, started)
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        if process.poll() is None:
            process.kill()
            process.wait()


def wait_until(fact: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {fact}")
        time.sleep(PAUSE_SECONDS)


def resident_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bare_django() -> tuple[float, float]:
    """Seconds and resident megabytes that Django itself takes to start with these settings."""
    started = time.monotonic()
    answer = subprocess.run(
        [sys.executable, "-c", BARE_DJANGO], cwd=PROJECT, capture_output=True, check=True
    )
    return time.monotonic() - started, int(answer.stdout) / 1024
