"""Tell idle workers, after the commit, that there is something to do.

Three ways, each a help where it is there and no loss where it is not: a call in the same process,
a datagram on the same host, NOTIFY on PostgreSQL. Beneath them every worker polls.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from django.db import transaction

from . import conf, datagrams
from .core.buckets import bucket_of, lane_of
from .core.clock import monotonic
from .core.hint import Hint

if TYPE_CHECKING:
    from datetime import datetime

    from django.db.backends.base.base import BaseDatabaseWrapper

    from .core.config import Config
    from .store.add import NewTask
    from .store.database import Database

logger = logging.getLogger("skipper_django.wake_up")

# A commit with NOTIFY takes a lock of the whole server: one in so many seconds is enough, as a
# worker that was woken polls often for longer than that.
NOTIFY_EVERY_SECONDS = 0.05
SCHEDULED = "scheduled"

_listeners: dict[str, set[Callable[[Hint], None]]] = {}
_lock = threading.Lock()
_notified_at: dict[tuple[str, bool], float] = {}


def listen(channel: str, listener: Callable[[Hint], None]) -> None:
    """Call `listener`, from whatever thread adds tasks, until unlisten()."""
    with _lock:
        _listeners[channel] = {*_listeners.get(channel, ()), listener}


def unlisten(channel: str, listener: Callable[[Hint], None]) -> None:
    with _lock:
        _listeners[channel] = _listeners.get(channel, set()) - {listener}


def local_channel(config: Config, connection: BaseDatabaseWrapper) -> str:
    """Names one queue among all databases that the processes of a host may use."""
    settings = connection.settings_dict
    name = str(settings["NAME"])
    if connection.vendor == "sqlite":
        name = _real_path(name)
    place = (connection.vendor, str(settings.get("HOST")), str(settings.get("PORT")), name)
    return _digest(*place, config.table_prefix, config.tenant)


def notify_channel(config: Config) -> str:
    """Names one queue inside one database, whatever address it is reached by."""
    return f"skipper_{_digest(config.table_prefix, config.tenant)}"


_real_path = lru_cache(os.path.realpath)


@lru_cache
def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def wake(backend: str | None = None) -> None:
    """Wake all workers that can be reached: for rows that did not come by enqueue.

    Call it after the commit. `backend`: the entry of TASKS whose workers are meant (None: SKIPPER).
    """
    from .store.database import Database

    config = conf.of_backend(backend)
    _Announcement(config, Database(config.database), Hint(scheduled=True))()


def announce(config: Config, database: Database, tasks: Sequence[NewTask], now: datetime) -> None:
    """Wake workers for these tasks once the caller's transaction is committed."""
    connection = database.connection
    if not config.wake_up or not tasks:
        return
    if not connection.in_atomic_block and not connection.get_autocommit():
        return  # a transaction that Django does not know of: its end is not told
    hint = _hint_of(tasks, now)
    waiting = connection.run_on_commit[-1][1] if connection.run_on_commit else None
    if isinstance(waiting, _Announcement) and waiting.config == config:
        waiting.hint = waiting.hint.merged(hint)
    else:
        announcement = _Announcement(config, database, hint)
        transaction.on_commit(announcement, using=database.alias, robust=True)


def _hint_of(tasks: Sequence[NewTask], now: datetime) -> Hint:
    scheduled = any(task.run_after is not None and task.run_after > now for task in tasks)
    if len(tasks) > 1:  # some for every member, most likely
        return Hint(scheduled=scheduled)
    (task,) = tasks
    lane = lane_of(task.tenant, task.queue_name)
    return Hint(lane, bucket_of(task.task_id), scheduled, task.task_id)


class _Announcement:
    """What one transaction has to tell; runs after its commit."""

    def __init__(self, config: Config, database: Database, hint: Hint) -> None:
        self.config = config
        self.hint = hint
        self._database = database

    def __call__(self) -> None:
        connection = self._database.connection
        channel = local_channel(self.config, connection)
        for listener in _listeners.get(channel, ()):
            listener(self.hint)
        directory = datagrams.known_directory_of(self.config.wake_up)
        if directory is not None:
            datagrams.send(directory, channel, self.hint)
        if self._database.dialect.notifies:
            _notify(connection, notify_channel(self.config), self.hint)


def noticed(payload: str) -> Hint:
    """The hint in a notification: to all members, as it may stand for others that were not sent.

    The id of the task only tells whoever has heard of it by a datagram that this is the same.
    """
    return Hint(scheduled=True) if payload == SCHEDULED else Hint(task_id=payload)


def _notify(connection: BaseDatabaseWrapper, channel: str, hint: Hint) -> None:
    """NOTIFY, to all members: those of other hosts have had no datagram."""
    key, now = (channel, hint.scheduled), monotonic()
    if now - _notified_at.get(key, -inf) < NOTIFY_EVERY_SECONDS or connection.connection is None:
        return
    _notified_at[key] = now
    payload = SCHEDULED if hint.scheduled else hint.task_id
    try:
        # Below Django's cursor wrappers, as the clock: it must not be counted as the caller's.
        with closing(connection.create_cursor()) as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [channel, payload])
    except Exception:
        logger.debug("NOTIFY failed; workers will find the tasks by polling", exc_info=True)
