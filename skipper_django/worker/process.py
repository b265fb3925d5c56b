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
    return ProcessIdentity(socket.gethostname(), _host_key(), pid, _started(pid) or "")


def is_certainly_dead(host_key: str, pid: int, started: str) -> bool:
    """True only if that process ran where this one can look, and is not there any more.

    A process id alone proves nothing: it may have been given to another process since.
    """
    if not host_key or host_key != _host_key() or not started:
        return False
    return _started(pid) != started


@lru_cache(maxsize=1)
def _host_key() -> str:
    """Boot and process-id namespace: containers of one host cannot see each other's processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When the process started, in ticks; None if it is gone or only waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name of the program, in parentheses, may hold spaces and parentheses of its own.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]
