"""manage.py skipper_cluster: the members of the cluster and their ranges."""

import argparse
import json
from threading import Event
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, connections

from ... import conf
from ...core.config import Config
from ...overview import as_json, look
from ...store.clock import clock_of
from ...text_table import render
from ..arguments import add_database

CLEAR_SCREEN = "\x1b[H\x1b[2J"


class Command(BaseCommand):
    help = (
        "Show the members of the cluster and their ranges. Exit status: 0 the cluster was read, "
        "however many members it has; 1 it cannot be read; 2 wrong arguments."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--json", action="store_true", help="what GET /skipper/admin/cluster answers")
        add(
            "--watch",
            type=_interval,
            nargs="?",
            const=2.0,
            metavar="SECONDS",
            help="repeat until Ctrl-C (default: every 2 seconds); with --json one line each time",
        )
        add(
            "--backend",
            type=str,
            metavar="NAME",
            help="the cluster of this entry of TASKS (default: that of SKIPPER)",
        )
        add("--tenant", type=str, help="this tenant's cluster (default: SKIPPER['TENANT'])")
        add_database(add)

    def handle(self, *args: Any, **options: Any) -> None:
        config = _config(options["backend"], options["tenant"], options["database"])
        seconds = options["watch"]
        try:
            if seconds is None:
                self.stdout.write(_text(config, options["json"], indent=2))
            else:
                self._watch(config, options["json"], seconds)
        except Error as error:
            raise CommandError(
                f"the cluster cannot be read from database {config.database!r}: {error}; is it "
                f"migrated (manage.py migrate --database={config.database})?"
            ) from error

    def _watch(self, config: Config, as_lines: bool, seconds: float) -> None:
        """The first reading must succeed; later ones may fail for a while."""
        text = _text(config, as_lines)
        try:
            while True:
                clears = self.stdout.isatty() and not as_lines
                self.stdout.write(f"{CLEAR_SCREEN if clears else ''}{text}")
                self.stdout.flush()
                Event().wait(seconds)
                try:
                    text = _text(config, as_lines)
                except Error as error:
                    connections[config.database].close()
                    text = json.dumps({"message": str(error)}) if as_lines else f"Error: {error}"
        except KeyboardInterrupt:
            return


def _config(backend: str | None, tenant: str | None, database: str | None) -> Config:
    if backend is not None and (tenant is not None or database is not None):
        raise CommandError("--backend has a tenant and a database: give no others beside it")
    chosen = {"TENANT": tenant, "DATABASE": database}
    try:
        if backend is not None:
            return conf.of_backend(backend)
        config = conf.load({key: value for key, value in chosen.items() if value is not None})
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from error
    if config.database not in connections:
        raise CommandError(
            f"there is no database {config.database!r} in DATABASES; known: "
            f"{', '.join(connections)}"
        )
    return config


def _text(config: Config, wants_json: bool, indent: int | None = None) -> str:
    overview = look(config, clock_of(config.database))
    if wants_json:
        return json.dumps(as_json(overview), indent=indent)
    return render(overview)


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.1 to 3600")
    return seconds
