"""The seam between the real code and the model: every statement is seen, time is told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar
from unittest import mock

from django.db import InterfaceError

from skipper_django.core import clock as core_clock
from skipper_django.core.clock import ManualClock
from skipper_django.core.config import Config
from skipper_django.core.outcome import Failed, Released, Retry, Succeeded
from skipper_django.core.telemetry import SILENT, Telemetry
from skipper_django.models import Member, Task
from skipper_django.store import settle as store_settle
from skipper_django.store.database import Database
from skipper_django.store.lease import Lease
from skipper_django.store.settle import Settlement
from skipper_django.worker.slots import Slots
from tests.model.model import Model, Promise

T = TypeVar("T")

COLUMNS = (
    "id", "status", "attempts", "lost_leases", "lease_token", "lease_expires_at", "run_after",
    "finished_at", "result",
)  # fmt: skip
OUTCOMES = {Succeeded: "succeeded", Failed: "failed", Retry: "retry", Released: "released"}
INSTANTS = {"lease_expires_at", "run_after", "finished_at"}


class Crash(BaseException):
    """The process is gone: nothing after this line happens."""


class LostConnection(InterfaceError):
    """The statement's answer does not come; whether it was carried out, nobody knows."""


class Watched(Database):
    """Asks `boundary` around each statement; it may raise, or let others act meanwhile."""

    def __init__(
        self, alias: str, boundary: Callable[[str, bool], None], telemetry: Telemetry = SILENT
    ) -> None:
        super().__init__(alias, telemetry)
        self._boundary = boundary

    def execute(self, sql: str, params: Any = None) -> int:
        return self._around(sql, lambda: super(Watched, self).execute(sql, params))

    def rows(self, sql: str, params: Any = None) -> list[tuple[Any, ...]]:
        return self._around(sql, lambda: super(Watched, self).rows(sql, params))

    def _around(self, sql: str, statement: Callable[[], T]) -> T:
        self._boundary(sql, False)
        answer = statement()
        self._boundary(sql, True)
        return answer


class Witness:
    """Shows the tables to the model, through a door of its own."""

    def __init__(self, alias: str, config: Config, clock: ManualClock) -> None:
        self.clock = clock
        self.database = Database(alias)
        self.model = Model(
            Promise(config.cluster_liveness_window, config.retention, config.failed_retention)
        )
        self.members = self.database.connection.ops.quote_name(Member._meta.db_table)

    def empty(self) -> None:
        Task.objects.using(self.database.alias).all().delete()
        Member.objects.using(self.database.alias).all().delete()

    def settle(
        self, database: Database, settlements: Sequence[Settlement], now: datetime
    ) -> list[Settlement]:
        """The store's settle(), whose answer must be true."""
        for lease, outcome in settlements:
            self.model.ended(lease.id, lease.token, OUTCOMES[type(outcome)])
        lost = store_settle.settle(database, settlements, now)
        for lease, outcome in settlements:
            if any(lease is one for one, _ in lost):
                self.model.must_be_lost(lease.id, lease.token)
            else:
                self.model.must_be_stored(lease.id, lease.token, OUTCOMES[type(outcome)])
        return lost

    def look(self, sql: str, who: str) -> None:
        """After each statement; only one that changes something is worth a look."""
        if sql.startswith("SELECT"):
            return
        if self.members in sql:
            self.model.saw_members(self._heartbeats())
        else:
            self.model.saw_tasks(self._tasks(), who, self.clock.now())

    def _heartbeats(self) -> dict[int, tuple[str, Any]]:
        sql = f"SELECT incarnation, member_id, heartbeat_at FROM {self.members}"  # noqa: S608
        from_db = self.database.dialect.from_db
        return {who: (name, from_db(beat)) for who, name, beat in self.database.rows(sql)}

    def _tasks(self) -> dict[int, dict[str, Any]]:
        sql = f"SELECT {', '.join(COLUMNS)} FROM {self.database.tasks}"  # noqa: S608
        from_db = self.database.dialect.from_db
        return {
            row[0]: {
                name: from_db(value) if name in INSTANTS else value
                for name, value in zip(COLUMNS, row, strict=True)
            }
            for row in self.database.rows(sql)
        }


class SteppedSlots(Slots):
    """The real waiting room without threads: whoever drives it says when a task is called."""

    def _start_thread_if_needed(self) -> None:
        """No thread."""

    def start_next(self) -> tuple[Lease, bool] | None:
        """The lease at the head of the queue, and whether the worker would call its task."""
        if not self._waiting.qsize():
            return None
        attempt = self._waiting.get_nowait()
        assert attempt is not None
        return attempt.lease, self._executor.may_start(attempt.lease)


@contextmanager
def told_time(clock: ManualClock) -> Iterator[None]:
    """All of the worker takes its durations from this clock."""
    places = [
        f"{name}.{attribute}"
        for name, module in list(sys.modules.items())
        if name.startswith(("skipper_django.worker", "skipper_django.janitor"))
        for attribute, value in vars(module).items()
        if value is core_clock.monotonic
    ]
    patches = [mock.patch(place, clock.monotonic) for place in places]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()
