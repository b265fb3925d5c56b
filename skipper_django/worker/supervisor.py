"""Keep worker processes alive: fork them, replace those that die, stop them together."""

import logging
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import NoReturn, Protocol

from django.db import connections

from ..core.clock import monotonic
from .options import EXIT_DONE, EXIT_FORCED, EXIT_RECYCLE, EXIT_REFUSED
from .shutdown import SIGNALS

logger = logging.getLogger("skipper_django.worker")

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
# A child that lived so long starts with a clean sheet when it dies.
STEADY_SECONDS = 60.0
# After the shutdown time-out, until a child that has not ended is killed.
KILL_AFTER_SECONDS = 10.0


class Companion(Protocol):
    """What runs in a process of its own beside the workers, as long as one of them is wanted."""

    name: str

    def run(self) -> int: ...

    def child_ended(self, index: int, cause: str | None) -> None:
        """Told here, in the supervisor: a worker process ended; `cause`: why it died, if so."""

    def has_ended(self, index: int) -> bool:
        """Has it killed that worker process itself, because a task in it was stuck?"""

    def close(self) -> None:
        """In the other children: let go of what only its own process needs."""


class Child:
    """One place for a process, and who fills it."""

    def __init__(self, index: int, run: Callable[[], int], name: str = "worker") -> None:
        self.index = index
        self.run = run
        self.name = name
        self.pid: int | None = None
        self.started_at = 0.0
        self.start_at = 0.0
        self.crashes = 0
        self.done = False


class Supervisor:
    """Runs `run_child(index)` in child processes; no thread and no open connection of its own.

    With `max_crashes` a place whose processes die so often in a row stays empty, and the exit
    status says so: a worker that is to drain the queue and end must not be replaced for ever.
    """

    def __init__(
        self,
        processes: int,
        run_child: Callable[[int], int],
        shutdown_timeout: float,
        companions: Sequence[Companion] = (),
        max_crashes: int | None = None,
    ) -> None:
        self._max_crashes = max_crashes
        self._children = [Child(index, partial(run_child, index)) for index in range(processes)]
        self._companions = companions
        self._beside = [Child(-1, beside.run, beside.name) for beside in companions]
        self._shutdown_timeout = shutdown_timeout
        self._requests = 0
        self._status = EXIT_DONE
        self._kill_at = float("inf")
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def run(self) -> int:
        """Until every child is done or stopped; the exit status of the command."""
        self._listen()
        try:
            return self._watch()
        finally:
            self._end_companions()
            signal.set_wakeup_fd(-1)
            self._reader.close()
            self._writer.close()

    def _watch(self) -> int:
        forwarded = 0
        while any(self._is_wanted(child) for child in self._children):
            self._start_due()
            if forwarded < self._requests:
                forwarded = self._requests
                self._forward()
            self._wait()
            if monotonic() >= self._kill_at:
                self._kill_at = float("inf")
                self._send(signal.SIGKILL)
            self._reap()
        return self._status

    def _is_wanted(self, child: Child) -> bool:
        return child.pid is not None or not (child.done or self._requests)

    def _listen(self) -> None:
        def request(number: int, frame: FrameType | None) -> None:
            self._requests += 1

        def ignore(number: int, frame: FrameType | None) -> None:
            pass  # waking up is enough

        for number in SIGNALS:
            signal.signal(number, request)
        signal.signal(signal.SIGCHLD, ignore)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def _start_due(self) -> None:
        for child in self._children + self._beside:
            if child.pid is None and self._is_wanted(child) and monotonic() >= child.start_at:
                self._fork(child)

    def _fork(self, child: Child) -> None:
        # A connection must not be shared by two processes.
        connections.close_all()
        sys.stdout.flush()
        sys.stderr.flush()
        # A signal that comes meanwhile waits until parent and child each have their own handler;
        # the child lets it in with Shutdown.listen().
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        pid = os.fork()
        if pid:
            child.pid = pid
            child.started_at = monotonic()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            return
        self._become(child)

    def _become(self, child: Child) -> NoReturn:
        """In the child: run the worker, and leave without cleaning up the parent's things."""
        status = EXIT_FORCED
        try:
            # A group of its own: Ctrl-C reaches the supervisor alone, which passes it on once.
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._reader.close()
            self._writer.close()
            for companion in self._companions:
                if companion.name != child.name:
                    companion.close()
            status = child.run()
        except BaseException:
            logger.critical("worker process crashed", exc_info=True)
        finally:
            logging.shutdown()
            # Not sys.exit: a thread stuck in a task would keep the process.
            os._exit(status)

    def _wait(self) -> None:
        moments = [
            child.start_at
            for child in self._beside + self._children
            if child.pid is None and self._is_wanted(child)
        ]
        pause = max(0.0, min([*moments, self._kill_at]) - monotonic())
        readable, _, _ = select.select([self._reader], [], [], min(pause, 60.0))
        if readable:
            self._reader.recv(4096)

    def _reap(self) -> None:
        for child in self._beside + self._children:
            if child.pid is not None:
                pid, status = os.waitpid(child.pid, os.WNOHANG)
                if pid:
                    child.pid = None
                    self._ended(child, pid, os.waitstatus_to_exitcode(status))

    def _ended(self, child: Child, pid: int, status: int) -> None:
        is_worker = child not in self._beside
        if is_worker and any(beside.has_ended(child.index) for beside in self._companions):
            status = EXIT_RECYCLE
        for beside in self._companions if is_worker else ():
            beside.child_ended(child.index, self._cause(status))
        if status in (EXIT_DONE, EXIT_REFUSED) or self._requests:
            child.done = True
            if is_worker:
                self._status = max(self._status, abs(status) if status != EXIT_RECYCLE else 0)
            return
        if status == EXIT_RECYCLE:
            logger.warning("worker process %d is replaced: a task in it was stuck", pid)
            child.start_at = monotonic()
            return
        lived = monotonic() - child.started_at
        child.crashes = 1 if lived > STEADY_SECONDS else child.crashes + 1
        cause = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        if self._max_crashes is not None and child.crashes >= self._max_crashes:
            child.done = True
            self._status = max(self._status, EXIT_FORCED)
            logger.error(
                "%s process %d died (%s) and is not replaced again", child.name, pid, cause
            )
            return
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(child.crashes - 1, 10))
        child.start_at = monotonic() + pause
        logger.error(
            "%s process %d died (%s); a new one starts in %g s", child.name, pid, cause, pause
        )

    def _cause(self, status: int) -> str | None:
        """Why a worker died, in a word of a closed list; None if it ended as it should."""
        if status < 0:
            return "killed"
        if status == EXIT_RECYCLE:
            return "stuck"
        return None if status in (EXIT_DONE, EXIT_REFUSED) or self._requests else "crashed"

    def _forward(self) -> None:
        # A child that holds the interpreter in C code hears no signal but this one.
        self._kill_at = min(
            self._kill_at, monotonic() + self._shutdown_timeout + KILL_AFTER_SECONDS
        )
        self._send(signal.SIGTERM)

    def _end_companions(self) -> None:
        for child in self._beside:
            if child.pid is not None:
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                child.pid = None

    def _send(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.pid is not None:
                os.kill(child.pid, number)
