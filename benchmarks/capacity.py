"""The model of capacity: what a task costs in processor time, and what a machine can do by that."""

from __future__ import annotations

import os
import resource
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.databases import Target
from benchmarks.processes import worker
from benchmarks.queue import Bench, Figures

PROCESSES = "2"
MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Spent:
    """Processor seconds."""

    worker: float
    server: float

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.worker - other.worker, self.server - other.server)


def measure(bench: Bench) -> Figures:
    """A drain by two processes, without what an empty one takes, so without starting and ending.

    The prediction: client and server share the cores, and nothing else is in the way.
    """
    count = bench.plan.tasks
    drain = _spent_draining(bench, count) - _spent_draining(bench, 0)
    seconds = (drain.worker + drain.server) / count
    return {
        "cost_worker": drain.worker / count * MICROSECONDS,
        "cost_server": drain.server / count * MICROSECONDS,
        "capacity_predicted": len(os.sched_getaffinity(0)) / seconds,
    }


def _spent_draining(bench: Bench, count: int) -> Spent:
    bench.clear()
    bench.fill(count)
    server = _server_process(bench.target)
    before = _spent(server)
    with worker(bench.target.directory, "--drain", "--processes", PROCESSES) as running:
        running.wait()
    spent = _spent(server) - before
    bench.check(count)
    return spent


def _spent(server: int | None) -> Spent:
    """By all child processes that have ended, and by the server's."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Spent(usage.ru_utime + usage.ru_stime, _of_tree(server) if server else 0.0)


def _server_process(target: Target) -> int | None:
    """The process of the private server; SQLite has none."""
    if target.server is None:
        return None
    postgresql = target.name == "postgresql"
    with closing(target.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SHOW data_directory" if postgresql else "SELECT @@pid_file")
        (path,) = cursor.fetchone()
    file = Path(path) / "postmaster.pid" if postgresql else Path(path)
    return int(file.read_text().split()[0])


def _of_tree(pid: int) -> float:
    """Seconds of a process and its children, those that have ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(_of_tree(int(child)) for child in children)
