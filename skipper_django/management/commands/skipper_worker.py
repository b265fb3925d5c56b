"""manage.py skipper_worker: run tasks."""

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
from ...core.config import Config
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
from ..worker_arguments import add_arguments

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
        add_arguments(parser)

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
