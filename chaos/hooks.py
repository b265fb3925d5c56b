"""What a worker process is made to do or believe, before it starts; the parent says which."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

from django.db.backends.signals import connection_created
from django.utils import timezone

from chaos.effects import NO_TASK, leave
from skipper_django.store import clock, members
from skipper_django.store.dialects import mysql, postgresql, sqlite
from skipper_django.worker import loop, nearby, process
from skipper_django.worker.settle import Settler

STEPPED_CLOCKS: dict[Any, str] = {
    mysql.MySQL: "SELECT UTC_TIMESTAMP(6) + INTERVAL {} SECOND",
    postgresql.PostgreSQL: "SELECT to_char((clock_timestamp() + interval '{} seconds') "
    "AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
    sqlite.SQLite: "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now', '{} seconds')",
}


def halt(moment: dict[str, str]) -> None:
    """Stop the loop for ever at a point, and say so in a file: the parent kills it there."""

    def stop() -> None:
        Path(moment["file"]).touch()
        threading.Event().wait()

    match moment["point"]:
        case "claiming":
            _before(nearby, "take", lambda *_: stop())
            _before(nearby, "take_named", lambda *_: stop())
        case "claimed":
            _before(loop.Worker, "_submit", lambda _, leases, *__: stop() if leases else None)
        case "settling":
            _before(Settler, "settle", lambda settler: stop() if settler.pending else None)


def _before(owner: Any, name: str, first: Callable[..., None]) -> None:
    function = getattr(owner, name)

    @wraps(function)
    def both(*args: Any) -> Any:
        first(*args)
        return function(*args)

    setattr(owner, name, both)


def note_beats(_: bool) -> None:
    """Leave a line after each heartbeat that the database has taken."""
    beat = members.beat

    def noted(*args: Any) -> bool:
        alive = beat(*args)
        leave(NO_TASK, "beat")
        return alive

    members.beat = noted  # type: ignore[assignment]


def note_statements(_: bool) -> None:
    """Leave a line for each statement: its verb. The clock is read below Django, and not noted."""

    def noted(execute: Any, sql: str, *rest: Any) -> Any:
        leave(NO_TASK, sql.lstrip("( ").split(None, 1)[0].upper())
        return execute(sql, *rest)

    def wrap(connection: Any, **_: Any) -> None:
        if noted not in connection.execute_wrappers:
            connection.execute_wrappers.append(noted)

    connection_created.connect(wrap, weak=False)


def host(name: str) -> None:
    """Be on a host of that name: nobody elsewhere can see whether this process lives."""
    process._host_key = lambda: name  # type: ignore[assignment]


def wall_clock(seconds: float) -> None:
    """The clock of this host is wrong by so much."""
    real_time, real_ns, real_now = time.time, time.time_ns, timezone.now
    time.time = lambda: real_time() + seconds
    time.time_ns = lambda: real_ns() + int(seconds * 1e9)
    timezone.now = lambda: real_now() + timedelta(seconds=seconds)


def database_clock(path: str) -> None:
    """The database's clock is ahead by the number in a file, whenever it is asked: every second."""

    def stepped(sql: str) -> property:
        return property(lambda _: sql.format(Path(path).read_text()))

    for dialect, sql in STEPPED_CLOCKS.items():
        dialect.clock_sql = stepped(sql)
    clock.READ_EVERY_SECONDS = 1.0
