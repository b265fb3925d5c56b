"""The tasks: honest work, and poison."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from typing import Any

from django.db import connection, connections, transaction

from chaos.effects import leave
from skipper_django import task

HUGE = 2 * 1024 * 1024


def nap(seconds: float) -> None:
    threading.Event().wait(seconds)


@task
def work(number: int, seconds: float = 0.0) -> int:
    leave(number, "begun")
    nap(seconds)
    leave(number, "done")
    return number


@task
def query(number: int) -> None:
    """Work on the connection that the task before may have left in any state."""
    leave(number, "begun")
    _ask_database()
    leave(number, "done")


def _ask_database() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT 41 + 1")


@task
def soak(number: int) -> int:
    """So little that the queue is what is seen; each tenth uses its thread's connection."""
    leave(number, "begun")
    if number % 10 == 0:
        _ask_database()
    leave(number, "done")
    return number


@task
def exit_process(number: int) -> None:
    leave(number, "begun")
    os._exit(3)


@task
def die_for_memory(number: int) -> None:
    """What the kernel does to the process that has taken too much."""
    leave(number, "begun")
    os.kill(os.getpid(), signal.SIGKILL)


@task
def segfault(number: int) -> None:
    leave(number, "begun")
    ctypes.string_at(0)


@task(timeout=0.3)
def ignore_timeout(number: int) -> None:
    leave(number, "begun")
    while True:
        try:
            nap(60)
        except Exception:
            leave(number, "ignored")


def hold(seconds: float) -> None:
    """Sleep in C code without letting the interpreter go."""
    ctypes.PyDLL(None).usleep(ctypes.c_uint(int(seconds * 1e6)))


@task(timeout=1)
def keep_interpreter_beyond_timeout(number: int, seconds: float) -> None:
    leave(number, "begun")
    hold(seconds)


@task
def keep_interpreter(number: int, seconds: float) -> None:
    leave(number, "begun")
    hold(seconds)
    leave(number, "done")


@task
def leave_transaction_open(number: int) -> None:
    leave(number, "begun")
    transaction.atomic().__enter__()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE skipper_scheduler_tasks SET priority = priority")
    leave(number, "done")


SESSION: dict[str, tuple[str, ...]] = {
    "sqlite": ("PRAGMA foreign_keys=OFF", "PRAGMA busy_timeout=0"),
    "mysql": ("SET time_zone='-11:00'", "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
    "postgresql": (
        "SET timezone='America/Los_Angeles'",
        "SET default_transaction_isolation='serializable'",
    ),
}


@task
def change_session(number: int) -> None:
    leave(number, "begun")
    with connection.cursor() as cursor:
        for statement in SESSION[connection.vendor]:
            cursor.execute(statement)
    leave(number, "done")


@task
def break_connection(number: int) -> None:
    leave(number, "begun")
    connection.ensure_connection()
    connection.connection.close()
    leave(number, "done")


@task
def close_all(number: int) -> None:
    leave(number, "begun")
    for alias in connections:
        connections[alias].close()
    leave(number, "done")


@task
def fork(number: int) -> None:
    """The child comes back from the call, as the parent does."""
    leave(number, "begun")
    connection.ensure_connection()
    if os.fork() == 0:
        leave(number, "forked")
        return
    leave(number, "done")


@task
def fill_stderr(number: int) -> None:
    leave(number, "begun")
    for _ in range(200):
        sys.stderr.write("x" * 100_000 + "\n")
    leave(number, "done")


@task
def return_object(number: int) -> Any:
    leave(number, "begun")
    leave(number, "done")
    return object()


@task
def return_huge(number: int) -> str:
    leave(number, "begun")
    leave(number, "done")
    return "x" * HUGE
