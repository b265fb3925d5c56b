"""procrastinate, on PostgreSQL only."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import Any

from benchmarks.effects import leave
from benchmarks.peers.base import WORK, Peer


class Procrastinate(Peer):
    name = "procrastinate"
    requirements = ("procrastinate", "psycopg[binary,pool]")
    databases = ("postgresql",)
    setting = "N x `run_worker`, concurrency 1, its default; async task"
    bulk = backlog = True
    uses_django = False

    def _app(self, connector: Any) -> Any:
        import procrastinate

        app = procrastinate.App(connector=connector)

        @app.task(name="noop")
        async def noop(number: int) -> None:
            leave(number)

        return app

    @cached_property
    def app(self) -> Any:
        import procrastinate

        app = self._app(procrastinate.SyncPsycopgConnector(conninfo=self.dsn))
        app.open()
        return app

    @property
    def noop(self) -> Any:
        return self.app.tasks["noop"]

    def set_up(self) -> None:
        self.app.schema_manager.apply_schema()

    def clear(self) -> None:
        tables = "procrastinate_events, procrastinate_jobs, procrastinate_workers"
        self.app.connector.execute_query(f"TRUNCATE {tables} CASCADE")

    def enqueue(self, number: int) -> None:
        self.noop.defer(number=number)

    def fill(self, numbers: range) -> None:
        for start in range(numbers.start, numbers.stop, 5_000):
            some = range(start, min(numbers.stop, start + 5_000))
            self.noop.batch_defer(*({"number": number} for number in some))

    def left(self) -> int:
        counted = "SELECT count(*) AS count FROM procrastinate_jobs WHERE status <> 'succeeded'"
        return int(self.app.connector.execute_query_one(counted)["count"])

    def workers(self, processes: int) -> list[list[str]]:
        return [WORK] * processes

    def work(self) -> None:
        import procrastinate

        app = self._app(procrastinate.PsycopgConnector(conninfo=self.dsn))

        async def run() -> None:
            async with app.open_async():
                await app.run_worker_async()

        asyncio.run(run())
