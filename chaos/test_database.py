"""Faults of the database server: away, refusing, full, slow, in a tangle."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from django.db import Error, connections, transaction

from chaos.background import background
from chaos.bed import Bed, now
from chaos.databases import SERVERS
from chaos.workers import Worker
from skipper_django import conf
from skipper_django.janitor import Janitor
from skipper_django.models import Task
from skipper_django.store.clock import clock_of
from skipper_django.store.database import Database as Store

TABLE = "skipper_scheduler_tasks"


def two_workers(bed: Bed, **entry: Any) -> list[Worker]:
    """Their leases outlast the fault, as the default ones do; options of the database entry."""
    leases = {"LEASE_DURATION": 20}
    database = bed.database.django(**entry)
    workers = [bed.worker(entry=database, skipper=leases) for _ in range(2)]
    bed.wait_for_members(2)
    return workers


def go_through(bed: Bed, fault: AbstractContextManager[Any], **entry: Any) -> list[Worker]:
    """Two workers under load, the fault for 2 s, and 2 s more."""
    workers = two_workers(bed, **entry)

    with bed.load():
        bed.wait_for_begun(50)
        with fault:
            bed.pause(2.0)
        over = now()
        bed.pause(2.0)

    bed.wait_until_done()
    must_have_lived(workers)
    bed.audit(bed.effects.next_after(over))
    return workers


def must_have_lived(workers: list[Worker]) -> None:
    """No process was replaced and none has exited."""
    for worker in workers:
        assert worker.is_running
        assert "died" not in worker.log
        assert "Traceback" not in worker.log


@pytest.mark.only(*SERVERS)
@pytest.mark.parametrize("how", [pytest.param("stop", marks=pytest.mark.long), "kill"])
@pytest.mark.fault("database server restarted ({how}), away for 2 s", "workers live on and resume")
def test_restart(bed: Bed, how: str) -> None:
    workers = two_workers(bed)

    with bed.load():
        bed.wait_for_begun(50)
        bed.database.tell(how)
        bed.pause(2.0)
        bed.database.tell("start")
        back = now()
        bed.pause(4.0)

    bed.wait_until_done()
    must_have_lived(workers)
    bed.audit(bed.effects.next_after(back))


@pytest.mark.only(*SERVERS)
@pytest.mark.fault(
    "sessions killed, one every 0.1 s", "nothing twice; longest pause of the queue measured"
)
def test_killed_sessions(bed: Bed) -> None:
    workers = two_workers(bed)
    start = now()

    with bed.load(), bed.database.admin() as execute:
        for _ in range(20 if bed.short else 150):
            bed.pause(0.1)
            sessions = bed.database.sessions()
            if sessions:
                bed.database.end_session(bed.rng.choice(sessions), execute)
    end = now()

    bed.wait_until_done()
    must_have_lived(workers)
    bed.audit(bed.effects.longest_pause(start, end))


@pytest.mark.only(*SERVERS)
@pytest.mark.fault("connections exhausted for 2 s", "workers wait and resume")
def test_connections_exhausted(bed: Bed) -> None:
    workers = go_through(bed, all_connections_taken(bed))

    assert any("unavailable" in worker.log for worker in workers)


@contextmanager
def all_connections_taken(bed: Bed) -> Iterator[None]:
    own = set(bed.database.sessions())
    with contextlib.ExitStack() as taken, bed.database.admin() as execute:

        def take_all() -> None:
            with contextlib.suppress(Exception):
                while True:
                    connection = bed.database.connect(user="skipper")
                    taken.enter_context(contextlib.closing(connection))

        take_all()
        for session in own:
            bed.database.end_session(session, execute)
        take_all()
        yield


READ_ONLY = {
    "mariadb": ["SET GLOBAL read_only = {}"],
    "mysql": ["SET GLOBAL read_only = {}"],
    "postgresql": [
        "ALTER SYSTEM SET default_transaction_read_only = {}",
        "SELECT pg_reload_conf()",
    ],
}


@pytest.mark.only(*SERVERS)
@pytest.mark.fault("server read-only for 2 s", "workers wait and resume")
def test_read_only(bed: Bed) -> None:
    go_through(bed, read_only(bed))


@contextmanager
def read_only(bed: Bed) -> Iterator[None]:
    def switch(state: str) -> None:
        with bed.database.admin() as execute:
            for statement in READ_ONLY[bed.alias]:
                execute(statement.format(state))

    switch("ON")
    try:
        yield
    finally:
        switch("OFF")


@pytest.mark.only("sqlite")
@pytest.mark.fault("disk full for 2 s", "enqueue raises; workers wait and resume")
def test_disk_full(bed: Bed) -> None:
    go_through(bed, full_disk(bed))


@contextmanager
def full_disk(bed: Bed) -> Iterator[None]:
    """A small file system, filled to the last byte and kept so."""
    if bed.database.disk is None:
        pytest.skip("no small file system could be mounted")
    filler = bed.database.disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass
        try:
            yield
        finally:
            filler.unlink()


SIGNAL = (
    "CREATE TRIGGER full_{event} BEFORE {event} ON {table} FOR EACH ROW "
    "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = 'disk full'"
)
RAISE = (
    "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
    "$$BEGIN RAISE EXCEPTION 'disk full' USING ERRCODE = '53100'; END$$"
)


@pytest.mark.only(*SERVERS)
@pytest.mark.fault(
    "the server's error for a full disk for 2 s, raised by a trigger",
    "enqueue raises; workers wait and resume",
)
def test_disk_full_error(bed: Bed) -> None:
    go_through(bed, refused_writes(bed))


@contextmanager
def refused_writes(bed: Bed) -> Iterator[None]:
    events = ("INSERT", "UPDATE")
    with bed.database.admin() as execute:
        if bed.alias == "postgresql":
            execute(RAISE)
            execute(
                f"CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON {TABLE} "
                "EXECUTE FUNCTION full_disk()"
            )
        for event in events if bed.alias != "postgresql" else ():
            code = 1021 if bed.alias == "mariadb" else 1114
            execute(SIGNAL.format(event=event, table=TABLE, code=code))
        try:
            yield
        finally:
            if bed.alias == "postgresql":
                execute("DROP FUNCTION full_disk CASCADE")
            for event in events if bed.alias != "postgresql" else ():
                execute(f"DROP TRIGGER full_{event}")


IMPATIENT: dict[str, dict[str, Any]] = {
    "sqlite": {"timeout": 0.3},
    "mariadb": {"init_command": "SET innodb_lock_wait_timeout = 1"},
    "mysql": {"init_command": "SET innodb_lock_wait_timeout = 1"},
    "postgresql": {"options": "-c lock_timeout=300"},
}


@pytest.mark.fault(
    "another transaction holds every row for 2 s; lock waits time out", "workers try again"
)
def test_lock_wait_timeouts(bed: Bed) -> None:
    go_through(bed, every_row_locked(bed), **IMPATIENT[bed.alias])


@contextmanager
def every_row_locked(bed: Bed) -> Iterator[None]:
    with transaction.atomic(bed.alias), connections[bed.alias].cursor() as cursor:
        cursor.execute(f"UPDATE {TABLE} SET priority = priority")
        yield


DEADLOCKS = {
    "mariadb": "SELECT variable_value FROM information_schema.global_status "
    "WHERE variable_name = 'INNODB_DEADLOCKS'",
    "mysql": "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'",
    "postgresql": "SELECT deadlocks FROM pg_stat_database WHERE datname = 'chaos'",
}


@pytest.mark.fault(
    "bulk updates in the wrong order and a prune, against claims and settles",
    "deadlocks are repeated; longest pause measured",
)
def test_deadlocks(bed: Bed) -> None:
    old = bed.enqueue(500)
    workers = two_workers(bed)
    bed.wait_until_done()
    bed.forget(old)
    rows = Task.objects.using(bed.alias)
    long_ago = clock_of(bed.alias).now() - timedelta(days=2)
    rows.update(enqueued_at=long_ago, finished_at=long_ago)
    before, start = _deadlocks(bed), now()

    with (
        bed.load(),
        running(careless_updates, bed),
        running(careless_updates, bed),
        running(prunes, bed),
    ):
        bed.pause(3.0 if bed.short else 20.0)
    end = now()

    bed.wait_until_done()
    must_have_lived(workers)
    assert not rows.filter(finished_at=long_ago).exists()
    deadlocks = _deadlocks(bed) - before
    assert deadlocks or not bed.database.is_server
    bed.audit(bed.effects.longest_pause(start, end), note=f"{deadlocks} deadlocks")


def _deadlocks(bed: Bed) -> int:
    if not bed.database.is_server:
        return 0
    with bed.database.admin() as execute:
        return int(execute(DEADLOCKS[bed.alias])[0][0])


@contextmanager
def running(step: Any, bed: Bed) -> Iterator[None]:
    """Repeat a step in a thread of its own; its database errors are its own business."""
    rng = Random(bed.rng.random())

    def loop(stop: threading.Event) -> None:
        while not stop.wait(0.01):
            with contextlib.suppress(Error):
                step(bed, rng)

    with background(bed.alias, loop):
        yield


def careless_updates(bed: Bed, rng: Random) -> None:
    """What a bulk action should not do: row by row, in any order, in one transaction."""
    waiting = Task.objects.using(bed.alias).order_by("-id")
    keys = list(waiting.values_list("pk", flat=True)[:60])
    rng.shuffle(keys)
    with transaction.atomic(bed.alias):
        for key in keys[:15]:
            Task.objects.using(bed.alias).filter(pk=key).update(backend="default")


def prunes(bed: Bed, rng: Random) -> None:
    day = 24 * 3600.0
    config = conf.load({"DATABASE": bed.alias})
    config = dataclasses.replace(config, retention=day, failed_retention=day)
    Janitor(Store(bed.alias), clock_of(bed.alias), config).prune()
