"""A worker inside the web process, for small deployments: start_worker() in wsgi.py or asgi.py.

This module can be imported before the apps are loaded; what needs models is imported inside.
"""

import atexit
import logging
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from . import conf
from .core.clock import monotonic
from .core.config import Config, read_config
from .core.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from .worker.loop import Worker
    from .worker.options import WorkerOptions
    from .worker.shutdown import Shutdown
    from .worker.slots import Slots

logger = logging.getLogger("skipper_django.worker")

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
# A worker that ran so long starts with a clean sheet when it ends with an error.
STEADY_SECONDS = 60.0
# How many threads that hang in a task are left behind before no new worker is started.
MAX_ABANDONED = 8
LOOK_EVERY_SECONDS = 1.0
MAX_CONCURRENCY = 10_000
# From the shutdown timeout to the end of a worker that hands back what still runs.
HAND_BACK_SECONDS = 10.0


class Handle:
    """The worker of this process. A worker that ends with an error is followed by a new one."""

    def __init__(self, config: Config, options: "WorkerOptions") -> None:
        self._config = config
        self._options = options
        self._pid = os.getpid()
        self._error: BaseException | None = None
        self._broken: Worker | None = None
        self._failures = 0
        self._worker: Worker | None = None
        self._shutdown: Shutdown | None = None
        self._left_behind: list[Slots] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skipper-worker", daemon=True)

    @property
    def is_running(self) -> bool:
        """False in the pause after an error, after stop(), and in a process forked from this."""
        return self._is_here and self._worker is not None

    @property
    def member_id(self) -> str | None:
        """Its name among the members; None while it has no heartbeat that others trust."""
        worker = self._worker
        if worker is None or not self._is_here:
            return None
        is_member = self._config.cluster_membership_manager == "database"
        return worker.cluster.member_id if is_member and worker.cluster.is_trusted() else None

    @property
    def error(self) -> BaseException | None:
        """What ended its last worker; None once another one has joined the cluster."""
        worker = self._worker
        if worker is not None and worker is not self._broken and worker.cluster.is_trusted():
            return None
        return self._error

    def stop(self, timeout: float | None = None) -> bool:
        """Stop as the command does on SIGTERM, and wait; has it ended?

        What still runs after `timeout` seconds (None: the shutdown timeout) is handed back.
        """
        if not self._is_here:
            return True
        self._ask_to_stop()
        self._thread.join(self._options.shutdown_timeout if timeout is None else timeout)
        shutdown = self._shutdown
        if self._thread.is_alive() and shutdown is not None and not shutdown.forced.is_set():
            shutdown.request()
        self._thread.join(HAND_BACK_SECONDS)
        return not self._thread.is_alive()

    def _ask_to_stop(self) -> None:
        self._stopping.set()
        shutdown = self._shutdown
        if shutdown is not None and not shutdown.requested.is_set():
            shutdown.request()

    @property
    def _is_here(self) -> bool:
        return os.getpid() == self._pid and self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with _counted(self._config) as telemetry:
                pause = self._run_worker(telemetry)
            self._stopping.wait(pause)
            self._wait_for_room()

    def _run_worker(self, telemetry: Telemetry) -> float:
        """One worker from its start to its end; seconds until the next may start."""
        from .store.clock import clock_of
        from .worker.loop import Worker
        from .worker.options import EXIT_RECYCLE
        from .worker.shutdown import Shutdown

        self._shutdown = shutdown = Shutdown()
        clock, gate = clock_of(self._config.database), conf.gate_of(self._config)
        self._worker = worker = Worker(
            self._config, self._options, clock, shutdown, gate, telemetry
        )
        if self._stopping.is_set():
            shutdown.request()
        started = monotonic()
        try:
            if worker.run() == EXIT_RECYCLE:
                self._tell_stuck(worker)
        except BaseException as error:
            return self._failed(error, monotonic() - started)
        finally:
            self._worker = None
            worker.slots.abandon()
            self._left_behind.append(worker.slots)
            connections.close_all()
        return 0.0

    def _failed(self, error: BaseException, lived: float) -> float:
        self._failures = 1 if lived > STEADY_SECONDS else self._failures + 1
        growth: int = 2 ** min(self._failures - 1, 10)
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * growth)
        logger.error(
            "the worker in process %d ended with an error; a new one starts in %g s: %s",
            self._pid,
            pause,
            error,
            exc_info=error,
        )
        self._broken, self._error = self._worker, error
        return pause

    def _tell_stuck(self, worker: "Worker") -> None:
        logger.critical(
            "a task in the web process %d is stuck: it is stored as timed out, a new worker takes "
            "over, and the thread that hangs is left behind. Give such tasks a worker of their "
            "own: manage.py skipper_worker",
            self._pid,
            extra={"member_id": worker.cluster.member_id},
        )

    def _wait_for_room(self) -> None:
        """Until fewer than MAX_ABANDONED threads hang: else a web process would fill up."""
        self._left_behind = [slots for slots in self._left_behind if slots.alive]
        if self._hanging() < MAX_ABANDONED:
            return
        logger.critical(
            "%d threads of process %d are still in tasks of workers that have ended: no worker "
            "runs in it until one of them returns. Restart the web server",
            self._hanging(),
            self._pid,
        )
        while self._hanging() >= MAX_ABANDONED and not self._stopping.wait(LOOK_EVERY_SECONDS):
            pass

    def _hanging(self) -> int:
        return sum(slots.alive for slots in self._left_behind)


@contextmanager
def _counted(config: Config) -> Iterator[Telemetry]:
    """What the worker does is on the /metrics of this process, where there is the extra for it."""
    try:
        from .metrics import embedded
    except ModuleNotFoundError:
        yield SILENT
    else:
        with embedded.counting(config.database, config.tenant) as telemetry:
            yield telemetry


_lock = threading.Lock()
_handles: dict[tuple[str, str], Handle] = {}


def start_worker(
    *,
    queues: Iterable[str] = (),
    concurrency: int = 4,
    member_name: str | None = None,
    shutdown_timeout: float = 30.0,
    backend: str | None = None,
) -> Handle:
    """Run tasks in threads of this process, until stop() or the end of the process.

    Returns at once; the worker joins the cluster in its own thread, and tries again where it
    cannot. `backend`: the entry of TASKS whose queue it serves (None: that of SKIPPER). A second
    call with the same options returns the handle of the running worker; with others it raises
    RuntimeError, as do wrong options with ImproperlyConfigured.
    """
    if not apps.ready:
        raise ImproperlyConfigured(
            "start_worker() needs the apps: call it after get_wsgi_application() or "
            "get_asgi_application()"
        )
    from . import overview

    config = _config_of(backend)
    options = _options(config, queues, concurrency, member_name, shutdown_timeout)
    place = (config.database, config.tenant)
    with _lock:
        handle = _handles.get(place)
        if handle is not None and handle._is_here:
            if handle._options == options and not handle._stopping.is_set():
                return handle
            raise RuntimeError(
                f"this process already runs a worker for tenant {config.tenant!r} on database "
                f"{config.database!r}; stop() that one first"
            )
        handle = _handles[place] = Handle(config, options)
        overview.set_current_member(config, lambda: handle.member_id)
        handle._thread.start()
    return handle


def _config_of(backend: str | None) -> Config:
    """The settings, as the command would refuse or take them."""
    config = conf.of_backend(backend)
    conf.gate_of(config)
    return config


def _options(
    config: Config,
    queues: Iterable[str],
    concurrency: int,
    member_name: str | None,
    shutdown_timeout: float,
) -> "WorkerOptions":
    from .worker.options import WorkerOptions

    names = (queues,) if isinstance(queues, str) else tuple(dict.fromkeys(queues))
    if wrong := [name for name in names if not conf.is_queue_name(name)]:
        raise ImproperlyConfigured(
            f"{wrong[0]!r} is no queue name: give 1 to {conf.MAX_QUEUE_NAME_LENGTH} characters"
        )
    if concurrency not in range(1, MAX_CONCURRENCY + 1):
        raise ImproperlyConfigured(
            f"concurrency is {concurrency!r}; give a whole number from 1 to {MAX_CONCURRENCY}"
        )
    if not 0 <= shutdown_timeout < float("inf"):
        raise ImproperlyConfigured(
            f"shutdown_timeout is {shutdown_timeout!r}; give a number of seconds from 0"
        )
    _, problems = read_config({"CLUSTER_MEMBER_NAME": member_name})
    if problems:
        raise ImproperlyConfigured(f"member_name: {problems[0]}")
    chosen = member_name or config.cluster_member_name
    return WorkerOptions(
        member_name=chosen or socket.gethostname(),
        named=chosen is not None,
        queues=names,
        concurrency=concurrency,
        shutdown_timeout=shutdown_timeout,
    )


def _stop_all() -> None:
    """At the end of the process: all of them at once."""
    handles = [handle for handle in _handles.values() if handle._is_here]
    for handle in handles:
        handle._ask_to_stop()
    for handle in handles:
        handle.stop()


def _forget_after_fork() -> None:
    """In a forked child: no thread of the parent is here, and its worker is not ours."""
    global _lock
    _lock = threading.Lock()  # whoever held it has stayed behind
    _handles.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(_stop_all)
# Executors, which tasks may be using, shut down before atexit; this comes before them.
getattr(threading, "_register_atexit", atexit.register)(_stop_all)
