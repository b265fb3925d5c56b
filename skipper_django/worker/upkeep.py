"""The thread that runs the janitor beside the loop."""

import threading
from collections.abc import Callable

from ..janitor import (
    PROMOTE_EVERY_SECONDS,
    PRUNE_EVERY_SECONDS,
    RECLAIM_EVERY_SECONDS,
    Janitor,
    Timer,
)
from ..store.database import Database
from .outage import Outage

TICK_SECONDS = 0.25


class UpkeepThread:
    """Promotes, reclaims and prunes on timers; wakes the loop when it made tasks READY."""

    def __init__(
        self,
        database: Database,
        janitor: Janitor,
        lease_duration: float,
        member_id: str,
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._janitor = janitor
        self._wake = wake
        self._stop = threading.Event()
        self._outage = Outage(database, member_id, "keep the queue moving")
        self._timers = [
            Timer(PROMOTE_EVERY_SECONDS, self._promote),
            Timer(min(RECLAIM_EVERY_SECONDS, lease_duration / 4), self._reclaim),
            Timer(PRUNE_EVERY_SECONDS, self._prune, first=60.0),
        ]
        self._thread = threading.Thread(target=self._run, name="skipper-janitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            with self._outage.survived():
                for timer in self._timers:
                    timer.run_if_due()
            if self._outage.is_on:
                self._outage.pause(self._stop)
        self._database.close()

    def _promote(self) -> None:
        if self._janitor.promote():
            self._wake()

    def _reclaim(self) -> None:
        if self._janitor.reclaim():
            self._wake()

    def _prune(self) -> None:
        self._janitor.prune(self._stop)
