"""What happens: a producer with a steady rate, workers that come and go, and one that stays."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaos import tasks
from chaos.background import background
from chaos.bed import FINAL, Bed, State, now
from chaos.soak.report import Soaked
from chaos.soak.watch import Sample, Tally, look
from chaos.workers import Worker
from skipper_django.core.config import Config
from skipper_django.janitor import Timer
from skipper_django.models import Task
from tests.waiting import wait_until

PRODUCE_EVERY_SECONDS = 0.1
# So that a producer that was held up does not come back with everything at once.
MOST_AT_ONCE = 1_000
PATIENCE_SECONDS = 120.0
# -15: before Python has come to the handler there is nothing to hand back.
GOOD_ENDS = (0, -15)


@dataclass(frozen=True)
class Plan:
    """What is asked for; a short run has shorter intervals, so that all of it happens."""

    seconds: float
    tasks: int
    workers: int
    concurrency: int

    @property
    def rate(self) -> float:
        return self.tasks / self.seconds

    @property
    def sample_every(self) -> float:
        return min(10.0, self.seconds / 60)

    @property
    def churn_every(self) -> float:
        """On average."""
        return min(10.0, self.seconds / 12)

    @property
    def retention(self) -> float:
        return min(100.0, self.seconds / 8)

    @property
    def skipper(self) -> dict[str, Any]:
        """The settings of the workers: the defaults, but for retention."""
        usual = Config()
        return {
            "LEASE_DURATION": usual.lease_duration,
            "CLUSTER_LIVENESS_WINDOW": usual.cluster_liveness_window,
            "CLUSTER_HEARTBEAT_INTERVAL": usual.cluster_heartbeat_interval,
            "STEAL_AFTER": usual.steal_after,
            "RETENTION": self.retention,
        }


class Soak:
    """The soak of one database; `run` says what was seen."""

    def __init__(self, bed: Bed, plan: Plan, stop: threading.Event) -> None:
        self._bed = bed
        self._plan = plan
        self._stop = stop
        self._tally = Tally(bed.effects.path, plan.tasks)
        self._samples: list[Sample] = []
        self._names = itertools.count(1)
        self._refused = self._kills = self._stops = 0
        self._held: Counter[int] = Counter()
        self._troubles: list[str] = []
        self._lasting = self._start("lasting")
        self._others = dict(self._start_next() for _ in range(plan.workers - 1))
        self._leaving: list[Worker] = []
        self._pids: list[int] = []
        self._began = 0.0

    def run(self, version: str, circumstances: str) -> Soaked:
        self._bed.wait_for_members(self._plan.workers, PATIENCE_SECONDS)
        self._pids = self._processes()
        self._began = now()
        with background(self._bed.alias, self._produce):
            self._watch()
        drained_after = self._drain()
        self._leave_to_retention()
        self._end_workers()
        plan, doubled = self._plan, self._tally.doubled()
        self._audit(doubled)
        return Soaked(
            version,
            circumstances,
            rate=plan.rate,
            tasks=len(self._bed.acknowledged),
            kills=self._kills,
            stops=self._stops,
            refused=self._refused,
            held=self._held.total(),
            lost=len(self._tally.lost(self._bed.acknowledged)),
            doubled=sum(doubled.values()),
            drained_after=drained_after,
            samples=self._samples,
            troubles=self._troubles,
        )

    # The load

    def _produce(self, stop: threading.Event) -> None:
        added = 0
        while added < self._plan.tasks and not stop.wait(PRODUCE_EVERY_SECONDS):
            due = min(self._plan.tasks, int((now() - self._began) * self._plan.rate))
            numbers = set(range(added, min(due, added + MOST_AT_ONCE)))
            if numbers and self._bed.try_to_add(numbers, task=tasks.soak):
                added += len(numbers)
            elif numbers:
                self._refused += 1

    def _watch(self) -> None:
        """Until everything is enqueued."""
        sampling = Timer(self._plan.sample_every, self._sample)
        churn = Timer(self._plan.churn_every, self._replace_one, first=self._plan.churn_every)
        deadline = self._began + 1.5 * self._plan.seconds
        while len(self._bed.acknowledged) < self._plan.tasks and not self._stop.wait(0.1):
            sampling.run_if_due()
            churn.run_if_due()
            if now() > deadline:
                self._troubles.append("the producer did not keep up")
                return

    def _sample(self) -> None:
        enqueued, done = len(self._bed.acknowledged), self._tally.read()
        seconds = now() - self._began
        self._samples.append(look(self._bed.database, seconds, enqueued, done, self._pids))
        print(self._bed.alias, self._samples[-1], flush=True)

    # The workers

    def _start(self, name: str) -> Worker:
        concurrency = str(self._plan.concurrency)
        return self._bed.worker(
            *("-v", "0", "--member-name", name, "--concurrency", concurrency),
            skipper=self._plan.skipper,
        )

    def _start_next(self) -> tuple[str, Worker]:
        name = f"worker-{next(self._names)}"
        return name, self._start(name)

    def _processes(self) -> list[int]:
        return [self._lasting.pid, *self._lasting.children]

    def _replace_one(self) -> None:
        name = self._bed.rng.choice(sorted(self._others))
        worker = self._others.pop(name)
        if not worker.is_running:
            self._troubles.append(f"{name} has ended by itself")
        elif self._bed.rng.random() < 0.5:
            worker.kill()
            self._kills += 1
            self._held.update(self._bed.held_by(name))
        else:
            worker.terminate()
            self._stops += 1
            self._leaving.append(worker)
        self._others.update([self._start_next()])

    # The end

    def _drain(self) -> float:
        """Seconds until everything is done."""
        since = now()
        rows = Task.objects.using(self._bed.alias).exclude(status__in=FINAL)
        acknowledged = len(self._bed.acknowledged)
        self._expect(lambda: self._tally.read() >= acknowledged, PATIENCE_SECONDS, "all are done")
        seconds = now() - since
        self._expect(lambda: not rows.exists(), PATIENCE_SECONDS, "all outcomes are stored")
        return seconds

    def _leave_to_retention(self) -> None:
        rows = Task.objects.using(self._bed.alias)
        failed = rows.filter(status=State.FAILED).count()
        if failed:
            self._troubles.append(f"{failed} tasks FAILED")
        limit = self._plan.retention + PATIENCE_SECONDS
        self._expect(lambda: rows.count() == failed, limit, "retention leaves no row")

    def _expect(self, fact: Callable[[], bool], seconds: float, what: str) -> None:
        try:
            wait_until(lambda: self._stop.wait(0.1) or fact(), seconds, what)
        except AssertionError as error:
            self._troubles.append(str(error))

    def _end_workers(self) -> None:
        if self._processes() != self._pids:
            self._troubles.append("the lasting worker did not last: its processes are others")
        self._bed.close()
        stopped = [self._lasting, *self._leaving, *self._others.values()]
        ends = {worker.wait() for worker in stopped}
        if wrong := ends.difference(GOOD_ENDS):
            self._troubles.append(f"stopped workers ended with {sorted(wrong)}")
        for worker in self._bed.workers:
            if "Traceback" in worker.log:
                self._troubles.append(f"a traceback in {worker.log_path}")

    def _audit(self, doubled: dict[int, int]) -> None:
        """A task runs twice only where a killed worker held it: each time is paid for by a kill."""
        lost = self._tally.lost(self._bed.acknowledged)
        if lost:
            self._troubles.append(f"lost: {sorted(lost)[:10]} and so on")
        unpaid = {number for number, calls in doubled.items() if calls > self._held[number]}
        if unpaid:
            self._troubles.append(
                f"{len(unpaid)} doubled that no killed worker held: {sorted(unpaid)[:10]}"
            )
