"""What the tests of the stand-in ask of processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from skipper_django.models import Member
from tests.worker.conftest import ProcessWorker

SHORT = {"LEASE_DURATION": 2, "CLUSTER_HEARTBEAT_INTERVAL": 1, "CLUSTER_LIVENESS_WINDOW": 3}
HELD = "a task holds the interpreter"
FREE = "has its interpreter back"


def state_of(pid: int) -> str:
    """The system's letter for it; empty if it is gone or only waits to be reaped."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    return "" if letter in "ZX" else letter


def children_of(pid: int) -> set[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return {int(child) for child in path.read_text().split()}


def stand_in_of(worker: ProcessWorker, alias: str) -> int:
    members = set(Member.objects.using(alias).values_list("pid", flat=True))
    (pid,) = children_of(worker.process.pid) - members
    return pid


def beaten(alias: str) -> Any:
    return Member.objects.using(alias).order_by("started_at")[0].heartbeat_at


def ignores(pid: int, *numbers: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(next(line.split()[1] for line in status.splitlines() if "SigIgn" in line), 16)
    return all(mask >> number - 1 & 1 for number in numbers)


def links_of(pid: int) -> set[str]:
    """What it has open that may lead to a database: sockets, and the file of SQLite."""
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.startswith("socket:") or "test_skipper" in target:
            found.add(target)
    return found
