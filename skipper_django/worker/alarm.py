"""Wakes the resting loop when others have added tasks.

One thread waits for datagrams and, on PostgreSQL, for notifications. On SQLite the loop itself
looks whether the file was written. Only where no wake-up can fail to come may the loop rest long.
"""

import logging
import selectors
import socket
import threading
from typing import Any

from ..core.config import Config
from ..core.hint import ANY, Hint
from ..datagrams import Inbox, directory_of
from ..store.database import Database
from ..wakeup import listen, local_channel, noticed, notify_channel, unlisten
from .arrivals import Arrivals
from .cluster import Cluster
from .lanes import Lanes
from .outage import LONGEST_PAUSE_SECONDS, Outage
from .upkeep import UpkeepThread

logger = logging.getLogger("skipper_django.worker")


class Alarm:
    """Turns hints into rings for the loop and looks for the upkeep."""

    def __init__(
        self,
        database: Database,
        config: Config,
        cluster: Cluster,
        lanes: Lanes,
        upkeep: UpkeepThread,
        arrivals: Arrivals,
    ) -> None:
        self._database = database
        self._config = config
        self._cluster = cluster
        self._lanes = lanes
        self._upkeep = upkeep
        self._arrivals = arrivals
        upkeep.is_woken = lambda: self.is_reliable
        self._extra = {"member_id": cluster.member_id}
        self._outage = Outage(database, cluster.member_id, "listen for wake-ups")
        self._channel = local_channel(config, database.connection)
        self._inbox: Inbox | None = None
        self._notices: Notices | None = None
        self._seen_version: int | None = None
        self._is_on = config.wake_up is not False
        self._listens = self._is_on and database.dialect.notifies
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skipper-wake-up", daemon=True)

    @property
    def is_reliable(self) -> bool:
        """Does every commit wake this worker, from wherever it comes?"""
        return self._notices is not None or self.sees_commits

    @property
    def sees_commits(self) -> bool:
        return self._is_on and self._database.dialect.counts_commits

    def saw_commit(self) -> bool:
        """SQLite, in the loop's thread: has another connection committed since the last call?"""
        connection = self._database.connection.connection
        if connection is None:
            return False
        # Below Django, as it is asked a hundred times a second: 2 microseconds a time.
        try:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
        except Exception:
            return True  # locked for long, perhaps: the claim meets it, too, and lives through it
        before, self._seen_version = self._seen_version, version
        return before is not None and version != before

    def heed(self, hint: Hint) -> None:
        """Wake what the hint concerns; called in any thread."""
        if hint.lane not in self._lanes.current():
            if not self._lanes.look_again() and hint.lane != ANY:
                return  # a queue that this worker does not serve
        elif hint.bucket != ANY and not self._cluster.fetches(hint.lane, hint.bucket):
            return  # another member's
        if hint.scheduled:
            self._upkeep.look_again()
        self._arrivals.ring(hint)

    def others_changed(self) -> None:
        """Members have come or gone: the ranges are others, and leases of the dead are free."""
        self._upkeep.look_for_lost()
        self.heed(Hint(scheduled=True))

    def start(self) -> None:
        if self._is_on:
            if self.sees_commits:
                self._arrivals.saw_commit = self.saw_commit
            self._bell = socket.socketpair()
            # Before the first claim: what is added after it must not go unheard.
            self._inbox = self._open_inbox()
            listen(self._channel, self.heed)
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._bell is None:
            return
        self._bell[1].send(b"\0")
        self._thread.join(timeout=5)
        for end in self._bell:
            end.close()

    def _run(self) -> None:
        inbox = self._inbox
        try:
            with selectors.DefaultSelector() as selector:
                bell, _ = self._bell or socket.socketpair()
                selector.register(bell, selectors.EVENT_READ)
                if inbox is not None:
                    selector.register(inbox, selectors.EVENT_READ)
                while not self._stop.is_set():
                    self._listen(selector)
                    self._wait(selector)
        finally:
            unlisten(self._channel, self.heed)
            if inbox is not None:
                inbox.close()
            self._database.close()

    def _open_inbox(self) -> Inbox | None:
        directory = directory_of(self._config.wake_up)
        try:
            if directory is not None:
                return Inbox(directory, self._channel)
        except OSError as error:
            logger.info("no wake-ups from this host: %s", error, extra=self._extra)
        return None

    def _wait(self, selector: selectors.BaseSelector) -> None:
        missing = self._listens and self._notices is None
        for key, _ in selector.select(LONGEST_PAUSE_SECONDS if missing else None):
            if isinstance(key.fileobj, socket.socket):
                continue  # the bell: it is to stop
            with self._outage.survived():
                source: Any = key.fileobj
                for hint in source.read():
                    self.heed(hint)
            if self._outage.is_on:
                self._forget(selector)

    def _listen(self, selector: selectors.BaseSelector) -> None:
        """Open, or open again, the session that hears NOTIFY."""
        if not self._listens or self._notices is not None:
            return
        with self._outage.survived():
            notices = Notices.open(self._database, notify_channel(self._config))
            if notices is None:
                self._listens = False
                why = "NOTIFY does not come through to here (a pooler in between?): polling"
                logger.info(why, extra=self._extra)
            else:
                selector.register(notices, selectors.EVENT_READ)
                self._notices = notices
                self.heed(Hint(scheduled=True))  # what came before is not told
        if not self._listens:
            self._database.close()

    def _forget(self, selector: selectors.BaseSelector) -> None:
        if self._notices is not None:
            selector.unregister(self._notices)
            self._notices = None
            self.heed(Hint(ANY, ANY))  # the loop must not rest long any more


class Notices:
    """A PostgreSQL session that listens: a source of hints."""

    def __init__(self, database: Database, raw: Any) -> None:
        self._database = database
        self._raw = raw
        self._descriptor = raw.fileno()

    @classmethod
    def open(cls, database: Database, channel: str) -> "Notices | None":
        """None where notifications cannot arrive: another driver, or a pooler in between."""
        connection = database.connection
        connection.ensure_connection()
        raw = connection.connection
        if not hasattr(raw, "pgconn"):
            return None
        ((backend,),) = database.rows("SELECT pg_backend_pid()")
        if backend != raw.info.backend_pid:
            return None  # the process that answers is not the one that was connected to
        database.execute(f"LISTEN {channel}")
        return cls(database, raw)

    def fileno(self) -> int:
        return int(self._descriptor)

    def read(self) -> list[Hint]:
        """All that has come; raises Django's OperationalError when the session has ended."""
        hints = []
        with self._database.connection.wrap_database_errors:
            self._raw.pgconn.consume_input()
            while notice := self._raw.pgconn.notifies():
                hints.append(noticed(notice.extra.decode(errors="replace")))
        return hints
