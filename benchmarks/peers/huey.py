"""huey, on SQLite and Redis. It deletes a task before it runs it: at most once."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from benchmarks.effects import leave
from benchmarks.peers.base import WORK, Peer


class Huey(Peer):
    name = "huey"
    requirements = ("huey", "redis")
    databases = ("sqlite", "redis")
    setting = (
        "consumer with N processes (`-k process -w N`), else its defaults; at most once; "
        "Redis not durable by task"
    )
    uses_django = False

    @cached_property
    def queue(self) -> Any:
        import huey

        if self.database == "redis":
            place = {"host": self.connection["HOST"], "port": self.connection["PORT"]}
            return huey.RedisHuey("bench", **place)
        return huey.SqliteHuey("bench", filename=self.connection["NAME"])

    @cached_property
    def noop(self) -> Any:
        return self.queue.task(name="noop")(leave)

    def set_up(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.queue.storage.flush_all()

    def enqueue(self, number: int) -> None:
        self.noop(number)

    def fill(self, numbers: range) -> None:
        self.singles(numbers)

    def left(self) -> int:
        return int(self.queue.pending_count())

    def workers(self, processes: int) -> list[list[str]]:
        return [[*WORK, str(processes)]]

    def work(self) -> None:
        import sys

        assert self.noop
        self.queue.create_consumer(workers=int(sys.argv[1]), worker_type="process").run()
