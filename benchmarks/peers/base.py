"""What the comparison needs of a queue.

The class is read on both sides: by the comparison, which has none of the peers' libraries, for
what it says of itself; and in the peer's own virtual environment, where its methods run. So a
peer's library is imported inside methods only, and nothing here needs more than Python.
"""

from __future__ import annotations

import json
import os
import sys
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar

# Which peer this process plays, and on what: {"database": name, "connection": {...}}.
PEER_VARIABLE = "SKIPPER_BENCH_PEER"
PLACE_VARIABLE = "SKIPPER_BENCH_PLACE"

SERVERS = ("mariadb", "mysql", "postgresql")
DJANGO = ("Django==6.1.*", "mysqlclient", "psycopg[binary]")
PROCESSES_VARIABLE = "SKIPPER_BENCH_PROCESSES"  # for peers that read it from their settings


class Peer(ABC):
    """A queue, its tasks and its workers, on one database."""

    name: ClassVar[str]  # as on the package index
    requirements: ClassVar[tuple[str, ...]] = ()
    databases: ClassVar[tuple[str, ...]] = ("sqlite", *SERVERS)
    setting: ClassVar[str]  # how its workers run, for the documents
    bulk: ClassVar[bool] = False  # it has a call that enqueues many tasks
    backlog: ClassVar[bool] = False  # measured with 100,000 tasks waiting
    deferring: ClassVar[bool] = False  # measured with 100,000 tasks due later
    uses_django: ClassVar[bool] = True

    def __init__(self) -> None:
        place = json.loads(os.environ[PLACE_VARIABLE])
        self.database: str = place["database"]
        self.connection: dict[str, Any] = place["connection"]

    @abstractmethod
    def set_up(self) -> None:
        """Its tables, in an empty database."""

    @abstractmethod
    def clear(self) -> None:
        """No tasks, as after `set_up`; no worker runs meanwhile."""

    @abstractmethod
    def enqueue(self, number: int) -> None:
        """One task, committed on return."""

    @abstractmethod
    def fill(self, numbers: range) -> None:
        """Many tasks in the fastest documented way: its bulk call, or one transaction."""

    @abstractmethod
    def left(self) -> int:
        """Tasks of which its own records do not say that they are done; deferred ones apart."""

    @abstractmethod
    def workers(self, processes: int) -> list[list[str]]:
        """The commands that start this many worker processes in all."""

    def singles(self, numbers: range) -> None:
        for number in numbers:
            self.enqueue(number)

    def defer(self, count: int) -> None:
        """Tasks that are due in hours, at once."""
        raise NotImplementedError

    def work(self) -> None:
        """Be one worker process until a signal: what `WORK` starts."""
        raise NotImplementedError

    @cached_property
    def dsn(self) -> str:
        """The address of the PostgreSQL database."""
        place = self.connection
        return f"postgresql://{place['USER']}@{place['HOST']}:{place['PORT']}/{place['NAME']}"


WORK = [sys.executable, "-m", "benchmarks.peers.work"]


def play() -> Peer:
    """The peer that the environment names."""
    from benchmarks.peers import load

    return load(os.environ[PEER_VARIABLE])()
