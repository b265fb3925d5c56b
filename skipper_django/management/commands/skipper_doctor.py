"""manage.py skipper_doctor: what ails the queue, and what to do."""

import json
import sys
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, connections

from ... import conf
from ...doctor import examine
from ...doctor_text import as_json, as_lines
from ...store.clock import clock_of
from ..arguments import add_database

EXIT_UNHEALTHY = 1


class Command(BaseCommand):
    help = (
        "Examine settings, tables, clocks, members and every row of the queue; say what is wrong "
        "and what to do. Exit status: 0 nothing is left to be done (warnings do not count); 1 "
        "something is, or the database cannot be read; 2 wrong arguments."
    )
    # It reports them itself, also where one of them is an error.
    requires_system_checks: list[str] = []  # noqa: RUF012  (Django's attribute)

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add(
            "--repair",
            action="store_true",
            help="correct rows that were edited into nonsense, or park them with a reason; "
            "no task is deleted, and none that is being run is touched",
        )
        add("--json", action="store_true", help="the report as JSON")
        add_database(add)

    def handle(self, *args: Any, **options: Any) -> None:
        # Settings that cannot work are findings; defaults stand in for them.
        alias = options["database"]
        config = conf.read({} if alias is None else {"DATABASE": alias})[0]
        alias = config.database if alias is None else alias
        if alias not in connections or alias != config.database:
            raise CommandError(
                f"there is no database {alias!r} in DATABASES; known: {', '.join(connections)}"
            )
        try:
            report = examine(config, clock_of(config.database), repairs=options["repair"])
        except (Error, ImproperlyConfigured) as error:
            raise CommandError(f"database {config.database!r} cannot be used: {error}") from error
        if options["json"]:
            self.stdout.write(json.dumps(as_json(report), indent=2))
        else:
            self.stdout.write("\n".join(as_lines(report)))
        if not report.is_healthy:
            sys.exit(EXIT_UNHEALTHY)
