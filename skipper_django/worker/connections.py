"""Care for the database connections of a thread that runs tasks.

As in a web process each thread has its own and Django opens them on use. Here they stay open
between tasks, are checked after a pause, and are closed when the thread has nothing to do.
"""

import logging
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..core.clock import monotonic

# An older connection may have been closed by the server or a balancer: ask before using it.
CHECK_AFTER_SECONDS = 1.0
CLOSE_AFTER_IDLE_SECONDS = 5.0

logger = logging.getLogger("skipper_django.worker")


class ThreadConnections:
    """The connections of the thread that made this object."""

    def __init__(self) -> None:
        self._used_at = self._checked_at = monotonic()

    def before_task(self) -> None:
        """Drop what is too old or no longer answers, so that the task starts on a good one."""
        now = monotonic()
        if now - self._checked_at <= CHECK_AFTER_SECONDS:
            return
        rested = now - self._used_at > CHECK_AFTER_SECONDS
        self._checked_at = now
        for connection in _opened():
            if _is_too_old(connection) or (rested and not connection.is_usable()):
                _close(connection)

    def after_task(self) -> None:
        """Leave nothing of the task behind: no open transaction, no broken connection, no log."""
        self._used_at = monotonic()
        for connection in _opened():
            connection.queries_log.clear()
            if connection.in_atomic_block or not _is_clean(connection):
                _abandon(connection)

    def close(self) -> None:
        for connection in _opened():
            _close(connection)


def _opened() -> list[BaseDatabaseWrapper]:
    return [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.connection is not None
    ]


def _is_too_old(connection: BaseDatabaseWrapper) -> bool:
    # CONN_MAX_AGE=0 asks Django to close after each request; here the idle thread does it.
    max_age = connection.settings_dict["CONN_MAX_AGE"]
    return bool(max_age) and connection.close_at is not None and monotonic() >= connection.close_at


def _is_clean(connection: BaseDatabaseWrapper) -> bool:
    if connection.autocommit != connection.settings_dict["AUTOCOMMIT"]:
        return False
    if _is_closed(connection.connection):
        return False
    if connection.errors_occurred:
        connection.errors_occurred = False
        return connection.is_usable()
    return True


def _is_closed(raw: Any) -> bool:
    """Did the task close it below Django? Asked of the driver: no round trip."""
    try:
        raw.total_changes  # noqa: B018  (sqlite3 has no flag; an attribute of a closed one raises)
    except AttributeError:
        return bool(getattr(raw, "closed", False)) or not getattr(raw, "open", True)
    except Exception:
        return True
    return False


def _abandon(connection: BaseDatabaseWrapper) -> None:
    """Close a connection on which a task left a transaction open."""
    connection.in_atomic_block = False
    connection.savepoint_ids.clear()
    connection.atomic_blocks.clear()
    connection.needs_rollback = False
    connection.run_on_commit.clear()
    _close(connection)


def _close(connection: BaseDatabaseWrapper) -> None:
    try:
        connection.close()
    except Exception:
        # Whatever state the task left it in: forget it, or the thread could run nothing more.
        logger.debug("a database connection could not be closed", exc_info=True)
        connection.connection = None
