"""A real PgBouncer in transaction mode: every statement may run in another session."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from django.test import Client

from skipper_django import enqueue_many
from skipper_django.models import Member, Task
from skipper_django.store.database import Database
from skipper_django.worker.alarm import Notices
from tests import servers, tasks
from tests.admin.test_pages import LIST, admin_alias, root
from tests.guards import Unavailable
from tests.pooler import Pooler
from tests.servers_plugin import is_required
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks
from tests.worker.conftest import ProcessWorker
from tests.worker.test_outage import kill_sessions
from tests.worker.test_wakeup import asleep, enqueue_elsewhere, one_is_done, sleepy

__all__ = ["admin_alias", "asleep", "kill_sessions", "root", "sleepy"]

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("alias", ["postgresql"]),
    pytest.mark.case("R38"),
]
State = Task.State
POLLS = "NOTIFY does not come through to here"
POOL_SIZE = 2  # fewer sessions than one worker has threads
COUNT = 200


@pytest.fixture
def pooler(alias: str) -> Iterator[Pooler]:
    server = servers.named_server(alias)
    assert server is not None
    try:
        pooler = Pooler(server, POOL_SIZE)
    except Unavailable as error:
        if is_required():
            raise
        pytest.skip(f"no pgbouncer: {error}")
    yield pooler
    pooler.close()


@pytest.fixture(params=[False, True], ids=["cursors", "no cursors"])
def entry(request: pytest.FixtureRequest) -> dict[str, bool]:
    """What DATABASES says beside: Django asks for it behind a pooler, and people forget it."""
    return {"DISABLE_SERVER_SIDE_CURSORS": request.param}


@pytest.fixture
def through(pooler: Pooler, alias: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a worker behind the pooler, and of another host: no datagram arrives."""
    return {servers.address_variable(alias): pooler.server.address, "TMPDIR": str(tmp_path)}


@pytest.fixture
def worker(
    worker_process: Callable[..., ProcessWorker], through: dict[str, str]
) -> Callable[..., ProcessWorker]:
    """Start a worker behind the pooler; a queue that it is not told of it would look for later."""

    def start(*args: str, **environment: str) -> ProcessWorker:
        return worker_process("--queue", "default", *args, **through, **environment)

    return start


@pytest.fixture
def pooled(
    pooler: Pooler, queue: str, entry: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """This process, too, reaches the database under test through the pooler."""
    connections[queue].close()
    with monkeypatch.context() as patch:
        for name, value in {"PORT": pooler.server.port, **entry}.items():
            patch.setitem(connections.settings[queue], name, value)
        yield queue
        connections[queue].close()


def done(alias: str) -> int:
    return Task.objects.using(alias).filter(status=State.SUCCESSFUL).count()


def members(alias: str) -> set[tuple[int, int]]:
    return set(Member.objects.using(alias).values_list("pid", "incarnation"))


def test_four_workers_run_each_task_once_by_polling(
    worker: Any, pooled: str, entry: dict[str, bool], tmp_path: Path
) -> None:
    path = tmp_path / "log"
    command = worker("--processes", "4", SKIPPER_TEST_DATABASE=json.dumps(entry))
    wait_until(lambda: len(members(pooled)) == 4)

    with transaction.atomic(using=pooled):
        enqueue_many([(worker_tasks.record, [str(path), str(n)]) for n in range(2_000)])

    wait_until(lambda: done(pooled) == 2_000, 40)
    assert Counter(worker_tasks.lines(path)) == Counter(map(str, range(2_000)))
    rows = Task.objects.using(pooled)
    assert set(rows.values_list("attempts", "lost_leases")) == {(1, 0)}
    assert command.log.count(POLLS) == 4
    assert "Traceback" not in command.log


def test_an_idle_worker_polls_and_says_so_once(
    worker: Any, alias: str, enqueue: Any, wait_for_state: Any
) -> None:
    command = worker()
    command.wait_for_log(POLLS)
    worker_tasks.nap(1.0)

    for _ in range(3):
        wait_for_state(enqueue(tasks.noop), State.SUCCESSFUL, 3)

    assert command.log.count(POLLS) == 1
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        assert cursor.fetchone() == (0,)


def test_what_a_task_leaves_on_its_connection_takes_no_session_away(
    worker: Any, pooled: str, enqueue: Any
) -> None:
    for _ in range(2 * POOL_SIZE):
        enqueue(worker_tasks.leave_transaction_open, pooled)
        enqueue(worker_tasks.break_connection, pooled)
        enqueue(worker_tasks.close_connections)
    enqueue(worker_tasks.query, pooled)
    enqueue(worker_tasks.async_query, pooled)

    worker()

    wait_until(lambda: done(pooled) == 6 * POOL_SIZE + 2)


def test_retries_timeouts_and_async_tasks(
    worker: Any, pooled: str, enqueue: Any, wait_for_state: Any, tmp_path: Path
) -> None:
    worker()
    retried = enqueue(worker_tasks.fail_once, str(tmp_path / "retried"))
    late = enqueue(worker_tasks.timeout_twice, str(tmp_path / "late"))
    awaited = enqueue(worker_tasks.async_nap, str(tmp_path / "awaited"), "task")

    assert wait_for_state(retried, State.SUCCESSFUL).attempts == 2
    late = wait_for_state(late, State.FAILED)
    assert (late.attempts, late.reason) == (2, "timeout")
    wait_for_state(awaited, State.SUCCESSFUL)
    assert worker_tasks.lines(tmp_path / "awaited") == ["start task", "end task"]


@pytest.fixture
def two_at_work(worker: Any, queue: str, tmp_path: Path) -> ProcessWorker:
    """Two members and more tasks than they have done by the time of the fault."""
    started: ProcessWorker = worker("--processes", "2")
    wait_until(lambda: len(members(queue)) == 2)
    calls = [(worker_tasks.slow, [str(tmp_path / "log"), str(n), 0.05]) for n in range(COUNT)]
    enqueue_many(calls)
    return started


def each_ran_once(alias: str, path: Path) -> bool:
    wait_until(lambda: done(alias) == COUNT, 40)
    ended = [line for line in worker_tasks.lines(path) if line.startswith("end")]
    return Counter(ended) == Counter(f"end {n}" for n in range(COUNT))


def test_workers_outlive_their_pooler(
    pooler: Pooler, two_at_work: ProcessWorker, queue: str, tmp_path: Path
) -> None:
    before = members(queue)
    for mark in (30, 100):
        wait_until(partial(_reached, queue, mark))
        pooler.down()
        two_at_work.wait_for_log("unavailable while trying to claim")
        worker_tasks.nap(0.5)
        pooler.up()

    assert each_ran_once(queue, tmp_path / "log")
    assert members(queue) == before
    assert "database is back: can claim" in two_at_work.log
    assert two_at_work.log.count(POLLS) == 2
    assert "Traceback" not in two_at_work.log


def test_sessions_that_end_behind_the_pooler_lose_and_double_nothing(
    two_at_work: ProcessWorker, queue: str, kill_sessions: Any, tmp_path: Path
) -> None:
    before = members(queue)
    for mark in (20, 60, 100):
        wait_until(partial(_reached, queue, mark))
        kill_sessions()

    assert each_ran_once(queue, tmp_path / "log")
    assert members(queue) == before
    assert "Traceback" not in two_at_work.log


def _reached(alias: str, mark: int) -> bool:
    return done(alias) >= mark


@pytest.mark.usefixtures("sleepy")
def test_an_enqueue_through_it_wakes_a_worker_that_goes_straight_to_the_server(
    alias: str, through: dict[str, str], asleep: Any
) -> None:
    resting = asleep().worker
    wait_until(lambda: resting._alarm.is_reliable and resting._pace.is_idle)

    enqueue_elsewhere(alias, **through)

    wait_until(lambda: one_is_done(alias))


def test_pages_and_commands(pooled: str, root: Client, enqueue: Any, worker: Any) -> None:
    rows = [enqueue(tasks.noop) for _ in range(30)]
    worker()
    wait_until(lambda: done(pooled) == len(rows))

    pages = (LIST, f"{LIST}{rows[0].pk}/change/", "/admin/skipper_django/member/")
    for page in (*pages, "/skipper/admin/cluster"):
        assert root.get(page).status_code == 200
    for command in ("skipper_doctor", "skipper_cluster"):
        call_command(command, "--json", stdout=(answer := io.StringIO()))
        assert json.loads(answer.getvalue())
    call_command("check", databases=[pooled])


def test_no_session_that_listens_is_opened(pooled: str) -> None:
    assert Notices.open(Database(pooled), "skipper_x") is None
