"""Worker processes that live no longer than a `with` block."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MANAGE = Path(__file__).resolve().parent.parent / "manage.py"
SHUTDOWN_SECONDS = 5
# The worker command itself kills what has not ended 10 s after its shutdown timeout.
KILL_AFTER_SECONDS = SHUTDOWN_SECONDS + 15

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Process = subprocess.Popen[bytes]


@contextmanager
def running_workers(names: Sequence[str], log: Path) -> Iterator[list[Process]]:
    """One `manage.py skipper_worker --drain` for each name; none of them outlives the block."""
    workers: list[Process] = []
    try:
        with _signals_postponed():
            for name in names:
                workers.append(_start(name, log))
        yield workers
    finally:
        _stop(workers)


@contextmanager
def _signals_postponed() -> Iterator[None]:
    """A signal between the start of a process and its entry in our list would leave it behind."""
    came: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in SIGNALS
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if came:
        os.kill(os.getpid(), came[0])


def _start(name: str, log: Path) -> Process:
    command = [sys.executable, "-W", "ignore::SyntaxWarning", str(MANAGE), "skipper_worker"]
    options = [
        *("--drain", "--queue", "library", "--concurrency", "2", "--member-name", name),
        *("--shutdown-timeout", str(SHUTDOWN_SECONDS), "--verbosity", "0"),
    ]
    with log.open("ab") as output:
        # A session of its own: Ctrl-C reaches us alone, and we tell the workers once.
        return subprocess.Popen(
            [*command, *options],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | {"DJANGO_SETTINGS_MODULE": "example_project.settings"},
            start_new_session=True,
        )


def _stop(workers: Sequence[Process]) -> None:
    """Let them finish what runs; bounded, so a second Ctrl-C need not cut it short."""
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    for worker in workers:
        if worker.poll() is None:
            worker.terminate()
    for worker in workers:
        try:
            worker.wait(KILL_AFTER_SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
    for number, handler in handlers.items():
        signal.signal(number, handler)
