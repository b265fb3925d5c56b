"""The worker: claim, submit, settle, again, until told to stop; then drain."""

import logging
import os
from collections.abc import Callable
from threading import Event

from ..core.buckets import ALL_BUCKETS, Share
from ..core.clock import Clock, monotonic
from ..core.config import Config
from ..core.telemetry import SILENT, Telemetry
from ..janitor import Janitor
from ..store.claim import Claimant, choose
from ..store.database import Database
from ..store.lease import Lease
from .alarm import Alarm
from .arrivals import Arrivals
from .cluster import Cluster
from .custody import Custody, Patience
from .execute import Executor
from .finished import Finished
from .lanes import Lanes
from .leases import LeaseKeeper
from .nearby import Nearby
from .options import EXIT_DONE, EXIT_FORCED, EXIT_RECYCLE, WorkerOptions
from .outage import Outage
from .pace import Pace
from .pulse import PulseThread
from .quarantine import Quarantine
from .registration import Applicant
from .settle import SETTLE_BATCH, Settler, Unanswered
from .shutdown import Shutdown
from .slots import Slots
from .steal import Thief
from .upkeep import UpkeepThread

logger = logging.getLogger("skipper_django.worker")

LINGER_SECONDS = 0.005
# Submitted tasks of which none has started for so long go back: others may have room.
PATIENCE_SECONDS = 1.0


class Worker:
    """One process's share of the work. run() returns when it has stopped, with an exit status."""

    def __init__(
        self,
        config: Config,
        options: WorkerOptions,
        clock: Clock,
        shutdown: Shutdown,
        gate: Callable[[], bool] = lambda: True,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self._config = config
        self._options = options
        self._clock = clock
        self._shutdown = shutdown
        shutdown.wake = self.wake
        self._database = Database(config.database, telemetry)
        self._arrivals = Arrivals()
        self._stuck: list[Finished] = []
        self._turn = 0
        self._nearby = Nearby(config.tenant)
        self._custody = Custody(options.pulse)
        self._pace = Pace(options.concurrency)
        self._patience = Patience(PATIENCE_SECONDS)
        self._lanes = Lanes(self._database, config.tenant, options.queues)
        applicant = Applicant(
            options.member_name, options.named, options.queues, options.concurrency
        )
        self.cluster = Cluster(self._database, config, clock, applicant, gate)
        self.cluster.running = self._running
        self._settler = Settler(self._database, clock, self._custody, self.cluster)
        self._outage = Outage(self._database, options.member_name, "claim and settle tasks")
        self._janitor = Janitor(self._database, clock, config)
        self._thief = Thief(self._database, clock, self._janitor, config.steal_after)
        holds = self.cluster.holds_leases
        executor = Executor(clock, self.cluster, config.max_payload_bytes, holds)
        self.slots = Slots(options.concurrency, executor, self._arrivals.put, self._custody)
        self._quarantine = Quarantine(self._custody, self._settler, self.slots.submit)

    def _running(self) -> int:
        """How many attempts are being made; what waits for a slot is not."""
        return max(0, len(self._custody) - self.slots.waiting)

    def wake(self) -> None:
        """End the loop's present wait; safe in a signal handler."""
        self._arrivals.ring()

    def run(self) -> int:
        """Raises MemberNameTaken when the chosen name is another live member's."""
        self.cluster.join()
        self._log_state("started")
        threads = self._helpers()
        for thread in threads:
            thread.start()
        try:
            while not self._should_stop():
                self.round()
            self._drain()
        except Exception:
            self._salvage()
            raise
        finally:
            for thread in threads:
                thread.stop()
            self.cluster.leave()
        ended = self.slots.stop(1.0)
        self._database.close()
        self._log_state("stopped")
        return self._exit_status(ended)

    def _helpers(self) -> list[LeaseKeeper | UpkeepThread | Alarm | PulseThread]:
        duration = self._config.lease_duration
        keeper = LeaseKeeper(
            self._database, self._clock, self._custody, duration, self.cluster.member_id
        )
        upkeep = UpkeepThread(
            self._database, self._janitor, self.cluster, self._lanes, self._config, self.wake
        )
        alarm = self._alarm = Alarm(
            self._database, self._config, self.cluster, self._lanes, upkeep, self._arrivals
        )
        self._settler.on_retry = self._lanes.on_new = upkeep.look_again
        self.cluster.on_change = alarm.others_changed
        if (pulse := self._options.pulse) is None:
            return [keeper, upkeep, alarm]
        self.cluster.beaten_for = lambda: pulse.beaten_at
        return [keeper, upkeep, alarm, PulseThread(pulse, self.cluster, self._config)]

    def _exit_status(self, ended: bool) -> int:
        if self._stuck:
            return EXIT_RECYCLE
        return EXIT_DONE if ended or not self._shutdown.forced.is_set() else EXIT_FORCED

    def round(self) -> None:
        """Collect what has finished, store it, claim what can start, hand it to the slots."""
        self._database.telemetry.held(len(self._custody))
        self._pace.is_woken = self._lanes.is_woken = self._alarm.is_reliable
        self._collect(self._pace.wait_seconds(busy=len(self._custody) > 0))
        with self._outage.survived():
            self._settler.settle()
            self._hand_back_waiting()
            self._claim()
        if self._outage.is_on:
            self._outage.pause(self._shutdown.requested)
            self._pace.woken()  # the wake-up has been used up by the claim that failed

    def _should_stop(self) -> bool:
        if self.cluster.failure is not None:
            raise self.cluster.failure
        if self._shutdown.requested.is_set() or self._stuck:
            return True
        supervisor = self._options.supervisor_pid
        if supervisor is not None and os.getppid() != supervisor:
            logger.warning("the supervisor is gone, stopping", extra=self._extra())
            return True
        return self._options.drain and self._is_drained()

    def _is_drained(self) -> bool:
        """Nothing here, and nothing ready anywhere: what is in other ranges has its owners."""
        if self._custody or self._settler.pending or not self._pace.is_idle:
            return False
        with self._outage.survived():
            everything = Share(tuple(self._lanes.refresh()), ALL_BUCKETS)
            self._janitor.promote([everything])
            return not choose(self._database, self._claimant(everything), 1)
        return False

    def _collect(self, wait: float) -> None:
        """Take what has finished; wait for the first, and a moment for more while work waits."""
        self._take_finished(wait)
        if 0 < self._settler.pending < SETTLE_BATCH and self.slots.waiting:
            Event().wait(LINGER_SECONDS)
            self._take_finished(0)

    def _take_finished(self, wait: float) -> None:
        finished, hints = self._arrivals.take(wait)
        if hints:
            self._nearby.heard(hints)
            # One look behind a commit sees all of it, unless a queue may be new.
            if not self._alarm.sees_commits or self._lanes.is_told:
                self._pace.woken()
        for attempt in finished:
            if attempt.stuck:
                self._stuck.append(attempt)
            else:
                self._settler.add(attempt)
                self._pace.finished(attempt.seconds)

    def _hand_back_waiting(self) -> None:
        overdue = self._patience.is_over(self.slots.waiting)
        if overdue:
            self._pace.slow_down()
        if overdue or self.cluster.leases_in_doubt.is_set():
            self._settler.hand_back(self.slots.take_back())
            # Only now: until here nothing starts that others may have taken.
            self.cluster.leases_in_doubt.clear()
            self._settler.settle()

    def _claim(self) -> None:
        room = self._quarantine.room(self._pace.room(len(self._custody), self.slots.waiting))
        if not room:
            return
        if not self._may_claim():
            self._pace.claimed(0)
            return
        is_called = self._nearby.is_called(self._lanes.current(), self._pace.is_idle)
        lanes = self._lanes.current() if is_called else self._lanes.refresh()
        shares = self._nearby.narrowed(self.cluster.fetch(lanes).in_turn(self._turn), is_called)
        self._turn += 1
        self._settler.unanswered = Unanswered(tuple(lanes), self.cluster.incarnation)
        count = 0
        for share in shares:
            if count < room:
                count += self._claim_share(share, room - count)
        self._nearby.has_left |= count >= room
        if not count and shares and not self._nearby.is_near:
            before = monotonic()
            stolen = self._thief.steal(shares, self._claimant(shares[0]), room)
            count = self._submit(stolen, before)
            self.cluster.counters.stolen += count
        self._settler.unanswered = None
        self._pace.claimed(count, look_again=self._nearby.is_near)

    def _claim_share(self, share: Share, limit: int) -> int:
        before, claimant = monotonic(), self._claimant(share)
        with self._database.telemetry.claiming():
            chosen, leases = self._nearby.take(self._database, claimant, limit, self._clock)
        if not chosen:
            return 0
        self._database.telemetry.claimed(leases, chosen=chosen)
        self.cluster.counters.lost_races += chosen - len(leases)
        count = self._submit(leases, before)
        self._nearby.has_left |= count < chosen
        return count

    def _submit(self, leases: list[Lease], before: float) -> int:
        self._custody.add(leases, before + self._config.lease_duration)
        self.cluster.counters.claimed += len(leases)
        return self._quarantine.start(leases)

    def _claimant(self, share: Share) -> Claimant:
        member, duration = self.cluster, self._config.lease_duration
        return Claimant(member.member_id, share.lanes, share.buckets, duration, member.incarnation)

    def _may_claim(self) -> bool:
        stopping = self._shutdown.requested.is_set() or self._stuck
        return not stopping and self.cluster.is_trusted()

    def _drain(self) -> None:
        """Hand back what has not started, finish what runs, release what does not end in time."""
        self._log_state("draining")
        self.cluster.drain()
        self._settler.hand_back(self.slots.take_back())
        deadline = monotonic() + self._options.shutdown_timeout
        while len(self._custody) > len(self._stuck) or self._settler.pending:
            with self._outage.survived():
                self._settler.settle()
            self._database.telemetry.held(len(self._custody))
            if monotonic() >= deadline or self._shutdown.forced.is_set():
                break
            self._take_finished(min(0.1, max(0.001, deadline - monotonic())))
            if self._outage.is_on:
                self._outage.pause(self._shutdown.forced)
        with self._outage.survived():
            # Only now: until here the stuck attempt may still be at work.
            for finished in self._stuck:
                self._settler.add(finished)
            self._settler.hand_back(self._custody.snapshot(), but=self._stuck)
            self._settler.settle()

    def _salvage(self) -> None:
        """After an unexpected error: hand back what has not started, store what still ends."""
        self._log_state("has met an error and stops")
        try:
            # By itself: the error may be in the way of what else waits to be stored.
            self._settler.release(self.slots.take_back())
            self._drain()
        except Exception:
            why = "it cannot hand back all it holds: some leases rest until they expire"
            logger.warning(why, exc_info=True, extra=self._extra())

    def _log_state(self, state: str) -> None:
        logger.info(
            "worker %s %s (tenant %s, queues %s, concurrency %d)",
            self.cluster.member_id,
            state,
            self._config.tenant,
            ", ".join(self._options.queues) or "all",
            self._options.concurrency,
            extra=self._extra(),
        )

    def _extra(self) -> dict[str, object]:
        return {"member_id": self.cluster.member_id}
