"""What every scenario lies on: a database, workers, tasks that count themselves, and the audit."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from django.db import Error, connections

from chaos import tasks
from chaos.background import background
from chaos.databases import Database
from chaos.effects import VARIABLE, Effects
from chaos.report import Row
from chaos.workers import Worker
from skipper_django import conf
from skipper_django.backend import SkipperBackend
from skipper_django.enqueue import Call
from skipper_django.enqueue import enqueue as enqueue_calls
from skipper_django.models import Member, Task
from tests.waiting import wait_until

T = TypeVar("T")
State = Task.State
FINAL = (State.SUCCESSFUL, State.FAILED, State.CANCELLED)


class Bed:
    """`limit`: lease duration and liveness window of all workers, in seconds."""

    def __init__(self, database: Database, directory: Path, rng: Random, short: bool) -> None:
        self.database = database
        self.alias = database.name
        self.rng = rng
        self.short = short
        self.limit = 3.0 if short else 6.0
        self.effects = Effects(directory / "effects")
        self.workers: list[Worker] = []
        self.audited: Row | None = None
        self.acknowledged: set[int] = set()
        self._directory = directory
        self._numbers = itertools.count()
        self._reconnect()
        for model in (Task, Member):
            model.objects.using(self.alias).all().delete()

    # Workers

    def worker(
        self,
        *arguments: str,
        entry: dict[str, Any] | None = None,
        skipper: Mapping[str, Any] | None = None,
        **hooks: Any,
    ) -> Worker:
        """Start one; `entry` replaces its database, `hooks` are functions of `chaos.hooks`."""
        limits = {
            "LEASE_DURATION": self.limit,
            "CLUSTER_LIVENESS_WINDOW": self.limit,
            "CLUSTER_HEARTBEAT_INTERVAL": self.limit / 6,
            "STEAL_AFTER": 1.0,
        }
        environment = {
            VARIABLE: str(self.effects.path),
            "CHAOS_DATABASE": json.dumps(entry or self.database.django()),
            "CHAOS_SKIPPER": json.dumps(limits | dict(skipper or {})),
            "CHAOS_HOOKS": json.dumps(hooks),
        }
        log = self._directory / f"worker-{len(self.workers) + 1}.log"
        self.workers.append(Worker(list(arguments), environment, log))
        return self.workers[-1]

    def wait_for_members(self, count: int, seconds: float = 30.0) -> None:
        active = Member.objects.using(self.alias).filter(state=Member.State.ACTIVE)
        wait_until(lambda: self.ask(active.count) == count, seconds, f"{count} members")

    def pair(self, **first: Any) -> tuple[Worker, Worker]:
        """Two workers that know of each other; `first` is what only the first one is given."""
        victim = self.worker("--member-name", "victim", **first)
        other = self.worker("--member-name", "other")
        self.wait_for_members(2)
        wait_until(self._is_divided, 20, "both have their range")
        return victim, other

    def _is_divided(self) -> bool:
        stops = Member.objects.using(self.alias).values_list("range_stop", flat=True)
        return sorted(self.ask(lambda: list(stops)) or []) == [500, 1000]

    # Tasks

    def enqueue(self, count: int, *arguments: Any, task: Any = tasks.work) -> set[int]:
        """Add tasks, each under its number as id; an error is the caller's."""
        numbers = set(itertools.islice(self._numbers, count))
        self._add(numbers, arguments, task)
        return numbers

    def _add(self, numbers: set[int], arguments: tuple[Any, ...], task: Any) -> None:
        calls = [Call(task.using(task_id=str(n)), [n, *arguments], {}) for n in sorted(numbers)]
        enqueue_calls(conf.load({"DATABASE": self.alias}), SkipperBackend, calls)
        self.acknowledged |= numbers

    @contextmanager
    def load(self, rate: float = 100.0, seconds: float = 0.01) -> Iterator[None]:
        """Enqueue so many tasks a second; one that is refused is tried again under its id."""

        def produce(stop: threading.Event) -> None:
            pause = 0.05
            while not stop.wait(pause):
                numbers = set(itertools.islice(self._numbers, max(1, int(rate * pause))))
                while not self.try_to_add(numbers, seconds):
                    stop.wait(pause)

        with background(self.alias, produce):
            yield

    def try_to_add(self, numbers: set[int], *arguments: Any, task: Any = tasks.work) -> bool:
        """Add tasks under these numbers; False if it was refused, and may be tried again."""
        try:
            self._add(numbers, arguments, task)
        except Error:
            self._reconnect()
            return False
        return True

    def ask(self, question: Callable[[], T]) -> T | None:
        """The answer of the database; None while it has none to give."""
        try:
            return question()
        except Error:
            self._reconnect()
            return None

    def _reconnect(self) -> None:
        connection = connections[self.alias]
        try:
            connection.close()
        except Error:
            connection.connection = None

    # What happened

    def held_by(self, member: str) -> set[int]:
        """The tasks on which a member has a lease."""
        rows = Task.objects.using(self.alias).filter(
            status=State.RUNNING, worker_ids__endswith=f"{member}\n"
        )
        return {int(task_id) for task_id in rows.values_list("task_id", flat=True)}

    def wait_for_begun(self, count: int, seconds: float = 30.0) -> None:
        wait_until(lambda: len(self.effects.calls()) >= count, seconds, f"{count} tasks begun")

    def wait_until_done(self, seconds: float = 60.0) -> None:
        """Until every task that was acknowledged is in a final state."""
        rows = Task.objects.using(self.alias)

        def is_done() -> bool:
            open_rows = self.ask(rows.exclude(status__in=FINAL).count)
            return open_rows == 0

        wait_until(is_done, seconds, f"all {len(self.acknowledged)} tasks done")

    def pause(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def forget(self, numbers: set[int]) -> None:
        """Tasks that have been done, each once, and whose rows may now go."""
        calls = self.effects.calls()
        assert all(calls[n] == 1 for n in numbers)
        self.acknowledged -= numbers

    # The end

    def audit(
        self,
        recovery: float,
        may_double: int = 0,
        failed: Mapping[int, str] | None = None,
        note: str = "",
    ) -> None:
        """Count everything; `failed`: the tasks that had to fail, with the reason.

        Every call beyond the first must be paid for by a lost lease that the row has counted, and
        attempts that never began must not have been.
        """
        self.wait_until_done()
        expected = failed or {}
        rows = {int(row.task_id): row for row in Task.objects.using(self.alias)}
        calls = {n: c for n, c in self.effects.calls().items() if n in self.acknowledged}
        done = self.effects.done()
        lost = (self.acknowledged - rows.keys()) | {
            n for n, row in rows.items() if row.status == State.SUCCESSFUL and n not in done
        }
        wrong = {
            n: (State(row.status).name, row.reason, row.errors)
            for n, row in rows.items()
            if (row.status, row.reason)
            != ((State.FAILED, expected[n]) if n in expected else (State.SUCCESSFUL, None))
        }
        unpaid = {n for n, count in calls.items() if count > 1 + rows[n].lost_leases}
        miscounted = {
            n
            for n, row in rows.items()
            if row.status == State.SUCCESSFUL and row.attempts != 1 + row.lost_leases
        }
        doubled = sum(count - 1 for n, count in calls.items() if n not in expected)
        assert not lost, f"lost: {sorted(lost)}"
        assert not wrong, f"not in the state they should be in: {wrong}"
        assert not unpaid, f"called again without a lost lease: {sorted(unpaid)}"
        assert not miscounted, f"attempts counted that never began: {sorted(miscounted)}"
        assert doubled <= may_double, f"{doubled} doubled, at most {may_double} may be"
        self.audited = Row("", "", note, "", self.alias, len(rows), recovery, len(lost), doubled)

    def close(self) -> None:
        for worker in self.workers:
            worker.ask_to_end()
        for worker in self.workers:
            worker.end()


def now() -> float:
    return time.monotonic()
