"""The databases under fault: private servers with durable defaults, and a user without powers."""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db import connections

from tests import servers
from tests.guards import answer_of, release, tell

NAMES = ("sqlite", *servers.ALIASES)
SERVERS = servers.ALIASES
PROJECT = Path(__file__).parents[1]
SQLITE = {
    "timeout": 20,
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
}


def mount_small_disk(directory: Path) -> Path | None:
    """Put a file system of 64 MB there, which can be filled; None where that is not permitted."""
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(directory)]
    with contextlib.suppress(OSError):
        if subprocess.run(command, capture_output=True).returncode == 0:
            return directory
    return None


class Database:
    """One of the four; `name` is also its alias in the parent."""

    def __init__(self, name: str, directory: Path, *options: str) -> None:
        self.name = name
        self.is_server = name != "sqlite"
        self.port = 0
        self.disk = None if self.is_server else mount_small_disk(directory)
        self._file = directory / "queue.sqlite3"
        self._guard: subprocess.Popen[str] | None = None
        if self.is_server:
            self._start_guard(options)
            self._create()
        settings = {**connections.settings["default"], **self.django()}
        connections.settings[name] = settings

    def _start_guard(self, options: tuple[str, ...]) -> None:
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "chaos.guard", self.name, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
            start_new_session=True,
        )
        self.port = answer_of(self._guard)["port"]

    def tell(self, command: str) -> None:
        """Let the guard `stop`, `kill` or `start` the server; returns when that is done."""
        assert self._guard is not None
        tell(self._guard, command)

    def close(self) -> None:
        connections[self.name].close()
        if self.disk is not None:
            subprocess.run(["umount", self.disk], check=True)
        if self._guard is not None:
            release(self._guard)
            self._guard.wait(60)

    def _create(self) -> None:
        with self.admin("postgres" if self.name == "postgresql" else "mysql") as execute:
            if self.name == "postgresql":
                execute("CREATE ROLE skipper LOGIN")
                execute("CREATE DATABASE chaos OWNER skipper")
                return
            execute("CREATE DATABASE chaos CHARACTER SET utf8mb4")
            execute("CREATE USER skipper@'%' IDENTIFIED BY ''")
            execute("GRANT ALL ON chaos.* TO skipper@'%'")

    def django(self, port: int | None = None, **options: Any) -> dict[str, Any]:
        """An entry for DATABASES: as an ordinary user, perhaps through another port."""
        if not self.is_server:
            return {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": str(self._file),
                "OPTIONS": SQLITE | options,
            }
        server = servers.Server(self.name, "127.0.0.1", port or self.port, "skipper")
        entry = server.django_database("chaos")
        return {**entry, "OPTIONS": entry["OPTIONS"] | options}

    @contextlib.contextmanager
    def admin(self, database: str = "chaos", user: str = "") -> Iterator[Any]:
        """Execute statements on a connection of the plain driver, each its own transaction."""
        connection = self.connect(database, user)
        with contextlib.closing(connection), contextlib.closing(connection.cursor()) as cursor:

            def execute(sql: str) -> list[tuple[Any, ...]]:
                cursor.execute(sql)
                return list(cursor.fetchall()) if cursor.description else []

            yield execute

    def connect(self, database: str = "chaos", user: str = "") -> Any:
        driver: Any = importlib.import_module(servers.DRIVERS[self.name])
        place = {"host": "127.0.0.1", "port": self.port, "autocommit": True}
        if self.name == "postgresql":
            return driver.connect(**place, user=user or "postgres", dbname=database)
        return driver.connect(**place, user=user or "root", database=database)

    def sessions(self) -> list[int]:
        """The sessions of the ordinary user, those of the workers and of the parent."""
        with self.admin() as execute:
            if self.name == "postgresql":
                found = execute("SELECT pid FROM pg_stat_activity WHERE usename = 'skipper'")
            else:
                found = execute(
                    "SELECT id FROM information_schema.processlist WHERE user = 'skipper'"
                )
        return [int(session) for (session,) in found]

    def end_session(self, session: int, execute: Any) -> None:
        """Kill it, by an open connection of the administrator."""
        postgresql = self.name == "postgresql"
        with contextlib.suppress(Exception):  # it may be gone by now
            execute(f"SELECT pg_terminate_backend({session})" if postgresql else f"KILL {session}")

    def version(self) -> str:
        connection = connections[self.name]
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {'version()' if self.is_server else 'sqlite_version()'}")
            version = str(cursor.fetchone()[0])
        product = {"mariadb": "MariaDB", "mysql": "MySQL", "postgresql": "PostgreSQL"}
        number = version.removeprefix("PostgreSQL ").split()[0].split("-")[0]
        return f"{product.get(self.name, 'SQLite')} {number}"
