"""The databases under measurement: private servers with durable defaults, their raw drivers, and
how many statements they were sent."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.apps import TRACE_VARIABLE
from tests import servers

NAMES = ("sqlite", "mariadb", "mysql", "postgresql")
DATABASE_NAME = "skipper_bench"
SQLITE_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"
# Loaded, but silent until a database asks for it: it costs nothing where nothing is counted.
POSTGRESQL_OPTIONS = (
    "-cshared_preload_libraries=pg_stat_statements",
    "-cpg_stat_statements.track=none",
)


@dataclass(frozen=True)
class Target:
    """A database under measurement, with the directory for the files of its runs."""

    name: str
    directory: Path
    server: servers.Server | None = None

    def django_database(self) -> dict[str, Any]:
        if self.server is not None:
            return self.server.django_database(DATABASE_NAME)
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(self.directory / "queue.sqlite3"),
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": SQLITE_PRAGMAS,
            },
        }

    def connect(self, database: str = DATABASE_NAME) -> Any:
        """A connection of the plain driver, each statement its own transaction."""
        server = self.server
        if server is None:
            connection = sqlite3.connect(self.directory / "queue.sqlite3", isolation_level=None)
            connection.executescript(SQLITE_PRAGMAS)
            return connection
        driver: Any = importlib.import_module(servers.DRIVERS[server.alias])
        place = {"host": server.host, "port": server.port, "user": server.user}
        if server.alias == "postgresql":
            return driver.connect(
                **place, password=server.password, dbname=database, autocommit=True
            )
        return driver.connect(
            **place,
            passwd=server.password,
            database=database,
            charset="utf8mb4",
            autocommit=True,
        )

    def create(self) -> None:
        """A new, empty database of our name."""
        if self.server is None:
            return
        postgresql = self.name == "postgresql"
        connection = self.connect("postgres" if postgresql else "mysql")
        with contextlib.closing(connection), contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE_NAME}")
            charset = "" if postgresql else " CHARACTER SET utf8mb4"
            cursor.execute(f"CREATE DATABASE {DATABASE_NAME}{charset}")

    def environment(self) -> dict[str, str]:
        """What `benchmarks.settings` and the workers read."""
        return {
            "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
            "SKIPPER_BENCH_DATABASE": self.name,
            "SKIPPER_BENCH_DATABASES": json.dumps({self.name: self.django_database()}),
        }

    def version(self) -> str:
        if self.server is None:
            return f"SQLite {sqlite3.sqlite_version}"
        with contextlib.closing(self.connect()) as connection:
            version = str(_one(connection, "SELECT version()"))
        product = {"mariadb": "MariaDB", "mysql": "MySQL", "postgresql": "PostgreSQL"}[self.name]
        return f"{product} {version.removeprefix('PostgreSQL ').split()[0].split('-')[0]}"


@contextlib.contextmanager
def running(names: list[str]) -> Iterator[tuple[dict[str, Target], dict[str, str]]]:
    """The targets by name, and for each that cannot be had, why."""
    aliases = [name for name in names if name != "sqlite"]
    directory = Path(tempfile.mkdtemp(prefix="skipper-bench-"))
    try:
        with servers.running(
            aliases, durable=True, options={"postgresql": POSTGRESQL_OPTIONS}
        ) as started:
            targets = {}
            for name in names:
                if name == "sqlite" or name in started.servers:
                    targets[name] = Target(name, directory / name, started.servers.get(name))
                    targets[name].directory.mkdir()
            yield targets, started.missing
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _one(connection: Any, sql: str) -> Any:
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[-1]


class StatementCounter:
    """How many statements a database was sent, the counter's own left out.

    MySQL, MariaDB: `Questions` of the server. PostgreSQL: calls in pg_stat_statements, transaction
    control included. SQLite: its trace callback inside the worker.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._trace = target.directory / "statements"
        self._connection: Any = None
        self._own = 0

    def __enter__(self) -> StatementCounter:
        name = self._target.name
        if name == "sqlite":
            self._trace.write_bytes(b"")
            os.environ[TRACE_VARIABLE] = str(self._trace)
        else:
            self._connection = self._target.connect(
                "postgres" if name == "postgresql" else DATABASE_NAME
            )
        if name == "postgresql":
            self._execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            self._execute(f"ALTER DATABASE {DATABASE_NAME} SET pg_stat_statements.track = 'top'")
            self._execute("SELECT pg_stat_statements_reset()")
        return self

    def __exit__(self, *exception: object) -> None:
        os.environ.pop(TRACE_VARIABLE, None)
        if self._target.name == "postgresql":
            self._execute(f"ALTER DATABASE {DATABASE_NAME} RESET pg_stat_statements.track")
        if self._connection is not None:
            self._connection.close()

    def read(self) -> int:
        """Statements so far; only differences mean something."""
        if self._target.name == "sqlite":
            return self._trace.stat().st_size
        if self._target.name == "postgresql":
            dropped = _one(self._connection, "SELECT dealloc FROM pg_stat_statements_info")
            assert dropped == 0, "pg_stat_statements has forgotten statements: the count is wrong"
            calls = "SELECT COALESCE(SUM(calls), 0) FROM pg_stat_statements s "
            database = f"JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = '{DATABASE_NAME}'"
            return int(_one(self._connection, calls + database))
        self._own += 1
        return int(_one(self._connection, "SHOW GLOBAL STATUS LIKE 'Questions'")) - self._own

    def _execute(self, sql: str) -> None:
        with contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(sql)
