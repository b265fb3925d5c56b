"""The one door to the queue's database: raw statements on one alias, named explicitly."""

import random
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Event
from typing import Any, TypeVar

from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..core.telemetry import SILENT, Telemetry
from ..models import Task
from .dialects import Dialect, dialect_of

T = TypeVar("T")

CONTENTION_TRIES = 8


class Database:
    """The alias that holds the queue. Each thread that uses it has a connection of its own.

    Its telemetry is that of the worker, or whoever, for whom the statements are.
    """

    def __init__(self, alias: str, telemetry: Telemetry = SILENT) -> None:
        self.alias = alias
        self.telemetry = telemetry
        self.dialect: Dialect = dialect_of(self.connection)
        self.tasks = self.connection.ops.quote_name(Task._meta.db_table)

    @property
    def connection(self) -> BaseDatabaseWrapper:
        return connections[self.alias]

    def execute(self, sql: str, params: Sequence[Any] | None = None) -> int:
        """Run a statement; how many rows it matched."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            return int(cursor.rowcount)

    def rows(self, sql: str, params: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            return list(cursor.fetchall())

    def to_db(self, moment: datetime) -> Any:
        return self.dialect.to_db(moment)

    def is_transient(self, error: Exception) -> bool:
        """May the same statement succeed later, after a reconnect or when others are done?"""
        return (
            isinstance(error, DatabaseError)
            and (self.dialect.is_contention(error) or self.dialect.is_outage(error))
        ) or self.dialect.is_outage(error)

    def through_contention(self, statement: Callable[[], T]) -> T:
        """Run a statement that is its own transaction again while others hold its rows (R8)."""
        for attempt in range(1, CONTENTION_TRIES + 1):
            try:
                return statement()
            except DatabaseError as error:
                last = attempt == CONTENTION_TRIES or self.connection.in_atomic_block
                if last or not self.dialect.is_contention(error):
                    raise
                self.telemetry.contended(self.dialect.name)
                Event().wait(random.uniform(0.001, 0.01) * attempt)  # noqa: S311
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close this thread's connection; the next statement opens a new one."""
        self.connection.close()
