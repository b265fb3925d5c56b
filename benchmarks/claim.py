"""What a claim costs as the backlog, the other rows and the number of members grow.

The statements themselves, on one connection: choose and take up to 100 tasks, then give them back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from statistics import median

from django.db import connection

from benchmarks.queue import Bench, Figures
from skipper_django.core.buckets import ALL_BUCKETS, BUCKETS, BucketRange, lane_of
from skipper_django.core.states import TaskState
from skipper_django.store.claim import Claimant, choose, take
from skipper_django.store.database import Database
from tests.store.filling import fill

BATCH = 100
BASE = 100  # thousand tasks, where something else than the backlog grows
DAY = timedelta(days=1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LANE = lane_of("default", "default")
SHARES = (4, 16, 64)
OTHERS = ("future", "queue", "tenant", "finished")


class Table:
    """Rows added by the thousand, and the median time of a claim from them."""

    def __init__(self, bench: Bench) -> None:
        self._database = Database("default")
        self._repeats = bench.plan.claims
        bench.clear()

    def add(self, thousands: int, status: TaskState = TaskState.READY, **values: object) -> None:
        fill(self._database, thousands, status, **values)

    def claim(self, buckets: BucketRange = ALL_BUCKETS) -> float:
        """Milliseconds to choose and take 100 tasks of these buckets."""
        claimant = Claimant("member", (LANE,), buckets, 60.0)

        def call() -> None:
            heads = choose(self._database, claimant, BATCH)
            taken = take(self._database, claimant, heads, NOW)
            assert len(taken) == BATCH, len(taken)

        return self._median(call)

    def probe(self, buckets: BucketRange) -> float:
        """Milliseconds to find that there is nothing."""
        claimant = Claimant("member", (LANE,), buckets, 60.0)

        def call() -> None:
            assert choose(self._database, claimant, BATCH) == []

        return self._median(call)

    def _median(self, call: Callable[[], None]) -> float:
        seconds = []
        for _ in range(self._repeats + 1):
            started = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - started)
            self._give_back()
        return median(seconds[1:]) * 1000

    def _give_back(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE {self._database.tasks} SET status = 1, ord = -priority, "  # noqa: S608
                "lease_token = NULL, lease_expires_at = NULL, attempts = 0, worker_ids = '' "
                f"WHERE status = 2 AND lane = {LANE}"
            )


def measure(bench: Bench) -> Figures:
    table, largest = Table(bench), bench.plan.backlog
    figures: Figures = {}
    there = 0
    for size in (size for size in (1, 10, BASE) if size <= largest):
        table.add(size - there, first=there)
        there = size
        figures[f"claim_{size}k"] = table.claim()
    for parts in SHARES:
        figures[f"claim_share_{parts}"] = table.claim(BucketRange(0, BUCKETS // parts))
    figures |= _beside(table, largest)
    if largest > there:
        table.add(largest - there, first=there)
        figures[f"claim_{largest}k"] = table.claim()
    figures |= _empty_share(Table(bench), there)
    return figures | _spans(figures)


def _beside(table: Table, largest: int) -> Figures:
    """The same claim with more and more rows that are not its business."""
    figures: Figures = {}
    table.add(there := min(BASE, largest), TaskState.SCHEDULED, priority=100, run_after=NOW + DAY)
    figures["claim_future"] = table.claim()
    table.add(there, queue_name="other")
    figures["claim_queue"] = table.claim()
    table.add(there, tenant="other")
    figures["claim_tenant"] = table.claim()
    table.add(largest, TaskState.SUCCESSFUL)
    figures["claim_finished"] = table.claim()
    return figures


def _empty_share(table: Table, thousands: int) -> Figures:
    """A backlog that lies in the buckets of others only."""
    table.add(thousands)
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {Database('default').tasks} WHERE bucket < 16"  # noqa: S608
        )
    return {"claim_empty": table.probe(BucketRange(0, 16))}


def _spans(figures: Figures) -> Figures:
    """The most of each group as a multiple of its least: 1 is flat."""

    def span(names: list[str]) -> float:
        values = [figures[name] for name in names]
        return max(values) / min(values)

    sizes = [f"claim_{size}k" for size in (1, 10, 100, 1000) if f"claim_{size}k" in figures]
    base = [f"claim_{BASE}k"] if f"claim_{BASE}k" in figures else sizes[-1:]
    return {
        "span_backlog": span(sizes),
        "span_share": span([*base, *(f"claim_share_{parts}" for parts in SHARES)]),
        "span_others": span([*base, *(f"claim_{other}" for other in OTHERS)]),
    }
