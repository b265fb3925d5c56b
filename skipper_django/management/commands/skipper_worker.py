"""manage.py skipper_worker: run tasks."""

import argparse
import atexit
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, connections
from django.utils.autoreload import run_with_reloader

from ... import conf
from ...backend import MAX_QUEUE_NAME_LENGTH
from ...core.config import Config, read_config
from ...core.errors import MemberNameTaken
from ...core.telemetry import SILENT, Telemetry
from ...store.clock import clock_of
from ...store.database import Database
from ...store.read import is_installed
from ...unheard import silence_unheard
from ...worker.loop import Worker
from ...worker.options import EXIT_REFUSED, WorkerOptions
from ...worker.pulse import Pulse
from ...worker.shutdown import Shutdown
from ...worker.standin import StandIn, is_possible
from ...worker.supervisor import Companion, Supervisor

if TYPE_CHECKING:
    from ...metrics.exporter import Exporter

logger = logging.getLogger("skipper_django.worker")

MAX_CRASHES_WHEN_DRAINING = 4

LEVELS = {0: logging.WARNING, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}


class Command(BaseCommand):
    help = (
        "Run tasks until stopped. SIGTERM or SIGINT: finish what runs; a second one: give it back."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add(
            "--queue",
            action="append",
            type=_queue,
            default=[],
            metavar="NAME",
            help="serve this queue only; may be repeated (default: all queues of the tenant)",
        )
        add(
            "--concurrency",
            type=_count,
            default=4,
            metavar="N",
            help="tasks at once in each process: threads, and async tasks (default: 4)",
        )
        add(
            "--processes",
            type=_count,
            default=1,
            metavar="N",
            help="worker processes, each replaced when it dies (default: 1)",
        )
        add("--drain", action="store_true", help="stop when no task is ready")
        add("--tenant", type=str, help="serve this tenant (default: SKIPPER['TENANT'])")
        add(
            "--database",
            type=str,
            metavar="ALIAS",
            help="alias of the queue's database (default: SKIPPER['DATABASE'])",
        )
        add(
            "--member-name",
            type=_member_name,
            metavar="NAME",
            help="name of this worker (default: SKIPPER['CLUSTER_MEMBER_NAME'] or the host)",
        )
        add(
            "--shutdown-timeout",
            type=_seconds,
            default=30.0,
            metavar="SECONDS",
            help="how long running tasks may take to finish after SIGTERM (default: 30)",
        )
        add("--metrics-port", type=_port, metavar="PORT",
            help="serve Prometheus metrics of all processes here; 0: any free port")  # fmt: skip
        add("--metrics-address", default="127.0.0.1", metavar="ADDRESS",
            help="the address that --metrics-port is bound to (default: 127.0.0.1)")  # fmt: skip
        add("--reload", action="store_true",
            help="start again when code changes; one process, for development")  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        config = self._config(options)
        _set_up_logging(options["verbosity"])
        silence_unheard()
        self._refuse_what_cannot_run(config)
        if conf.is_debugging():
            logging.getLogger("skipper_django.worker").info(
                "DEBUG is on: queries are logged in memory and forgotten after each task"
            )
        if options["reload"]:
            if options["metrics_port"] is not None:
                raise CommandError("--metrics-port cannot be combined with --reload")
            run_with_reloader(_run_reloadable, config, options)
            return
        exporter = _exporter(options)
        pulses = [Pulse() for _ in range(options["processes"])]

        def telemetry(index: int) -> Telemetry:
            return exporter.telemetry(index, config.tenant) if exporter else SILENT

        def run_child(index: int) -> int:
            return _run_child(config, options, index, pulses[index], telemetry(index))

        beside: list[Companion] = [exporter] if exporter else []
        supervisor = Supervisor(
            options["processes"],
            run_child,
            options["shutdown_timeout"],
            beside + _stand_in(config, pulses, telemetry),
            MAX_CRASHES_WHEN_DRAINING if options["drain"] else None,
        )
        status = supervisor.run()
        if status:
            sys.exit(status)

    def _config(self, options: dict[str, Any]) -> Config:
        chosen = {"TENANT": options["tenant"], "DATABASE": options["database"]}
        try:
            config = conf.load({key: value for key, value in chosen.items() if value is not None})
            conf.gate_of(config)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        return config

    def _refuse_what_cannot_run(self, config: Config) -> None:
        """What will not pass by itself ends the command at once, with the remedy."""
        if config.database not in connections:
            raise CommandError(
                f"there is no database {config.database!r} in DATABASES; known: "
                f"{', '.join(connections)}"
            )
        try:
            installed = is_installed(Database(config.database))
        except Error as error:
            raise CommandError(f"database {config.database!r} cannot be used: {error}") from error
        if not installed:
            raise CommandError(
                f"database {config.database!r} has no table of tasks: run "
                f"manage.py migrate --database={config.database}"
            )


def _exporter(options: dict[str, Any]) -> "Exporter | None":
    port, address = options["metrics_port"], options["metrics_address"]
    if port is None:
        return None
    try:
        from ...metrics.exporter import Exporter
    except ImportError as error:
        raise CommandError(
            f"--metrics-port needs the extra: pip install 'skipper-django[prometheus]' ({error})"
        ) from error
    try:
        exporter = Exporter(address, port, options["processes"])
    except OSError as error:
        raise CommandError(
            f"--metrics-port {port} cannot be served on {address}: {error.strerror}; choose "
            "another port (0: any free one) or another --metrics-address"
        ) from error
    logger.info("metrics of this command: %s", exporter.url)
    return exporter


def _stand_in(
    config: Config, pulses: list[Pulse], telemetry: Callable[[int], Telemetry]
) -> list[Companion]:
    if is_possible():
        return [StandIn(config, pulses, telemetry)]
    logger.warning(
        "no stand-in: this system has no /proc. A task that holds the interpreter for longer than "
        "LEASE_DURATION or CLUSTER_LIVENESS_WINDOW loses its lease"
    )
    return []


def _run_child(
    config: Config, options: dict[str, Any], index: int, pulse: Pulse, telemetry: Telemetry
) -> int:
    """One worker process, under its supervisor."""
    shutdown = Shutdown()
    shutdown.listen()
    pulse.enter()
    worker_options = replace(
        _worker_options(config, options, index), supervisor_pid=os.getppid(), pulse=pulse
    )
    try:
        return _worker(config, worker_options, shutdown, telemetry).run()
    except MemberNameTaken as error:
        logger.error("%s", error)
        return EXIT_REFUSED


def _run_reloadable(config: Config, options: dict[str, Any]) -> None:
    """In a thread of a process that the reloader ends whenever code changes."""
    shutdown = Shutdown()
    worker = _worker(config, _worker_options(config, options, 0), shutdown)
    stopped = threading.Event()

    def stop() -> None:
        shutdown.request()
        stopped.wait(options["shutdown_timeout"])

    atexit.register(stop)
    try:
        worker.run()
    finally:
        stopped.set()


def _worker(
    config: Config,
    options: WorkerOptions,
    shutdown: Shutdown,
    telemetry: Telemetry = SILENT,
) -> Worker:
    clock, gate = clock_of(config.database), conf.gate_of(config)
    return Worker(config, options, clock, shutdown, gate, telemetry)


def _worker_options(config: Config, options: dict[str, Any], index: int) -> WorkerOptions:
    chosen = options["member_name"] or config.cluster_member_name
    name = chosen or socket.gethostname()
    if chosen and options["processes"] > 1:
        name = f"{chosen}-{index + 1}"
    return WorkerOptions(
        member_name=name,
        named=bool(chosen),
        queues=tuple(dict.fromkeys(options["queue"])),
        concurrency=options["concurrency"],
        drain=options["drain"],
        shutdown_timeout=options["shutdown_timeout"],
    )


def _set_up_logging(verbosity: int) -> None:
    """Lines on standard error, unless the project's LOGGING already has a place for them."""
    logger = logging.getLogger("skipper_django")
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(LEVELS[verbosity])


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10000")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0")
    return seconds


def _member_name(text: str) -> str:
    problem = next(iter(read_config({"CLUSTER_MEMBER_NAME": text})[1]), None)
    if problem is not None:
        raise argparse.ArgumentTypeError(str(problem).partition(" is ")[2])
    return text


def _queue(text: str) -> str:
    if not 1 <= len(text) <= MAX_QUEUE_NAME_LENGTH:
        raise argparse.ArgumentTypeError(
            f"a queue name has 1 to {MAX_QUEUE_NAME_LENGTH} characters, not {len(text)}"
        )
    return text
