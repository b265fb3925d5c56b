"""Tasks for workers of other processes: what they did is written to a file, line by line."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from django.db import connections, transaction

from skipper_django import fixed, task


def note(path: str, line: str) -> None:
    """Append one line in one write, so that lines of several processes do not mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def lines(path: str | Path) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def nap(seconds: float) -> None:
    """In C code all at once, as a slow call of a library would be: no exception gets in."""
    threading.Event().wait(seconds)


@task
def record(path: str, line: str) -> None:
    note(path, line)


@task
def slow(path: str, line: str, seconds: float) -> str:
    note(path, f"start {line}")
    nap(seconds)
    note(path, f"end {line}")
    return line


@task(timeout=0.3)
def loop_for_ever(path: str) -> None:
    note(path, "start")
    while True:
        pass


# Lets the stuck tasks below end, once their test has seen what it wanted.
let_go = threading.Event()


@task(timeout=0.3)
def swallow_timeout(path: str) -> None:
    note(path, "start")
    while not let_go.is_set():
        try:
            while not let_go.wait(0.01):
                pass
        except Exception:
            note(path, "swallowed")


@task(timeout=0.3, max_attempts=2, backoff=fixed(0))
def timeout_twice(path: str) -> None:
    note(path, "start")
    while True:
        pass


@task(timeout=0.3)
async def async_loop_for_ever(path: str) -> None:
    note(path, "start")
    try:
        await asyncio.Event().wait()
    finally:
        note(path, "cancelled")


@task(timeout=0.2)
def hang_in_c(path: str) -> None:
    note(path, f"start {os.getpid()}")
    let_go.wait(60)


@task(timeout=30)
def quick_with_timeout() -> int:
    return 7


@task
async def async_nap(path: str, line: str) -> None:
    note(path, f"start {line}")
    await asyncio.sleep(0.2)
    note(path, f"end {line}")


@task
def exit_process() -> None:
    os._exit(3)


@task
def kill_own_process(path: str) -> None:
    note(path, f"start {os.getpid()}")
    os.kill(os.getpid(), 9)


@task
def raise_system_exit() -> None:
    sys.exit(4)


@task
def leave_transaction_open(alias: str) -> None:
    transaction.atomic(alias).__enter__()


@task
def close_connections() -> None:
    connections.close_all()


@task
def query(alias: str) -> int:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT 41 + 1")
        return int(cursor.fetchone()[0])


@task
def use_connection(alias: str) -> list[Any]:
    connections[alias].ensure_connection()
    return [threading.get_ident(), len(connections[alias].queries_log)]


@task
async def async_query(alias: str) -> int:
    from skipper_django.models import Task

    return await Task.objects.using(alias).filter(status=2).acount()


@task
def clock_now() -> float:
    return time.monotonic()


@task
def uses_connection(alias: str) -> bool:
    return connections[alias].connection is not None


@task(max_attempts=2, backoff=fixed(1))
def fail_once(path: str) -> None:
    note(path, "attempt")
    if len(lines(path)) == 1:
        raise ValueError("the first time")


# Calls of this library keep the interpreter, as those of many an extension do.
_holding = ctypes.PyDLL(None)


def hold(seconds: float) -> None:
    """For so long no other thread of the process runs; no exception gets in."""
    _holding.usleep(int(seconds * 1_000_000))


@task
def hold_interpreter(path: str, line: str, seconds: float) -> None:
    note(path, f"start {line}")
    hold(seconds)
    note(path, f"end {line}")


@task(timeout=1)
def hold_past_timeout(path: str, seconds: float) -> None:
    note(path, "start past")
    hold(seconds)


def hang(error: BaseException, result: Any) -> float:
    hold(60)
    return 0.0


@task(timeout=1, max_attempts=2, backoff=hang)
def hold_past_timeout_and_in_backoff(path: str, seconds: float) -> None:
    note(path, "start past")
    hold(seconds)


@task(timeout=1, max_attempts=2, backoff=fixed(0))
def hold_past_timeout_twice(path: str, seconds: float) -> None:
    note(path, "start past")
    hold(seconds)
