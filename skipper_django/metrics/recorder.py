"""What a worker tells, as numbers in its place on the board."""

import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from math import nan

from ..core.buckets import BucketRange
from ..core.clock import monotonic
from ..core.outcome import Failed, Outcome, Released, Retry, Succeeded
from ..core.reasons import FetchMode, FetchReason
from ..core.telemetry import RunTask, Telemetry
from . import names
from .board import Place
from .names import GAUGE, WORKER_METRICS, Metric

OUTCOMES: dict[type[Outcome], str] = {
    Succeeded: "succeeded",
    Retry: "retried",
    Failed: "failed",
    Released: "released",
}
LOST = "lost"


class Numbers:
    """The metrics of one place, by name and labels."""

    def __init__(self, place: Place) -> None:
        place.enter()
        place.clear({metric.name for metric in WORKER_METRICS if metric.kind == GAUGE})
        self._place = place

    def add(self, metric: Metric, *labels: str, amount: float = 1.0) -> None:
        place = self._place
        with place.lock:
            word = place.where((metric.name, *labels), 1)
            if word is not None:
                place.words[word] += amount

    def set(self, metric: Metric, *labels: str, value: float) -> None:
        place = self._place
        with place.lock:
            word = place.where((metric.name, *labels), 1)
            if word is not None:
                place.words[word] = value

    def observe(self, metric: Metric, *labels: str, values: Iterable[float]) -> None:
        """The number of values up to each bound, of those beyond the last, and the sum of all."""
        place, bounds = self._place, metric.buckets
        with place.lock:
            first = place.where((metric.name, *labels), len(bounds) + 2)
            if first is None:
                return
            words, total = place.words, 0.0
            for value in values:
                words[first + bisect_left(bounds, value)] += 1
                total += value
            words[first + len(bounds) + 1] += total


class Recorder(Telemetry):
    """The telemetry of one worker process; made after the fork. Safe to call from any thread."""

    def __init__(self, place: Place, tenant: str) -> None:
        self._numbers = Numbers(place)
        self._tenant = tenant
        self._member = ""
        self._held = -1
        self._range = (-1, -1)
        self._range_lock = threading.Lock()
        # A series that does not exist yet has no rate: those known beforehand begin at 0.
        for mode in FetchMode:
            self._count(names.FETCHES, mode.value, amount=0)
        for reason in FetchReason:
            self._count(names.FALLBACKS, reason.value, amount=0)
        for metric in (names.LOST_RACES, names.RENEWED, names.RECLAIMED, names.PROMOTED):
            self._count(metric, amount=0)
        self._count(names.PRUNED, amount=0)

    def _count(self, metric: Metric, *labels: str, amount: float = 1.0) -> None:
        self._numbers.add(metric, self._tenant, *labels, amount=amount)

    def _observe(self, metric: Metric, *labels: str, values: Iterable[float]) -> None:
        self._numbers.observe(metric, self._tenant, *labels, values=values)

    def _show(self, metric: Metric, value: float) -> None:
        self._numbers.set(metric, self._tenant, self._member, value=value)

    # The cluster

    def started(self, member_id: str, slots: int) -> None:
        if self._member and member_id != self._member:
            for metric in WORKER_METRICS:
                if metric.labels == ("tenant", "member"):
                    self._show(metric, nan)
        self._member = member_id
        self._held, self._range = -1, (-1, -1)
        self._show(names.SLOTS, slots)
        self._show(names.LIVE_SEEN, 0)
        self.held(0)
        self._show_range(0, 0)

    def fetched(self, mode: FetchMode, reason: FetchReason | None, buckets: BucketRange) -> None:
        self._count(names.FETCHES, mode.value)
        if reason is not None:
            self._count(names.FALLBACKS, reason.value)
        self._show_range(buckets.start, buckets.stop)

    def _show_range(self, start: int, stop: int) -> None:
        # The loop and the heartbeat both tell it: start and end must be of one of them.
        with self._range_lock:
            if (start, stop) != self._range:
                self._range = (start, stop)
                self._show(names.RANGE_START, start)
                self._show(names.RANGE_END, stop)

    def beaten(self, seconds: float) -> None:
        self._observe(names.HEARTBEAT_SECONDS, values=(seconds,))

    def viewed(self, live: int, has_range: bool, seconds: float) -> None:
        self._observe(names.LIST_SECONDS, values=(seconds,))
        self._show(names.LIVE_SEEN, live)
        if not has_range:
            self._show_range(0, 0)

    # Claims

    @contextmanager
    def claiming(self) -> Iterator[None]:
        before = monotonic()
        try:
            yield
        except Exception as error:
            self._count(names.FETCH_ERRORS, type(error).__name__)
            raise
        self._observe(names.CLAIM_SECONDS, values=(monotonic() - before,))

    def claimed(self, leases: Sequence[RunTask], chosen: int, stolen: bool = False) -> None:
        for queue_name, count in Counter(lease.queue_name for lease in leases).items():
            self._count(names.CLAIMED, queue_name, amount=count)
            if stolen:
                self._count(names.STOLEN, queue_name, amount=count)
        if chosen > len(leases):
            self._count(names.LOST_RACES, amount=chosen - len(leases))

    def held(self, count: int) -> None:
        if count != self._held:
            self._held = count
            self._show(names.RUNNING, count)

    # Outcomes

    def settled(
        self,
        settlements: Sequence[tuple[RunTask, Outcome]],
        lost: Sequence[tuple[RunTask, Outcome]],
        seconds: float,
        now: datetime,
    ) -> None:
        self._observe(names.SETTLE_SECONDS, values=(seconds,))
        self._observe(names.SETTLE_TASKS, values=(len(settlements),))
        refused = {id(lease) for lease, _ in lost}
        outcomes: Counter[tuple[str, str, str, str]] = Counter()
        ran: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        waited: defaultdict[str, list[float]] = defaultdict(list)
        instant = monotonic() - seconds  # what `now` was
        for lease, outcome in settlements:
            if lease.begun:
                ran[lease.queue_name, lease.name].append(lease.seconds)
                start = now - timedelta(seconds=instant - lease.begun)
                waited[lease.queue_name].append(max(0.0, (start - lease.run_after).total_seconds()))
            if id(lease) not in refused:
                reason = outcome.reason.value if isinstance(outcome, Failed) else ""
                outcomes[lease.queue_name, lease.name, OUTCOMES[type(outcome)], reason] += 1
        for labels, count in outcomes.items():
            self._count(names.FINISHED, *labels, amount=count)
        for task, durations in ran.items():
            self._observe(names.TASK_SECONDS, *task, values=durations)
        for queue_name, waits in waited.items():
            self._observe(names.WAIT_SECONDS, queue_name, values=waits)

    def lease_lost(self, lease: RunTask) -> None:
        self._count(names.LOST, lease.queue_name)
        self._count(names.FINISHED, lease.queue_name, lease.name, LOST, "")

    # Upkeep

    def renewed(self, count: int) -> None:
        self._count(names.RENEWED, amount=count)

    def promoted(self, count: int) -> None:
        self._count(names.PROMOTED, amount=count)

    def reclaimed(self, count: int) -> None:
        self._count(names.RECLAIMED, amount=count)

    def pruned(self, count: int) -> None:
        self._count(names.PRUNED, amount=count)

    # The database

    def unavailable(self, activity: str, first: bool) -> None:
        label = activity.replace(" ", "_")
        self._count(names.DATABASE_ERRORS, label)
        if first:
            self._count(names.OUTAGES, label)

    def contended(self, database: str) -> None:
        self._count(names.CONTENTION, database)
