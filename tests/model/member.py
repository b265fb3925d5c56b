"""One member of the machine: a worker's real parts without its threads."""

from __future__ import annotations

from unittest import mock

from skipper_django.core.buckets import lane_of
from skipper_django.core.config import Config
from skipper_django.core.outcome import Failed, Outcome, Released, Retry, Succeeded
from skipper_django.core.reasons import FailReason
from skipper_django.janitor import Janitor
from skipper_django.store.claim import Claimant, Head, choose, take
from skipper_django.store.lease import Lease
from skipper_django.worker.cluster import Cluster
from skipper_django.worker.custody import Custody
from skipper_django.worker.execute import Executor
from skipper_django.worker.lanes import Lanes
from skipper_django.worker.leases import LeaseKeeper
from skipper_django.worker.registration import Applicant
from skipper_django.worker.upkeep import UpkeepThread
from tests.model.watched import Crash, SteppedSlots, Watched, Witness

QUEUE = "default"
QUEUES = {lane_of("default", QUEUE): QUEUE}


def outcome_of(lease: Lease, name: str) -> Outcome:
    """The result names its lease, so that it cannot be taken for another's."""
    errors = [{"attempt": lease.attempts}]
    if name == "succeeded":
        return Succeeded(str(lease.token))
    if name == "retry":
        return Retry(7.0, errors)
    return Released() if name == "released" else Failed(FailReason.EXCEPTION, errors)


class SimulatedMember:
    """Each method is one step that one of a worker's threads makes."""

    def __init__(self, name: str, witness: Witness, database: Watched, config: Config) -> None:
        self.name, self.witness, self.model = name, witness, witness.model
        self.database, self.config, self.clock = database, config, witness.clock
        applicant = Applicant(name, True, (QUEUE,), 4)
        self.cluster = Cluster(database, config, self.clock, applicant, lambda: True)
        self.cluster._thread = mock.Mock()
        self.custody = Custody()
        self.keeper = LeaseKeeper(database, self.clock, self.custody, config.lease_duration, name)
        self.janitor = Janitor(database, self.clock, config)
        lanes = Lanes(database, config.tenant, (QUEUE,))
        self.upkeep = UpkeepThread(
            database, self.janitor, self.cluster, lanes, config, lambda: None
        )
        self.slots = SteppedSlots(
            4,
            Executor(self.clock, self.cluster, 1000, self.cluster.holds_leases),
            lambda finished: None,
            self.custody,
        )
        self.heads: list[Head] = []
        self.chosen_at = 0.0
        self.running: list[Lease] = []
        self.outcomes: list[tuple[Lease, Outcome]] = []

    # Membership

    def beat(self) -> None:
        self.cluster.beat()

    def leave(self) -> None:
        self.cluster.drain()
        self._tell([*self.slots.take_back(), *self.running], "released")
        self.running = []
        self.settle()
        self.cluster.leave()
        raise Crash

    # Claim

    def choose(self, limit: int = 3) -> None:
        if self.cluster.is_trusted():
            self.chosen_at = self.clock.monotonic()
            self.heads = choose(self.database, self._claimant(), limit)

    def take(self) -> None:
        heads, self.heads = self.heads, []
        if not heads:
            return
        leases = take(self.database, self._claimant(), heads, self.clock.now())
        trusted_until = self.chosen_at + self.config.lease_duration
        self.custody.add(leases, trusted_until)
        for lease in leases:
            lease.trusted_until = trusted_until
            self.slots.submit(lease)

    def claim(self) -> None:
        self.choose()
        self.take()

    def choose_all(self) -> None:
        self.choose(100)

    def claim_all(self) -> None:
        self.choose(100)
        self.take()

    def _claimant(self) -> Claimant:
        (share,) = self.cluster.fetch(QUEUES).shares
        duration, incarnation = self.config.lease_duration, self.cluster.incarnation
        return Claimant(self.name, share.lanes, share.buckets, duration, incarnation)

    # Run

    def start(self) -> None:
        while (head := self.slots.start_next()) is not None:
            lease, may_start = head
            if may_start:
                incarnation = self.cluster.incarnation
                now = self.clock.now()
                self.model.started(self.name, incarnation, lease.id, lease.token, now)
                self.running.append(lease)
            else:
                self._tell([lease], "released")

    def finish(self, outcome: str = "succeeded") -> None:
        self._tell(self.running, outcome)
        self.running = []

    def fail_running(self) -> None:
        self.finish("failed")

    def hand_back(self) -> None:
        if self.cluster.leases_in_doubt.is_set():
            self._tell(self.slots.take_back(), "released")
            self.cluster.leases_in_doubt.clear()

    def _tell(self, leases: list[Lease], outcome: str) -> None:
        self.outcomes += [(lease, outcome_of(lease, outcome)) for lease in leases]

    def settle(self) -> None:
        self.witness.settle(self.database, self.outcomes, self.clock.now())
        for lease, _ in self.outcomes:
            self.custody.remove(lease)
        self.outcomes = []

    # Upkeep

    def renew(self) -> None:
        self.keeper.renew_once()

    def promote(self) -> None:
        self.upkeep._promote()

    def promote_what_is_due(self) -> None:
        """Without asking first when something will be: for stories about its two statements."""
        self.janitor.promote(self.upkeep._shares())

    def reclaim(self) -> None:
        self.upkeep._reclaim()

    def prune(self) -> None:
        self.janitor.prune()

    # Everything that a worker does all the time

    def live(self) -> None:
        for step in (self.beat, self.promote, self.reclaim, self.renew, self.hand_back):
            step()
        for step in (self.claim_all, self.start, self.finish, self.settle):
            step()

    def fail_all(self) -> None:
        for step in (self.promote, self.claim, self.start):
            step()
        self.finish("retry")
        self.settle()
