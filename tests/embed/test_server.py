"""A real web server whose process runs a worker: what it answers, and how both end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from skipper_django.models import Member, Task
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks
from tests.worker.conftest import PROJECT, skipper_settings

pytestmark = pytest.mark.django_db(transaction=True)
State = Task.State


class Server:
    """`tests.embed.server` in a process of its own."""

    def __init__(self, alias: str, log: Path, shutdown_timeout: float) -> None:
        settings = skipper_settings(
            DATABASE=alias, CLUSTER_HEARTBEAT_INTERVAL=0.3, CLUSTER_LIVENESS_WINDOW=60
        )
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "tests.embed.server", str(shutdown_timeout)],
                cwd=PROJECT,
                env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", **settings},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline() or self._fail())

    def _fail(self) -> int:
        raise AssertionError(self.log.read_text())

    def get(self, path: str, cookie: str = "") -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Cookie": cookie}
        )
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return json.load(answer)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(40)


@pytest.fixture
def start_server(alias: str, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(shutdown_timeout: float = 10.0) -> Server:
        log = tmp_path / f"server-{len(started) + 1}.log"
        started.append(Server(alias, log, shutdown_timeout))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        assert server.process.stdout is not None
        server.process.stdout.close()


@pytest.fixture
def one_member(alias: str) -> Callable[[], Member]:
    """The only row of the cluster, once it has a range."""

    def member() -> Member:
        rows = Member.objects.using(alias)
        wait_until(rows.filter(range_stop__gt=0).exists, 20, "the member has its range")
        return rows.get()

    return member


@pytest.fixture
def staff_cookie() -> str:
    """Of a logged-in superuser; sessions and users are on the default database."""
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return f"sessionid={client.cookies['sessionid'].value}"


@pytest.mark.parametrize("alias", ["default"], ids=["sqlite"])
def test_the_json_marks_the_member_that_served_the_request(
    alias: str, start_server: Any, one_member: Any, staff_cookie: str
) -> None:
    server = start_server()
    row = one_member()

    found = server.get("/skipper/admin/cluster", staff_cookie)

    assert row.pid == server.process.pid
    assert (found["current_member_id"], found["registered"]) == (row.member_id, True)
    assert [member["current"] for member in found["members"]] == [True]
    assert server.stop() == 0, server.log.read_text()


def test_sigterm_ends_the_server_and_hands_its_tasks_back(
    alias: str, start_server: Any, one_member: Any, enqueue: Any, tmp_path: Path
) -> None:
    server = start_server(shutdown_timeout=0.5)
    one_member()
    path = tmp_path / "log"
    rows = [enqueue(worker_tasks.slow, str(path), str(n), 30.0) for n in range(3)]
    wait_until(lambda: len(worker_tasks.lines(path)) == 2, what="two tasks run")

    status = server.stop()

    assert status == 0, server.log.read_text()
    left = Task.objects.using(alias).filter(pk__in=[row.pk for row in rows])
    assert set(left.values_list("status", "attempts", "lost_leases")) == {(State.READY, 0, 0)}
    assert not Member.objects.using(alias).exists()
    assert server.log.read_text() == ""


def test_what_runs_at_sigterm_is_finished_within_the_timeout(
    alias: str, start_server: Any, one_member: Any, enqueue: Any, tmp_path: Path
) -> None:
    server = start_server()
    one_member()
    path = tmp_path / "log"
    sync = enqueue(worker_tasks.slow, str(path), "sync", 1.0)
    unsync = enqueue(worker_tasks.async_nap, str(path), "async")
    wait_until(lambda: len(worker_tasks.lines(path)) >= 2, what="both run")

    assert server.stop() == 0, server.log.read_text()

    done = Task.objects.using(alias).filter(pk__in=[sync.pk, unsync.pk])
    assert set(done.values_list("status", "attempts")) == {(State.SUCCESSFUL, 1)}
    assert server.log.read_text() == ""


def test_a_forked_child_has_no_worker(start_server: Any, one_member: Any) -> None:
    server = start_server()
    one_member()

    assert server.get("/fork") == [False, None, None, True]

    assert server.stop() == 0, server.log.read_text()


def test_a_killed_server_is_a_crash(alias: str, start_server: Any, one_member: Any) -> None:
    first = start_server()
    before = one_member().incarnation

    first.stop(signal.SIGKILL)
    start_server()

    rows = Member.objects.using(alias)
    wait_until(lambda: rows.exclude(incarnation=before).exists(), what="the name is taken over")
    assert rows.count() == 1
