"""System checks of the databases that hold a queue: every option that would hurt.

Errors are E, warnings W; each names the setting and the remedy. docs/checks.md lists them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from django.apps import apps
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connections, router

from . import conf

MIN_SQLITE_TIMEOUT_SECONDS = 5
ISOLATION_NAMES = ("transaction_isolation", "tx_isolation")  # the second until MariaDB 11.1
HARMFUL_ISOLATION = ("repeatable read", "serializable")


@register
def check_queue_databases(**kwargs: Any) -> list[CheckMessage]:
    """The options of each database that holds a queue, as far as the settings tell."""
    messages: list[CheckMessage] = []
    for alias in conf.queue_aliases():
        if alias not in conf.databases():
            messages.append(
                Error(
                    f"The queue's database {alias!r} is not in DATABASES.",
                    hint=f"Known aliases: {', '.join(conf.databases())}. Correct DATABASE.",
                    id="skipper.E003",
                )
            )
            continue
        messages += _check_alias(alias)
        messages += _check_options(alias)
    return messages


@register(Tags.database)
def check_live_databases(*, databases: Any = None, **kwargs: Any) -> list[CheckMessage]:
    """What only the server knows; runs with `check --database` and `migrate`."""
    messages: list[CheckMessage] = []
    for alias in conf.queue_aliases():
        if alias in (databases or ()) and alias in conf.databases():
            live = LIVE_CHECKS.get(connections[alias].vendor)
            messages += live(alias) if live else ()
    return messages


def _check_alias(alias: str) -> Iterator[CheckMessage]:
    if connections[alias].vendor not in LIVE_CHECKS:
        yield Error(
            f"The queue's database {alias!r} is {connections[alias].display_name}.",
            hint="Use SQLite, MySQL, MariaDB or PostgreSQL.",
            id="skipper.E004",
        )
    forbidden = [
        str(model._meta.model_name)
        for model in apps.get_app_config("skipper_django").get_models()
        if not router.allow_migrate(alias, "skipper_django", model_name=model._meta.model_name)
    ]
    if forbidden:
        yield Error(
            f"A database router forbids {' and '.join(forbidden)} of skipper_django on {alias!r}, "
            "where the queue is configured to be: tasks and members share one database.",
            hint="Let allow_migrate() accept the whole app there, or correct DATABASE.",
            id="skipper.E005",
        )
    if alias != "default":
        yield Warning(
            f"The queue lives in database {alias!r}: an enqueue joins the transactions of that "
            "alias only, not those of 'default'.",
            hint=(
                "Enqueue with transaction.on_commit(..., using='default') where the task needs "
                "what another alias commits, or keep the queue in that database."
            ),
            id="skipper.W001",
        )


def _check_options(alias: str) -> Iterator[CheckMessage]:
    options = connections[alias].settings_dict.get("OPTIONS") or {}
    if connections[alias].vendor == "sqlite":
        yield from _check_sqlite_options(alias, options)
        return
    level = _level_name(connections[alias].vendor, options.get("isolation_level"))
    if level in HARMFUL_ISOLATION:
        yield _harmful_isolation(alias, level)


def _level_name(vendor: str, level: Any) -> str:
    if vendor == "postgresql" and level is not None:
        from django.db.backends.postgresql.psycopg_any import IsolationLevel

        try:
            level = IsolationLevel(level).name
        except ValueError:
            return ""  # Django refuses it, too
    return str(level).lower().replace("_", " ")


def _harmful_isolation(alias: str, level: str) -> Warning:
    return Warning(
        f"Database {alias!r} runs at isolation level {level!r}: enqueues and claims wait for "
        "each other, or fail and are repeated.",
        hint="Set OPTIONS['isolation_level'] to read committed, as Django does by itself on MySQL, "
        "or make it the server's default.",
        id="skipper.W002",
    )


def _check_sqlite_options(alias: str, options: Mapping[str, Any]) -> Iterator[CheckMessage]:
    timeout = options.get("timeout", MIN_SQLITE_TIMEOUT_SECONDS)
    if isinstance(timeout, (int, float)) and timeout < MIN_SQLITE_TIMEOUT_SECONDS:
        yield Warning(
            f"Database {alias!r} waits only {timeout} s for a locked SQLite file.",
            hint=f"Set OPTIONS['timeout'] to {MIN_SQLITE_TIMEOUT_SECONDS} seconds or more.",
            id="skipper.W003",
        )
    if str(options.get("transaction_mode") or "").upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield Warning(
            f"Database {alias!r} begins transactions in SQLite's deferred mode: one that reads "
            "before it enqueues fails at once with 'database is locked' while a worker writes.",
            hint="Set OPTIONS['transaction_mode'] to 'IMMEDIATE'.",
            id="skipper.W004",
        )


def _live_mysql(alias: str) -> Iterator[CheckMessage]:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT @@SESSION.sql_mode")
        (mode,) = cursor.fetchone()
        cursor.execute("SHOW SESSION VARIABLES WHERE Variable_name IN (%s, %s)", ISOLATION_NAMES)
        level = cursor.fetchone()[1].lower().replace("-", " ")
    if level in HARMFUL_ISOLATION:
        yield _harmful_isolation(alias, level)
    if not {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"} & set(str(mode).split(",")):
        yield Warning(
            f"Database {alias!r} is not in strict mode: the server may cut values silently.",
            hint="Set OPTIONS['init_command'] to \"SET sql_mode='STRICT_TRANS_TABLES'\".",
            id="skipper.W005",
        )
    yield from _live_collation(alias)


def _live_collation(alias: str) -> Iterator[CheckMessage]:
    table = conf.table_name("scheduler_tasks")
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT collation_name FROM information_schema.columns "
            "WHERE table_schema = DATABASE() AND table_name = %s AND column_name = 'task_id'",
            [table],
        )
        row = cursor.fetchone()
    if row and row[0] not in ("utf8mb4_0900_bin", "utf8mb4_nopad_bin"):
        yield Error(
            f"Column {table}.task_id in database {alias!r} has collation {row[0]}, which does not "
            "compare ids exactly.",
            hint="Convert the column back to utf8mb4_0900_bin (MySQL) or utf8mb4_nopad_bin "
            "(MariaDB): a conversion of the whole database has changed it.",
            id="skipper.E006",
        )


def _live_postgresql(alias: str) -> Iterator[CheckMessage]:
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('default_transaction_isolation'), "
            "current_setting('server_encoding')"
        )
        level, encoding = cursor.fetchone()
    if level in HARMFUL_ISOLATION:
        yield _harmful_isolation(alias, level)
    if encoding != "UTF8":
        yield Error(
            f"Database {alias!r} has the encoding {encoding}, which cannot keep every argument, "
            "result and error text.",
            hint="Create the database with ENCODING 'UTF8'.",
            id="skipper.E007",
        )


def _live_sqlite(alias: str) -> Iterator[CheckMessage]:
    with connections[alias].cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        (mode,) = cursor.fetchone()
    if mode not in ("wal", "memory"):
        yield Warning(
            f"Database {alias!r} is not in WAL mode: its readers and writers block each other.",
            hint="Set OPTIONS['init_command'] to 'PRAGMA journal_mode=WAL'.",
            id="skipper.W006",
        )


LIVE_CHECKS = {"mysql": _live_mysql, "postgresql": _live_postgresql, "sqlite": _live_sqlite}
