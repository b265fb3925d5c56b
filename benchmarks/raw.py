"""The raw limit: what one connection can claim and finish with the plain driver and nothing else.

The same table with its indexes, batches of 100, each statement a commit: find them, take them, read
what a worker needs, finish them. No Django, no task, no queue around it.
"""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from benchmarks.queue import Bench
from skipper_django.core.buckets import SLOTS, lane_of
from skipper_django.models import Task

BATCH = 100
TOKEN = 1
LANE = lane_of("default", "default")
TABLE = Task._meta.db_table


def rate(bench: Bench) -> float:
    """Tasks a second, over the tasks of one drain."""
    bench.clear()
    bench.fill(bench.plan.tasks)
    with closing(bench.target.connect()) as connection, closing(connection.cursor()) as cursor:
        started = time.perf_counter()
        done = sum(_empty(cursor, slot, bench.target.name) for slot in range(SLOTS))
        seconds = time.perf_counter() - started
    assert done == bench.plan.tasks, done
    return done / seconds


def _empty(cursor: Any, slot: int, database: str) -> int:
    """Claim and finish what waits in a slot; how many."""
    mark = "?" if database == "sqlite" else "%s"
    now = datetime.now(UTC).replace(tzinfo=None).isoformat(sep=" ")
    done = 0
    while True:
        cursor.execute(
            f"SELECT id, task_id, name, args, kwargs, attempts FROM {TABLE} "  # noqa: S608
            f"WHERE lane = {LANE} AND status = 1 AND slot = {slot} "
            f"ORDER BY ord, run_after, id LIMIT {BATCH}"
        )
        rows = cursor.fetchall()
        if not rows:
            return done
        ids = ", ".join(str(row[0]) for row in rows)
        cursor.execute(
            f"UPDATE {TABLE} SET status = 2, lease_token = {TOKEN}, attempts = attempts + 1, "  # noqa: S608
            f"lease_expires_at = {mark}, started_at = {mark}, last_attempted_at = {mark}, "
            f"worker_ids = {mark} WHERE id IN ({ids}) AND status = 1",
            (now, now, now, "raw\n"),
        )
        cursor.execute(
            f"UPDATE {TABLE} SET status = 3, ord = 0, finished_at = {mark}, "  # noqa: S608
            f"lease_token = -{TOKEN}, lease_expires_at = NULL "
            f"WHERE id IN ({ids}) AND lease_token = {TOKEN}",
            (now,),
        )
        assert cursor.rowcount == len(rows), (cursor.rowcount, len(rows))
        done += len(rows)
