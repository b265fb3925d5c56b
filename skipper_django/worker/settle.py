"""Outcomes on their way into the store: in batches under load, at once when idle."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.db import DatabaseError

from ..core.clock import Clock, monotonic
from ..core.outcome import Failed, Outcome, Released, Retry, describe_error
from ..core.reasons import FailReason
from ..store.claim import held_by
from ..store.database import Database
from ..store.lease import Lease
from ..store.settle import settle
from .custody import Custody
from .execute import HasMemberId, log_fields
from .finished import Finished
from .leases import report_lost

logger = logging.getLogger("skipper_django.worker")

SETTLE_BATCH = 500


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A claim that was sent: until it is answered, the database may hold more than custody does."""

    lanes: tuple[int, ...]
    incarnation: int


class Settler:
    """Keeps outcomes until they are stored; a task keeps its place and its lease as long."""

    def __init__(
        self, database: Database, clock: Clock, custody: Custody, member: HasMemberId
    ) -> None:
        self._database = database
        self._clock = clock
        self._custody = custody
        self._member = member
        self.on_retry: Callable[[], None] = lambda: None
        self._unsettled: list[tuple[Lease, Outcome]] = []
        self.unanswered: Unanswered | None = None

    @property
    def pending(self) -> int:
        return len(self._unsettled)

    def add(self, finished: Finished) -> None:
        finished.lease.seconds = finished.seconds
        self._unsettled.append((finished.lease, finished.outcome))

    def hand_back(self, leases: Iterable[Lease], but: Sequence[Finished] = ()) -> None:
        """Release what has not started or is cut off; the attempt does not count."""
        kept = {finished.lease.id for finished in but}
        self._unsettled += [(lease, Released()) for lease in leases if lease.id not in kept]

    def release(self, leases: Iterable[Lease]) -> None:
        """The same now, whatever else waits to be stored."""
        self._store([(lease, Released()) for lease in leases if self._custody.holds(lease)])

    def settle(self) -> None:
        """Store the outcomes of the leases still held; after an error the rest is kept."""
        if self.unanswered is not None:
            self._hand_back_unanswered(self.unanswered)
        while self._unsettled:
            batch = self._unsettled[:SETTLE_BATCH]
            self._store(
                [(lease, outcome) for lease, outcome in batch if self._custody.holds(lease)]
            )
            del self._unsettled[: len(batch)]

    def _hand_back_unanswered(self, claim: Unanswered) -> None:
        """The claim met an error: what it took all the same has not started and never would."""
        held = held_by(self._database, claim.lanes, claim.incarnation, self._clock.now())
        known = {(lease.id, lease.token) for lease in self._custody.snapshot()}
        unknown = [lease for lease in held if (lease.id, lease.token) not in known]
        self.unanswered = None
        if unknown:
            self._custody.add(unknown, 0.0)
            self.hand_back(unknown)
            logger.warning(
                "handed back %d tasks whose claim was not answered",
                len(unknown),
                extra={"member_id": self._member.member_id},
            )

    def _store(self, settlements: list[tuple[Lease, Outcome]]) -> None:
        if not settlements:
            return
        before = monotonic()
        try:
            now = self._clock.now()
            lost = settle(self._database, settlements, now)
        except DatabaseError as error:
            if self._database.is_transient(error):
                raise
            self._store_singly(settlements, error)
            return
        self._database.telemetry.settled(settlements, lost, monotonic() - before, now)
        for lease, _ in lost:
            report_lost(self._custody, lease, self._member.member_id, self._database.telemetry)
        for lease, _ in settlements:
            self._custody.remove(lease)
        if any(isinstance(outcome, Retry) for _, outcome in settlements):
            self.on_retry()

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
            "%s %s: the database refuses its outcome: %s",
            lease.name,
            lease.task_id,
            error,
            extra=log_fields(lease, self._member.member_id),
        )
        refused = Failed(FailReason.BAD_RESULT, [describe_error(error, lease.attempts)])
        self._store([(lease, refused)])
