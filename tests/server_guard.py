"""Own one private database server: start it, say so, and remove every trace once stdin closes.

    server_guard.py ALIAS relaxed|durable [SERVER_OPTION ...]

It prints one JSON line, {"port": ...} or {"error": ...}. Whoever started it holds its stdin: the
pipe closes when that process lets go or dies, so a server never outlives its test run.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

SERVER_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin"])
MYSQL_SCRIPT = Path(__file__).resolve().parents[1] / "../shared/bin/mysql-server"
SETUP_SECONDS = 400
READY_SECONDS = 60
STOP_SECONDS = 30


class Unavailable(Exception):
    """This server cannot be had here; the message says why."""


class PrivateServer:
    """A server process on a data directory of its own."""

    ready: ClassVar[str]
    relaxed: ClassVar[Sequence[str]]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    user: str | None = None

    def __init__(self, directory: Path, options: Sequence[str], *, durable: bool) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.log = directory / "server.log"
        self.options = [*([] if durable else self.relaxed), *options]
        self.process: subprocess.Popen[bytes] | None = None

    def setup_command(self) -> Sequence[str]:
        raise NotImplementedError

    def command(self, port: int) -> Sequence[str]:
        raise NotImplementedError

    def initialise(self) -> None:
        if self.user:
            shutil.chown(self.directory, self.user)
        with self.log.open("ab") as log:
            status = self._spawn(self.setup_command(), log.fileno()).wait(SETUP_SECONDS)
        if status:
            raise Unavailable(f"its data cannot be set up: {last_lines(self.log)}")

    def start(self, port: int) -> None:
        with self.log.open("wb") as log:
            self.process = self._spawn(self.command(port), log.fileno())
        deadline = threading.Event()
        timer = threading.Timer(READY_SECONDS, deadline.set)
        timer.start()
        try:
            while not re.search(self.ready, self.log.read_text(errors="replace")):
                if self.process.poll() is not None or deadline.wait(0.05):
                    raise Unavailable(f"the server did not start: {last_lines(self.log)}")
        finally:
            timer.cancel()

    def stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _environment(self) -> dict[str, str]:
        # A MariaDB that starts deletes temporary tables of others that it finds beside its own.
        return {**os.environ, "TMPDIR": str(self.directory)}

    def _spawn(self, command: Sequence[str], output: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=self.directory,
            env=self._environment(),
            user=self.user,
            group=self.user,
            extra_groups=[] if self.user else None,
        )


class MariaDB(PrivateServer):
    ready = r"ready for connections"
    relaxed: ClassVar[Sequence[str]] = (
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-flush-method=nosync",
        "--skip-innodb-doublewrite",
    )

    def setup_command(self) -> Sequence[str]:
        return [
            find_program("mariadb-install-db"),
            "--no-defaults",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            *run_as_root(),
            f"--datadir={self.data}",
        ]

    def command(self, port: int) -> Sequence[str]:
        return [find_program("mariadbd"), "--no-defaults", *self._options(port)]

    def _options(self, port: int) -> Sequence[str]:
        return [
            *run_as_root(),
            f"--datadir={self.data}",
            f"--socket={self.directory / 'socket'}",
            f"--pid-file={self.directory / 'pid'}",
            "--bind-address=127.0.0.1",
            f"--port={port}",
            *mysql_options(),
            *self.options,
        ]


class MySQL(MariaDB):
    """Genuine MySQL from the path."""

    ready = r"ready for connections.*port: [1-9]"
    relaxed = (
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-flush-method=nosync",
        "--skip-innodb-doublewrite",
        "--skip-log-bin",
    )

    def setup_command(self) -> Sequence[str]:
        return [
            *[self._program(), "--no-defaults", "--initialize-insecure"],
            *[*run_as_root(), f"--datadir={self.data}"],
        ]

    def command(self, port: int) -> Sequence[str]:
        return [self._program(), "--no-defaults", "--mysqlx=OFF", *self._options(port)]

    @staticmethod
    def _program() -> str:
        return find_program("mysqld")


class ScriptedMySQL(MySQL):
    """Genuine MySQL through the project's shared script, which installs and daemonises it."""

    def initialise(self) -> None:
        pass

    def start(self, port: int) -> None:
        self._run("start", str(self.directory), str(port), *mysql_options(), *self.options)

    def stop(self) -> None:
        if (self.directory / "pid").exists():
            self._run("stop", str(self.directory))

    def _run(self, *arguments: str) -> None:
        result = subprocess.run(
            ["bash", str(MYSQL_SCRIPT), *arguments],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SETUP_SECONDS,
        )
        if result.returncode:
            output = (result.stdout + result.stderr).split("\n")
            raise Unavailable(" ".join(["mysql-server failed:", *output[-4:]]).strip())


class PostgreSQL(PrivateServer):
    ready = r"ready to accept connections"
    relaxed = ("-cfsync=off", "-csynchronous_commit=off", "-cfull_page_writes=off")
    stop_signal = signal.SIGINT

    # PostgreSQL refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None

    def setup_command(self) -> Sequence[str]:
        # A collation of human language shows every place where the bytewise one is not asked for.
        return [
            *[find_postgresql_program("initdb"), f"--pgdata={self.data}", "--username=postgres"],
            *["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"],
            *["--locale-provider=icu", "--icu-locale=en"],
        ]

    def command(self, port: int) -> Sequence[str]:
        return [
            *[find_postgresql_program("postgres"), "-D", str(self.data), "-p", str(port)],
            *["-clisten_addresses=127.0.0.1", "-cunix_socket_directories=", "-clc_messages=C"],
            *["-cmax_connections=300", "-ctimezone=Asia/Kolkata"],
            *self.options,
        ]


def run_as_root() -> Sequence[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def mysql_options() -> Sequence[str]:
    # A session zone that is not UTC shows every place where local time is taken for UTC.
    return [
        "--max-connections=300",
        "--character-set-server=utf8mb4",
        "--default-time-zone=+05:30",
    ]


def find_program(name: str) -> str:
    program = shutil.which(name, path=SERVER_PATH)
    if program is None:
        raise Unavailable(f"no {name} on the path")
    return program


def find_postgresql_program(name: str) -> str:
    def version(directory: Path) -> int:
        return int(directory.name) if directory.name.isdigit() else 0

    for directory in sorted(Path("/usr/lib/postgresql").glob("*"), key=version, reverse=True):
        if (directory / "bin" / name).exists():
            return str(directory / "bin" / name)
    return find_program(name)


def mysql_class() -> type[PrivateServer]:
    # Debian calls MariaDB's server mysqld, too.
    program = shutil.which("mysqld", path=SERVER_PATH)
    if program:
        version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        if "MariaDB" not in version:
            return MySQL
    if MYSQL_SCRIPT.exists():
        return ScriptedMySQL
    raise Unavailable("no genuine MySQL: neither a mysqld on the path nor shared/bin/mysql-server")


def server_class(alias: str) -> type[PrivateServer]:
    if alias == "mysql":
        return mysql_class()
    return {"mariadb": MariaDB, "postgresql": PostgreSQL}[alias]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def last_lines(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").strip().splitlines()[-3:])


def start_on_free_port(server: PrivateServer) -> int:
    port = free_port()
    try:
        server.start(port)
    except Unavailable:
        # Another process may have taken the port between the look and the start.
        server.stop()
        port = free_port()
        server.start(port)
    return port


def say(**message: object) -> None:
    # Whoever asked may be gone by now.
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(message), flush=True)


def guard(alias: str, options: Sequence[str], *, durable: bool) -> None:
    directory = Path(tempfile.mkdtemp(prefix=f"skipper-{alias}-"))
    server: PrivateServer | None = None
    try:
        server = server_class(alias)(directory, options, durable=durable)
        server.initialise()
        say(port=start_on_free_port(server))
        sys.stdin.read()
    except (Unavailable, OSError, subprocess.SubprocessError) as error:
        say(error=str(error))
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    guard(sys.argv[1], sys.argv[3:], durable=sys.argv[2] == "durable")


if __name__ == "__main__":
    main()
