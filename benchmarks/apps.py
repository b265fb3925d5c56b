"""Counts the statements of a worker on SQLite, which has no server to ask."""

from __future__ import annotations

import os
from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created

TRACE_VARIABLE = "SKIPPER_BENCH_TRACE"


class BenchmarksConfig(AppConfig):
    name = "benchmarks"

    def ready(self) -> None:
        path = os.environ.get(TRACE_VARIABLE)
        if path:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            connection_created.connect(self._trace)

    def _trace(self, *, connection: Any, **kwargs: Any) -> None:
        """Append one byte for each statement, BEGIN and COMMIT included, below Django's cursors.

        But not for the look at the counter of commits, which reads no table.
        """

        def count(sql: str) -> None:
            if sql != "PRAGMA data_version":
                os.write(self._file, b".")

        connection.connection.set_trace_callback(count)
