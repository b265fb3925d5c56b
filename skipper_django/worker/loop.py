"""The worker: claim, submit, settle, again, until told to stop; then drain."""

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event

from django.db import DatabaseError

from ..core.buckets import ALL_BUCKETS
from ..core.clock import Clock, monotonic
from ..core.config import Config
from ..core.outcome import Failed, Outcome, Released, describe_error
from ..core.reasons import FailReason
from ..janitor import Janitor
from ..store.claim import Claimant, Lease, claim
from ..store.database import Database
from ..store.settle import settle
from .custody import Custody, Patience
from .execute import Executor
from .lanes import Lanes
from .leases import LeaseKeeper, report_lost
from .outage import Outage
from .pace import Pace
from .shutdown import Shutdown
from .slots import Finished, Slots
from .upkeep import UpkeepThread

logger = logging.getLogger("skipper_django.worker")

EXIT_DONE, EXIT_FORCED, EXIT_RECYCLE = 0, 1, 75
SETTLE_BATCH = 500
LINGER_SECONDS = 0.005
# Submitted tasks of which none has started for so long go back: others may have room.
PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What the command line says. No queues: all of the tenant's."""

    member_id: str
    queues: tuple[str, ...] = ()
    concurrency: int = 4
    drain: bool = False  # stop when nothing is ready
    shutdown_timeout: float = 30.0
    supervisor_pid: int | None = None  # stop when this process is gone


class Worker:
    """One process's share of the work. run() returns when it has stopped, with an exit status."""

    def __init__(
        self, config: Config, options: WorkerOptions, clock: Clock, shutdown: Shutdown
    ) -> None:
        self._config = config
        self._options = options
        self._clock = clock
        self._shutdown = shutdown
        shutdown.wake = self.wake
        self._database = Database(config.database)
        self._finished: SimpleQueue[Finished | None] = SimpleQueue()
        self._unsettled: list[Finished] = []
        self._stuck: list[Finished] = []
        self._custody = Custody()
        self._pace = Pace(options.concurrency)
        self._patience = Patience(PATIENCE_SECONDS)
        self._outage = Outage(self._database, options.member_id, "claim and settle tasks")
        self._lanes = Lanes(self._database, config.tenant, options.queues)
        executor = Executor(clock, options.member_id, config.max_payload_bytes)
        self._slots = Slots(options.concurrency, executor, self._finished.put)
        self._janitor = Janitor(self._database, clock, config, self._lanes.current)
        self._keeper = LeaseKeeper(
            self._database, clock, self._custody, config.lease_duration, options.member_id
        )

    def wake(self) -> None:
        """End the loop's present wait; safe in a signal handler."""
        self._finished.put(None)

    def run(self) -> int:
        upkeep = UpkeepThread(
            self._database,
            self._janitor,
            self._config.lease_duration,
            self._options.member_id,
            self.wake,
        )
        self._log_state("started")
        self._keeper.start()
        upkeep.start()
        try:
            while not self._should_stop():
                self.round()
            self._drain()
        finally:
            upkeep.stop()
            self._keeper.stop()
        ended = self._slots.stop(1.0)
        self._database.close()
        self._log_state("stopped")
        if self._stuck:
            return EXIT_RECYCLE
        return EXIT_DONE if ended or not self._shutdown.forced.is_set() else EXIT_FORCED

    def round(self) -> None:
        """Collect what has finished, store it, claim what can start, hand it to the slots."""
        self._collect(self._pace.wait_seconds(busy=len(self._custody) > 0))
        with self._outage.survived():
            self._settle()
            self._hand_back_waiting()
            self._claim()
        if self._outage.is_on:
            self._outage.pause(self._shutdown.requested)

    def _should_stop(self) -> bool:
        if self._shutdown.requested.is_set() or self._stuck:
            return True
        supervisor = self._options.supervisor_pid
        if supervisor is not None and os.getppid() != supervisor:
            logger.warning("the supervisor is gone, stopping", extra=self._extra())
            return True
        return self._options.drain and self._is_drained()

    def _is_drained(self) -> bool:
        if self._custody or self._unsettled or not self._pace.is_idle:
            return False
        with self._outage.survived():
            self._janitor.promote()
            self._claim()
            return not self._custody
        return False

    # Collect

    def _collect(self, wait: float) -> None:
        """Take what has finished; wait for the first, and a moment for more while work waits."""
        self._take_finished(wait)
        if self._unsettled and self._slots.waiting and len(self._unsettled) < SETTLE_BATCH:
            Event().wait(LINGER_SECONDS)
            self._take_finished(0)

    def _take_finished(self, wait: float) -> None:
        try:
            finished = self._finished.get(timeout=wait) if wait else self._finished.get_nowait()
            while True:
                if finished is None:
                    self._pace.woken()
                elif finished.stuck:
                    self._stuck.append(finished)
                else:
                    self._unsettled.append(finished)
                    self._pace.finished(finished.seconds)
                finished = self._finished.get_nowait()
        except Empty:
            pass

    # Settle

    def _settle(self) -> None:
        """Store the outcomes. A task keeps its place and its lease until this has succeeded."""
        while self._unsettled:
            batch = self._unsettled[:SETTLE_BATCH]
            held = [(done.lease, done.outcome) for done in batch if self._custody.holds(done.lease)]
            self._store(held)
            del self._unsettled[: len(batch)]

    def _store(self, settlements: list[tuple[Lease, Outcome]]) -> None:
        if not settlements:
            return
        try:
            lost = settle(self._database, settlements, self._clock.now())
        except DatabaseError as error:
            if self._database.is_transient(error):
                raise
            self._store_singly(settlements, error)
            return
        for lease, _ in lost:
            report_lost(self._custody, lease, self._options.member_id)
        for lease, _ in settlements:
            self._custody.remove(lease)

    def _store_singly(self, settlements: list[tuple[Lease, Outcome]], error: DatabaseError) -> None:
        """One outcome that the database refuses must not keep the others from being stored."""
        if len(settlements) > 1:
            for settlement in settlements:
                self._store([settlement])
            return
        ((lease, outcome),) = settlements
        if isinstance(outcome, Failed) and outcome.reason is FailReason.BAD_RESULT:
            raise error
        logger.error(
            "%s %s: the database refuses its outcome: %s", lease.name, lease.task_id, error,
            extra=self._extra(),
        )  # fmt: skip
        refused = Failed(FailReason.BAD_RESULT, [describe_error(error, lease.attempts)])
        self._store([(lease, refused)])

    def _release(self, leases: Iterable[Lease]) -> None:
        self._store([(lease, Released()) for lease in leases if self._custody.holds(lease)])

    def _hand_back_waiting(self) -> None:
        if self._patience.is_over(self._slots.waiting):
            self._pace.slow_down()
            for lease in self._slots.take_back():
                self._unsettled.append(Finished(lease, Released(), 0.0))
            self._settle()

    # Claim

    def _claim(self) -> None:
        room = self._pace.room(held=len(self._custody), waiting=self._slots.waiting)
        if not room or self._should_hold():
            return
        claimant = Claimant(
            self._options.member_id,
            self._lanes.refresh(),
            ALL_BUCKETS,
            self._config.lease_duration,
        )
        trusted_until = monotonic() + self._config.lease_duration
        leases = claim(self._database, claimant, room, self._clock.now())
        self._pace.claimed(len(leases))
        self._custody.add(leases)
        for lease in leases:
            lease.trusted_until = trusted_until
            self._slots.submit(lease)

    def _should_hold(self) -> bool:
        return self._shutdown.requested.is_set() or bool(self._stuck)

    # Stop

    def _drain(self) -> None:
        """Hand back what has not started, finish what runs, release what does not end in time."""
        self._log_state("draining")
        for lease in self._slots.take_back():
            self._unsettled.append(Finished(lease, Released(), 0.0))
        deadline = monotonic() + self._options.shutdown_timeout
        while len(self._custody) > len(self._stuck) or self._unsettled:
            with self._outage.survived():
                self._settle()
            if monotonic() >= deadline or self._shutdown.forced.is_set():
                break
            self._take_finished(min(0.1, max(0.001, deadline - monotonic())))
            if self._outage.is_on:
                self._outage.pause(self._shutdown.forced)
        with self._outage.survived():
            # Only now: until here the stuck attempt may still be at work.
            self._store([(done.lease, done.outcome) for done in self._stuck])
            self._release(self._custody.snapshot())

    def _log_state(self, state: str) -> None:
        queues = ", ".join(self._options.queues) or "all"
        logger.info(
            "worker %s %s (tenant %s, queues %s, concurrency %d)",
            self._options.member_id,
            state,
            self._config.tenant,
            queues,
            self._options.concurrency,
            extra=self._extra(),
        )

    def _extra(self) -> dict[str, object]:
        return {"member_id": self._options.member_id}
