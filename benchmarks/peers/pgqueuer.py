"""pgqueuer, on PostgreSQL only."""

from __future__ import annotations

import asyncio
import signal
from functools import cached_property
from typing import Any, ClassVar

from benchmarks.effects import leave
from benchmarks.peers.base import WORK, Peer


class PgQueuer(Peer):
    name = "pgqueuer"
    requirements = ("pgqueuer[asyncpg]",)
    databases = ("postgresql",)
    setting = (
        "N x `PgQueuer.run()`, batches of 10, its default; asyncpg, uvloop, async task, its own "
        "autovacuum settings (its `pgq run` fails at start with the typer it installs)"
    )
    batch: ClassVar[int] = 10
    bulk = backlog = True
    uses_django = False

    @cached_property
    def runner(self) -> asyncio.Runner:
        import uvloop

        return asyncio.Runner(loop_factory=uvloop.new_event_loop)

    async def _driver(self) -> Any:
        import asyncpg
        from pgqueuer.db import AsyncpgDriver

        return AsyncpgDriver(await asyncpg.connect(self.dsn))

    @cached_property
    def queries(self) -> Any:
        from pgqueuer.queries import Queries

        return Queries(self.runner.run(self._driver()))

    def set_up(self) -> None:
        self.runner.run(self.queries.install())
        self.runner.run(self.queries.optimize_autovacuum())

    def clear(self) -> None:
        truncate = "TRUNCATE pgqueuer, pgqueuer_log, pgqueuer_statistics"
        self.runner.run(self.queries.driver.execute(truncate))

    def enqueue(self, number: int) -> None:
        self.singles(range(number, number + 1))

    def singles(self, numbers: range) -> None:
        async def all_() -> None:
            for number in numbers:
                await self.queries.enqueue("noop", b"%d" % number)

        self.runner.run(all_())

    def fill(self, numbers: range) -> None:
        for start in range(numbers.start, numbers.stop, 10_000):
            some = range(start, min(numbers.stop, start + 10_000))
            payloads = [b"%d" % number for number in some]
            count = len(some)
            self.runner.run(self.queries.enqueue(["noop"] * count, payloads, [0] * count))

    def left(self) -> int:
        counted = self.queries.driver.fetch("SELECT count(*) FROM pgqueuer")
        return int(self.runner.run(counted)[0]["count"])

    def workers(self, processes: int) -> list[list[str]]:
        return [WORK] * processes

    def work(self) -> None:
        import pgqueuer

        async def run() -> None:
            queue = pgqueuer.PgQueuer(await self._driver())

            @queue.entrypoint("noop")
            async def noop(job: Any) -> None:
                leave(int(job.payload))

            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queue.shutdown.set)
            await queue.run(batch_size=self.batch)

        self.runner.run(run())


class PgQueuerInHundreds(PgQueuer):
    setting = "the same in batches of 100: it advises larger ones for short tasks, with no number"
    batch = 100
