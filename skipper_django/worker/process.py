"""Which process this is, and whether another one is certainly gone."""

import os
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """`host_key` is equal for two processes only if each can see whether the other lives."""

    host: str
    host_key: str
    pid: int
    started: str  # clock ticks since boot; "" where the system does not tell


def this_process() -> ProcessIdentity:
    pid = os.getpid()
    return ProcessIdentity(socket.gethostname(), _host_key(), pid, start_of(pid) or "")


def is_certainly_dead(host_key: str, pid: int, started: str) -> bool:
    """True only if that process ran where this one can look, and is not there any more.

    A process id alone proves nothing: it may have been given to another process since.
    """
    if not host_key or host_key != _host_key() or not started:
        return False
    return start_of(pid) != started


def state_of(pid: int, started: str) -> str | None:
    """The system's letter for what the process does; None if it is gone or cannot be seen."""
    stat = _stat(pid)
    return stat[0] if stat is not None and stat[1] == started else None


@lru_cache(maxsize=1)
def _host_key() -> str:
    """Boot and process-id namespace: containers of one host cannot see each other's processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def start_of(pid: int) -> str | None:
    """When the process started, in ticks; None if it is gone or only waits to be reaped."""
    stat = _stat(pid)
    return stat[1] if stat is not None else None


def _stat(pid: int) -> tuple[str, str] | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name of the program, in parentheses, may hold spaces and parentheses of its own.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else (fields[0], fields[19])
