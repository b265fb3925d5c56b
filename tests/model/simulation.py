"""The real worker loop, several times over, on told time: one seed decides all that happens.

Each thread of a worker is an actor. One of them runs at a time, up to its next statement; a random
generator says which goes on, how much time passes, who is stopped for a while, loses its
connection, or is killed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

from django.db import connections

from skipper_django.core.clock import ManualClock
from skipper_django.core.config import Config
from skipper_django.core.outcome import Failed, Outcome, Released, Retry, Succeeded
from skipper_django.core.reasons import FailReason
from skipper_django.store.add import add
from skipper_django.store.lease import Lease
from skipper_django.worker import loop
from skipper_django.worker.finished import Finished
from skipper_django.worker.leases import LeaseKeeper
from skipper_django.worker.loop import Worker
from skipper_django.worker.options import WorkerOptions
from skipper_django.worker.outage import Outage
from skipper_django.worker.pace import Pace
from skipper_django.worker.quarantine import Quarantine
from skipper_django.worker.shutdown import Shutdown
from skipper_django.worker.upkeep import TICK_SECONDS, UpkeepThread
from tests.model.model import FINAL, Violation
from tests.model.watched import Crash, LostConnection, SteppedSlots, Watched, Witness, told_time
from tests.store.support import new

CONCURRENCY = 3
WORKERS = 3
LONGEST_SECONDS = 3000.0
POLL_SECONDS = 0.5  # rarer than a real worker: it finds the same


class Actor:
    """A thread that stops at every statement until it is told to go on."""

    def __init__(self, name: str, owner: SimulatedWorker, step: Callable[[], float]) -> None:
        self.name, self.owner, self.step = name, owner, step
        self.due = 0.0
        self.in_step = False
        self.fault: type[BaseException] | None = None
        self.error: BaseException | None = None
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        """Run up to the next statement, or to the end of the step."""
        self._go.release()
        self._stopped.acquire()
        if self.error is not None and not isinstance(self.error, Crash):
            raise self.error

    def pause(self) -> None:
        self._stopped.release()
        self._wait()

    def _wait(self) -> None:
        self._go.acquire()
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def kill(self) -> None:
        while self._thread.is_alive() and self.error is None:
            self.fault = Crash
            self.go_on()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._wait()
            while True:
                self.in_step = True
                seconds = self.step()
                self.in_step = False
                self.due = self.owner.clock.monotonic() + seconds
                self.pause()
        except BaseException as error:
            self.error = error
        finally:
            connections.close_all()
            self._stopped.release()


class SimulatedWorker:
    """A Worker whose threads are actors."""

    def __init__(self, name: str, simulation: Simulation) -> None:
        self.name, self.simulation, self.clock = name, simulation, simulation.clock
        options = WorkerOptions(member_name=name, queues=("default",), concurrency=CONCURRENCY)
        with mock.patch.object(loop, "Database", simulation.database):
            self.worker = Worker(simulation.config, options, self.clock, Shutdown())
        self.cluster = self.worker.cluster
        self.cluster._thread = mock.Mock()
        executor = self.worker.slots._executor
        self.slots = SteppedSlots(
            CONCURRENCY, executor, self.worker._arrivals.put, self.worker._custody
        )
        self.worker.slots = self.slots
        settler = self.worker._settler
        self.worker._quarantine = Quarantine(self.worker._custody, settler, self.slots.submit)
        self.worker._pace.wait_seconds = lambda busy: 0.0  # type: ignore[method-assign]
        self.running: list[tuple[float, float, Lease]] = []
        self.stopped_until = 0.0
        self.actors = [Actor(f"{name} loop", self, self._join)]

    def _join(self) -> float:
        self.cluster.join()
        helpers = self.worker._helpers()
        (keeper,) = [helper for helper in helpers if isinstance(helper, LeaseKeeper)]
        (upkeep,) = [helper for helper in helpers if isinstance(helper, UpkeepThread)]

        def keep_moving() -> None:
            for timer in upkeep._timers:
                timer.run_if_due()

        third = self.simulation.config.lease_duration / 3
        self.actors[0].step = self._round
        self._add("heartbeat", self.cluster._outage, self.cluster.beat, 10.0)
        self._add("leases", keeper._outage, keeper.renew_once, third)
        self._add("janitor", upkeep._outage, keep_moving, TICK_SECONDS)
        self.actors.append(Actor(f"{self.name} slots", self, self._run_tasks))
        return 0.0

    def _add(self, what: str, outage: Outage, step: Callable[[], None], every: float) -> None:
        def surviving() -> float:
            with outage.survived():
                step()
            return 0.5 if outage.is_on else every

        actor = Actor(f"{self.name} {what}", self, surviving)
        actor.due = self.clock.monotonic() + every
        self.actors.append(actor)

    def _round(self) -> float:
        worker = self.worker
        seconds = Pace.wait_seconds(worker._pace, busy=len(worker._custody) > 0)
        worker.round()
        return max(seconds, POLL_SECONDS)

    def is_due(self, actor: Actor) -> bool:
        now = self.clock.monotonic()
        if now < self.stopped_until:
            return False
        is_woken = actor is self.actors[0] and not self.worker._arrivals._queue.empty()
        has_work = actor is self.actors[-1] and self._may_run_more()
        return actor.in_step or actor.due <= now or is_woken or has_work

    def _may_run_more(self) -> bool:
        return self.slots.waiting > 0 and len(self.running) < CONCURRENCY

    def _run_tasks(self) -> float:
        now = self.clock.monotonic()
        for task in [task for task in self.running if task[1] <= now]:
            self.running.remove(task)
            begun, _, lease = task
            outcome = self.simulation.outcome_of(lease)
            self.worker._arrivals.put(Finished(lease, outcome, now - begun))
        while len(self.running) < CONCURRENCY and (head := self.slots.start_next()) is not None:
            lease, may_start = head
            if may_start:
                self.simulation.model.started(
                    self.name, self.cluster.incarnation, lease.id, lease.token, self.clock.now()
                )
                self.running.append((now, now + self.simulation.seconds_of(lease), lease))
            else:
                self.worker._arrivals.put(Finished(lease, Released(), 0.0))
        return POLL_SECONDS


class Simulation:
    """run() raises Violation where the promise is broken. `faults`: how many at the most."""

    def __init__(self, alias: str, seed: int, faults: int, tasks: int = 15) -> None:
        self.seed, self.faults, self.count = seed, faults, tasks
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.config = Config(
            database=alias, lease_duration=self.random.choice([30.0, 90.0]), wake_up=False
        )
        self.witness = Witness(alias, self.config, self.clock)
        self.model = self.witness.model
        self.trace: list[str] = []
        self.workers: list[SimulatedWorker] = []
        self._names = iter(f"worker-{number}" for number in range(1, 1000))

    def database(self, alias: str, telemetry: Any) -> Watched:
        return Watched(alias, self._boundary, telemetry)

    def outcome_of(self, lease: Lease) -> Outcome:
        draw = self.random.random()
        if draw < 0.1:
            return Retry(self.random.choice([0.0, 3.0, 20.0]), [{"attempt": lease.attempts}])
        return Failed(FailReason.EXCEPTION, []) if draw < 0.15 else Succeeded(str(lease.token))

    def seconds_of(self, lease: Lease) -> float:
        return self.random.choice([0.0, 0.0, 0.05, 2.0, 35.0])

    def run(self) -> None:
        self.witness.empty()
        with self._in_simulated_world():
            try:
                self._enqueue()
                for _ in range(WORKERS):
                    self.workers.append(SimulatedWorker(next(self._names), self))
                while any(row["status"] < FINAL for row in self.model.tasks.values()):
                    self._go_on()
            finally:
                for worker in self.workers:
                    self._kill(worker)

    @contextmanager
    def _in_simulated_world(self) -> Iterator[None]:
        state = random.getstate()
        random.seed(self.seed)  # pauses and polls of the worker have a jitter
        with ExitStack() as stack:
            stack.callback(random.setstate, state)
            stack.enter_context(told_time(self.clock))
            stack.enter_context(mock.patch.object(loop, "LINGER_SECONDS", 0.0))
            stack.enter_context(mock.patch.object(Outage, "pause"))
            settle = mock.patch("skipper_django.worker.settle.settle", self.witness.settle)
            stack.enter_context(settle)
            yield

    def _enqueue(self) -> None:
        now = self.clock.now()
        tasks = [
            new(
                f"task-{number}",
                priority=self.random.choice([0, 0, 7]),
                run_after=now + timedelta(seconds=self.random.choice([0.0, 0.0, 1.0, 15.0])),
            )
            for number in range(self.count)
        ]
        add(Watched(self.config.database, self._boundary), tasks, now)

    def _go_on(self) -> None:
        """One actor goes on, or time does."""
        if self.clock.monotonic() > LONGEST_SECONDS:
            raise Violation(f"unseen: {self.model.unseen(self.clock.now())}")
        due = [a for worker in self.workers for a in worker.actors if worker.is_due(a)]
        if not due:
            self.clock.advance(0.05)
            return
        actor = self.random.choice(due)
        if self.faults and self.random.random() < 0.02:
            self.faults -= 1
            self._harm(actor)
        else:
            self.clock.advance(self.random.choice([0.0, 0.0, 0.001, 0.02]))
            actor.go_on()

    def _harm(self, actor: Actor) -> None:
        what = self.random.choice(["stop", "stop", "disconnect", "kill", "join"])
        self.trace.append(f"{what} {actor.name}")
        worker = actor.owner
        if what == "stop":
            seconds = self.random.choice([5.0, 31.0, 70.0, 140.0])
            worker.stopped_until = self.clock.monotonic() + seconds
        elif what == "disconnect" and actor.in_step and len(worker.actors) > 1:
            actor.fault = LostConnection
        elif what == "kill":
            self._kill(worker)
            self.workers.remove(worker)
        if what in ("kill", "join"):
            self.workers.append(SimulatedWorker(next(self._names), self))

    def _kill(self, worker: SimulatedWorker) -> None:
        for actor in worker.actors:
            actor.kill()

    def _boundary(self, sql: str, after: bool) -> None:
        actor = next((a for worker in self.workers for a in worker.actors if a.is_current), None)
        if after:
            self.witness.look(sql, actor.owner.name if actor else "project")
        elif actor is not None:
            self.trace.append(f"{self.clock.monotonic():.3f} {actor.name}: {sql[:60]}")
        if actor is not None:
            actor.pause()
