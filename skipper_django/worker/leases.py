"""Renew the leases that this worker holds, from a thread of its own."""

import logging
import threading

from ..core.clock import Clock, monotonic
from ..core.telemetry import Telemetry
from ..signals import lease_lost
from ..store.database import Database
from ..store.lease import Lease
from ..store.upkeep import renew
from .custody import Custody
from .execute import log_fields
from .outage import Outage
from .pulse import RENEWALS_PER_LEASE

logger = logging.getLogger("skipper_django.worker")


class LeaseKeeper:
    """Renews all leases in one statement at a third of their duration."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        custody: Custody,
        lease_duration: float,
        member_id: str,
    ) -> None:
        self._database = database
        self._clock = clock
        self._custody = custody
        self._lease_duration = lease_duration
        self._member_id = member_id
        self._outage = Outage(database, member_id, "renew leases")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skipper-leases", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def renew_once(self) -> None:
        held = self._custody.snapshot()
        trusted_until = monotonic() + self._lease_duration
        may_trust = self._custody.trust(trusted_until)
        lost, settled = renew(self._database, held, self._clock.now(), self._lease_duration)
        self._database.telemetry.renewed(len(held) - len(lost))
        gone = {(lease.id, lease.token) for lease in (*lost, *settled)}
        for lease in held:
            # What is gone may be waiting for a slot: it must not start any more.
            if (lease.id, lease.token) in gone:
                lease.trusted_until = 0.0
            elif may_trust:
                lease.trusted_until = trusted_until
        for lease in lost:
            report_lost(self._custody, lease, self._member_id, self._database.telemetry)

    def _run(self) -> None:
        while not self._stop.wait(self._lease_duration / RENEWALS_PER_LEASE):
            with self._outage.survived():
                self.renew_once()
            while self._outage.is_on and not self._stop.is_set():
                self._outage.pause(self._stop)
                with self._outage.survived():
                    self.renew_once()
            # It would rest until the next renewal, long enough for a server to cut it off.
            self._database.close()


def report_lost(custody: Custody, lease: Lease, member_id: str, telemetry: Telemetry) -> None:
    """Somebody else may have the task by now: let go of it and discard what it leads to."""
    if custody.remove(lease):
        lease.trusted_until = 0.0  # if it waits for a slot, it must not start
        telemetry.lease_lost(lease)
        logger.warning(
            "%s %s lost its lease; its outcome will be discarded",
            lease.name,
            lease.task_id,
            extra=log_fields(lease, member_id),
        )
        lease_lost.send_robust(sender=LeaseKeeper, task_id=lease.task_id, name=lease.name)
