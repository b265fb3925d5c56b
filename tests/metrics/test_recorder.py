"""What a worker tells becomes numbers with a fixed set of labels."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connections
from prometheus_client import CollectorRegistry, generate_latest

from skipper_django.core.buckets import BucketRange
from skipper_django.core.clock import monotonic
from skipper_django.core.outcome import Failed, Released, Retry, Succeeded
from skipper_django.core.reasons import FailReason, FetchMode, FetchReason
from skipper_django.metrics import names
from skipper_django.metrics.board import Place
from skipper_django.metrics.exporter import WorkerCollector
from skipper_django.metrics.recorder import Recorder
from skipper_django.store.claim import Head, take
from skipper_django.store.database import CONTENTION_TRIES, Database
from tests.metrics.scraping import Series, members, parse, total, values_of
from tests.store.support import LANE, claimant, default_connection, second_connection

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


@dataclass
class Ran:
    """A lease as the telemetry sees it."""

    name: str = "app.tasks.send"
    queue_name: str = "mail"
    run_after: datetime = NOW - timedelta(seconds=30)
    begun: float = 0.0
    seconds: float = 0.0


class Board:
    """Two worker processes of one command."""

    def __init__(self) -> None:
        self.places = [Place(), Place()]
        self.recorders = [Recorder(place, "acme") for place in self.places]

    def read(self) -> Series:
        registry = CollectorRegistry()
        registry.register(WorkerCollector(self.places, Place()))
        return parse(generate_latest(registry).decode())


@pytest.fixture
def board() -> Board:
    return Board()


def test_counters_of_all_processes_are_added_up(board: Board) -> None:
    for recorder, count in zip(board.recorders, (3, 4), strict=True):
        recorder.claimed([Ran() for _ in range(count)], chosen=count + 2)
        recorder.claimed([Ran(queue_name="slow")], chosen=1, stolen=True)

    series = board.read()

    assert total(series, "skipper_tasks_claimed_total", queue="mail") == 7
    assert total(series, "skipper_tasks_claimed_total", queue="slow") == 2
    assert total(series, "skipper_tasks_stolen_total") == 2
    assert total(series, "skipper_claim_lost_races_total", tenant="acme") == 4


def test_each_outcome_is_counted_once(board: Board) -> None:
    lost = Ran()
    settlements: list[Any] = [
        (Ran(), Succeeded(None)),
        (Ran(), Succeeded("1")),
        (Ran(), Retry(1.0, [])),
        (Ran(), Failed(FailReason.TIMEOUT, [])),
        (Ran(), Released()),
        (lost, Succeeded(None)),
    ]

    board.recorders[0].settled(settlements, [settlements[-1]], 0.02, NOW)
    board.recorders[0].lease_lost(lost)

    series = board.read()
    found = {
        outcome: total(series, "skipper_tasks_finished_total", outcome=outcome)
        for outcome in ("succeeded", "retried", "failed", "released", "lost")
    }
    assert found == {"succeeded": 2, "retried": 1, "failed": 1, "released": 1, "lost": 1}
    assert total(series, "skipper_tasks_finished_total", reason="timeout") == 1
    assert total(series, "skipper_leases_lost_total", queue="mail") == 1
    assert total(series, "skipper_settle_batch_tasks_sum") == 6
    assert total(series, "skipper_settle_seconds_sum") == pytest.approx(0.02)


def test_durations_are_of_what_has_started_only(board: Board) -> None:
    settlements: list[Any] = [
        (Ran(begun=monotonic() - 4, seconds=3.0), Succeeded(None)),
        (Ran(), Released()),
    ]

    board.recorders[0].settled(settlements, [], 0.0, NOW)

    series = board.read()
    assert total(series, "skipper_task_seconds_count", task="app.tasks.send") == 1
    assert total(series, "skipper_task_seconds_sum") == pytest.approx(3.0)
    assert total(series, "skipper_task_seconds_bucket", le="5.0") == 1
    assert total(series, "skipper_task_seconds_bucket", le="2.5") == 0
    # Due 30 s ago, started 4 s ago.
    assert total(series, "skipper_queue_wait_seconds_sum") == pytest.approx(26.0, abs=0.5)


def test_fetches_are_counted_by_mode_and_fallbacks_by_reason(board: Board) -> None:
    recorder = board.recorders[0]
    recorder.fetched(FetchMode.PARTITIONED, None, BucketRange(0, 334))
    recorder.fetched(FetchMode.WHOLE_QUEUE, FetchReason.GATE_OFF, BucketRange(0, 0))

    series = board.read()

    assert total(series, "skipper_scheduler_fetches_total", mode="partitioned") == 1
    assert total(series, "skipper_scheduler_fetches_total", mode="whole_queue") == 1
    assert total(series, "skipper_scheduler_fallbacks_total", reason="gate_off") == 1
    assert total(series, "skipper_scheduler_fallbacks_total") == 1


def test_every_mode_and_reason_is_there_from_the_start(board: Board) -> None:
    series = board.read()

    reasons = {dict(key)["reason"] for name, key in series if "fallbacks" in name}
    assert reasons == {reason.value for reason in FetchReason}
    assert values_of(series, "skipper_scheduler_fetches_total") == [0, 0]


def ranges(series: Series) -> list[float]:
    (start,) = values_of(series, "skipper_member_range_start")
    (end,) = values_of(series, "skipper_member_range_end")
    return [start, end]


def test_the_range_reads_0_0_unless_the_member_has_one(board: Board) -> None:
    recorder = board.recorders[0]
    seen = []

    recorder.started("web-1", 4)
    seen.append(ranges(board.read()))
    recorder.fetched(FetchMode.PARTITIONED, None, BucketRange(334, 667))
    recorder.viewed(3, True, 0.001)
    seen.append(ranges(board.read()))
    recorder.viewed(2, False, 0.001)  # its row is gone
    seen.append(ranges(board.read()))
    recorder.fetched(FetchMode.PARTITIONED, None, BucketRange(0, 500))
    recorder.fetched(FetchMode.WHOLE_QUEUE, FetchReason.OWN_ROW_MISSING, BucketRange(0, 0))
    seen.append(ranges(board.read()))

    assert seen == [[0, 0], [334, 667], [0, 0], [0, 0]]


def test_a_member_that_joins_under_another_name_has_one_set_of_gauges(board: Board) -> None:
    recorder = board.recorders[0]
    recorder.started("web-1", 4)
    recorder.held(3)

    recorder.started("web-2", 4)

    assert members(board.read()) == {"web-2"}
    assert total(board.read(), "skipper_member_running_tasks") == 0


def test_gauges_go_with_their_process_and_counters_stay(board: Board) -> None:
    for index, recorder in enumerate(board.recorders):
        recorder.started(f"web-{index}", 4)
        recorder.promoted(5)

    board.places[0].leave()

    series = board.read()
    assert members(series) == {"web-1"}
    assert total(series, "skipper_tasks_promoted_total") == 10
    assert total(series, "skipper_worker_processes") == 1


def test_a_fetch_that_fails_is_counted_and_fails(board: Board) -> None:
    def fetch() -> None:
        with board.recorders[0].claiming():
            raise LookupError

    with pytest.raises(LookupError):
        fetch()

    series = board.read()
    assert total(series, "skipper_scheduler_fetch_errors_total", error="LookupError") == 1
    assert total(series, "skipper_claim_seconds_count") == 0


def test_an_outage_is_counted_once_and_its_errors_each(board: Board) -> None:
    for first in (True, False, False):
        board.recorders[0].unavailable("send heartbeats", first)
    board.recorders[0].contended("sqlite")

    series = board.read()

    assert total(series, "skipper_database_outages_total", activity="send_heartbeats") == 1
    assert total(series, "skipper_database_errors_total") == 3
    assert total(series, "skipper_database_contention_total", database="sqlite") == 1


def test_every_series_has_exactly_the_labels_of_its_metric(board: Board) -> None:
    recorder = board.recorders[0]
    recorder.started("web-1", 4)
    recorder.claimed([Ran()], chosen=1, stolen=True)
    recorder.settled([(Ran(begun=1.0), Succeeded(None))], [], 0.1, NOW)
    recorder.lease_lost(Ran())
    recorder.beaten(0.1)
    recorder.viewed(1, True, 0.1)
    recorder.renewed(1)
    recorder.reclaimed(1)
    recorder.pruned(1)
    recorder.contended("sqlite")
    recorder.unavailable("renew leases", first=True)

    labels_of = {metric.exposed_name: set(metric.labels) for metric in names.WORKER_METRICS}
    for name, labels in board.read():
        base = name if name in labels_of else name.rpartition("_")[0]
        assert {key for key, _ in labels} - {"le"} == labels_of[base], name


@pytest.mark.django_db(transaction=True)
def test_a17_contention_for_sqlite_s_lock_is_counted(board: Board) -> None:
    impatient = {**connections["default"].settings_dict["OPTIONS"], "timeout": 0.001}
    with (
        second_connection("default") as holder,
        default_connection("default", impatient),
    ):
        database = Database("default", board.recorders[0])
        holder.ensure_connection()
        holder.connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError, match="locked"):
            take(database, claimant(), [Head(1, LANE, 0, 0, NOW)], NOW)
        holder.connection.execute("ROLLBACK")

    tries = total(board.read(), "skipper_database_contention_total", database="sqlite")
    assert tries == CONTENTION_TRIES - 1
