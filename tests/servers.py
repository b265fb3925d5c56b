"""Private database servers for tests and benchmarks, each watched by a guard process of its own.

with running(["mariadb", "postgresql"]) as started:
    started.servers["mariadb"].django_database("name"), started.missing
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from tests.guards import Unavailable, answer_of, release

ALIASES = ("mariadb", "mysql", "postgresql")
DRIVERS = {"mariadb": "MySQLdb", "mysql": "MySQLdb", "postgresql": "psycopg"}
GUARD = Path(__file__).with_name("server_guard.py")
STOP_SECONDS = 60


@dataclass(frozen=True)
class Server:
    """Where a database server answers, and as whom to ask it."""

    alias: str
    host: str
    port: int
    user: str
    password: str = ""

    @classmethod
    def parse(cls, alias: str, address: str) -> Server:
        """Read `user:password@host:port`; a reserved character is written as %40 and so on."""
        account, _, place = address.rpartition("@")
        user, _, password = account.partition(":")
        host, _, port = place.rpartition(":")
        if not (user and host and port.isdigit()):
            raise ValueError(f"{address_variable(alias)} must read user:password@host:port")
        return cls(alias, host, int(port), unquote(user), unquote(password))

    @property
    def address(self) -> str:
        return f"{quote(self.user, '')}:{quote(self.password, '')}@{self.host}:{self.port}"

    def django_database(self, name: str) -> dict[str, Any]:
        """An entry for DATABASES; tests take the database of the same name."""
        postgresql = self.alias == "postgresql"
        return {
            "ENGINE": f"django.db.backends.{'postgresql' if postgresql else 'mysql'}",
            "NAME": name,
            "HOST": self.host,
            "PORT": self.port,
            "USER": self.user,
            "PASSWORD": self.password,
            "OPTIONS": {} if postgresql else {"charset": "utf8mb4"},
            # Child processes read the same settings and so find the very database under test.
            # No dependencies: Django waits for "default" even where no test uses it.
            "TEST": {"NAME": name, "DEPENDENCIES": []}
            | ({} if postgresql else {"CHARSET": "utf8mb4"}),
        }


@dataclass
class Servers:
    """The servers that answer, and for each other one asked for, why it does not."""

    servers: dict[str, Server] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    guards: list[subprocess.Popen[str]] = field(default_factory=list)
    owner: int = field(default_factory=os.getpid)

    def stop(self) -> None:
        """Stop what was started here; a forked child that inherits this object stops nothing."""
        if os.getpid() != self.owner:
            return
        guards, self.guards = self.guards, []
        for guard in guards:
            release(guard)
        for guard in guards:
            _await_end(guard)


def address_variable(alias: str) -> str:
    return f"SKIPPER_TEST_{alias.upper()}_URL"


def named_server(alias: str) -> Server | None:
    """The server that the environment names, if any."""
    address = os.environ.get(address_variable(alias))
    return Server.parse(alias, address) if address else None


def start(
    aliases: Iterable[str] = ALIASES,
    *,
    durable: bool = False,
    options: Mapping[str, Sequence[str]] | None = None,
) -> Servers:
    """Start the servers side by side; they stop with `stop()`, or with this process at the latest.

    `durable` keeps each server's own defaults, a flush at every commit; `options` are further
    options of a server by its alias.
    """
    started = Servers()
    atexit.register(started.stop)
    guards: dict[str, subprocess.Popen[str]] = {}
    for alias in aliases:
        if reason := _missing_driver(alias):
            started.missing[alias] = reason
        elif server := named_server(alias):
            started.servers[alias] = server
        else:
            guards[alias] = _start_guard(alias, durable, (options or {}).get(alias, ()))
            started.guards.append(guards[alias])
    for alias, guard in guards.items():
        _await_ready(started, alias, guard)
    return started


@contextlib.contextmanager
def running(
    aliases: Iterable[str] = ALIASES,
    *,
    durable: bool = False,
    options: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[Servers]:
    started = start(aliases, durable=durable, options=options)
    try:
        yield started
    finally:
        started.stop()


def _missing_driver(alias: str) -> str | None:
    try:
        importlib.import_module(DRIVERS[alias])
    except ImportError as error:
        return f"no database driver: {error}"
    return None


def _start_guard(alias: str, durable: bool, options: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", str(GUARD), alias, "durable" if durable else "relaxed", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Ctrl-C at the terminal reaches only the tests, which then still have their servers.
        start_new_session=True,
    )


def _await_ready(started: Servers, alias: str, guard: subprocess.Popen[str]) -> None:
    try:
        answer = answer_of(guard)
    except Unavailable as error:
        started.missing[alias] = str(error)
    else:
        user = "postgres" if alias == "postgresql" else "root"
        started.servers[alias] = Server(alias, "127.0.0.1", answer["port"], user)


def _await_end(guard: subprocess.Popen[str]) -> None:
    try:
        guard.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        guard.terminate()
        guard.wait()
