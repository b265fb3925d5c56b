"""Enqueue rates: one task per transaction, many in one, and the plain driver beside them."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any
from uuid import uuid4

from django.db import connection

from benchmarks.queue import Bench, Figures, bulk, medians
from benchmarks.tasks import noop
from skipper_django.models import Task
from skipper_django.store.add import COLUMNS


def measure(bench: Bench) -> Figures:
    def once() -> Figures:
        bench.clear()
        singles = _rate(bench.plan.singles, lambda: _singles(bench.plan.singles))
        assert Task.objects.count() == bench.plan.singles
        raw = _raw_rate(bench)
        bench.clear()
        many = _rate(bench.plan.bulk, lambda: bulk(range(bench.plan.bulk)))
        assert Task.objects.count() == bench.plan.bulk
        return {
            "enqueue_single": singles,
            "enqueue_raw": raw,
            "enqueue_share": singles / raw,
            "enqueue_bulk": many,
        }

    noop.enqueue(0)  # the first opens the connection and reads the clock
    return medians(once, bench.plan.repeats)


def _singles(count: int) -> None:
    for number in range(count):
        noop.enqueue(number)


def _raw_rate(bench: Bench) -> float:
    """The plain driver inserts rows like ours into the same table, one commit each."""
    marks = ", ".join(["?" if bench.target.name == "sqlite" else "%s"] * len(COLUMNS))
    table = connection.ops.quote_name(Task._meta.db_table)
    columns = ", ".join(COLUMNS)
    with closing(bench.target.connect()) as raw, closing(raw.cursor()) as cursor:
        cursor.execute(f"SELECT {columns} FROM {table} ORDER BY id LIMIT 1")  # noqa: S608
        _, *rest = cursor.fetchone()
        assert next(iter(COLUMNS)) == "task_id"
        rows: list[Any] = [(str(uuid4()), *rest) for _ in range(bench.plan.singles)]
        sql = f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608

        def insert() -> None:
            for row in rows:
                cursor.execute(sql, row)

        return _rate(bench.plan.singles, insert)


def _rate(count: int, work: Any) -> float:
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)
