"""Live through a database that is away: try again with growing pauses, say so once."""

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from django.db import Error

from ..store.database import Database
from .shutdown import Flag

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 3.0

logger = logging.getLogger("skipper_django.worker")


class Outage:
    """One thread's view of its connection to the queue's database."""

    def __init__(
        self,
        database: Database,
        member_id: str,
        what: str,
        longest_pause: float = LONGEST_PAUSE_SECONDS,
    ) -> None:
        self._longest_pause = min(longest_pause, LONGEST_PAUSE_SECONDS)
        self._database = database
        self._extra = {"member_id": member_id}
        self._what = what
        self._failures = 0
        self._is_told = False

    @contextmanager
    def survived(self) -> Iterator[None]:
        """Swallow what passes by itself; every other error goes on."""
        try:
            yield
        except Error as error:
            if not self._database.is_transient(error):
                raise
            self._database.telemetry.unavailable(self._what, first=not self._is_told)
            if not self._is_told:
                message = "database unavailable while trying to %s, trying again: %s"
                logger.warning(message, self._what, error, extra=self._extra)
            self._is_told = True
            self._failures += 1
            self._close()
        else:
            # Closed by the failure: where it is still closed, nothing was asked.
            if self._is_told and self._database.connection.connection is not None:
                logger.warning("database is back: can %s again", self._what, extra=self._extra)
                self._is_told = False
            self._failures = 0
            self._database.connection.queries_log.clear()

    @property
    def is_on(self) -> bool:
        return self._failures > 0

    def pause(self, stop: Event | Flag) -> None:
        """Wait before the next try, up to 3 s or the chosen limit, unless told to stop."""
        longest = min(self._longest_pause, FIRST_PAUSE_SECONDS * 2 ** min(self._failures, 10))
        stop.wait(longest * random.uniform(0.5, 1.0))  # noqa: S311

    def _close(self) -> None:
        try:
            self._database.close()
        except Error:
            self._database.connection.connection = None
