"""Workers in a thread of the test, and workers in processes of their own."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from skipper_django import conf
from skipper_django.core.clock import Clock
from skipper_django.core.config import Config
from skipper_django.models import Member, Task
from skipper_django.store.clock import clock_of
from skipper_django.worker.loop import Worker
from skipper_django.worker.options import WorkerOptions
from skipper_django.worker.shutdown import Shutdown
from tests import servers
from tests.proxy import Proxy
from tests.waiting import wait_until

PROJECT = Path(__file__).parents[2]


class ThreadWorker:
    """A worker that runs in a thread of this process."""

    def __init__(
        self, config: Config, options: WorkerOptions, gate: Callable[[], bool], clock: Clock
    ) -> None:
        self.shutdown = Shutdown()
        self.worker = Worker(config, options, clock, self.shutdown, gate)
        self.status: int | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.status = self.worker.run()
        except BaseException as error:
            self.error = error
        finally:
            connections.close_all()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def stop(self, seconds: float = 20.0) -> int | None:
        self.shutdown.request()
        return self.join(seconds)

    def join(self, seconds: float = 20.0) -> int | None:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the worker did not stop"
        if self.error is not None:
            raise self.error
        return self.status


@pytest.fixture
def config(alias: str) -> Config:
    return conf.load({"DATABASE": alias})


@pytest.fixture
def start_worker(alias: str) -> Iterator[Callable[..., ThreadWorker]]:
    """Start a worker in a thread; every one still running at the end is stopped."""
    started: list[ThreadWorker] = []

    def start(
        settings: dict[str, Any] | None = None,
        gate: Callable[[], bool] = lambda: True,
        clock: Clock | None = None,
        **options: Any,
    ) -> ThreadWorker:
        config = dataclasses.replace(conf.load({"DATABASE": alias}), **(settings or {}))
        member = f"thread-{len(started) + 1}"
        worker = ThreadWorker(
            config,
            WorkerOptions(**{"member_name": member, **options}),
            gate,
            clock or clock_of(config.database),
        )
        started.append(worker)
        return worker

    yield start
    for worker in started:
        if worker.is_running:
            worker.shutdown.request()
            worker.shutdown.request()
            worker.join()


class ProcessWorker:
    """`skipper_worker` as its user starts it."""

    def __init__(self, alias: str, *args: str, log: Path, environment: dict[str, str]) -> None:
        self.log_path = log
        command = [sys.executable, "-W", "error", "-m", "django", "skipper_worker"]
        command += ["--database", alias, *args]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=PROJECT,
                env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def wait_for_log(self, text: str, seconds: float = 30.0) -> None:
        wait_until(lambda: text in self.log, seconds, f"{text!r} in the worker's log")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 40.0) -> int:
        return self.process.wait(seconds)


@pytest.fixture
def worker_process(alias: str, tmp_path: Path) -> Iterator[Callable[..., ProcessWorker]]:
    """Start a worker command; what still runs at the end is killed, children included."""
    started: list[ProcessWorker] = []

    def start(*args: str, **environment: str) -> ProcessWorker:
        log = tmp_path / f"worker-{len(started) + 1}.log"
        worker = ProcessWorker(alias, *args, log=log, environment=environment)
        started.append(worker)
        return worker

    yield start
    for worker in started:
        if worker.process.poll() is None:
            worker.send(signal.SIGTERM)
            worker.send(signal.SIGTERM)
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.wait()


@pytest.fixture
def enqueue(alias: str) -> Callable[..., Task]:
    """Enqueue on the database under test; the row."""

    def add(task: Any, *args: Any, **kwargs: Any) -> Task:
        from skipper_django.backend import SkipperBackend
        from skipper_django.enqueue import Call
        from skipper_django.enqueue import enqueue as enqueue_calls

        config = conf.load({"DATABASE": alias})
        (result,) = enqueue_calls(config, SkipperBackend, [Call(task, args, kwargs)])
        return Task.objects.using(alias).get(task_id=result.id)

    return add


@pytest.fixture
def fresh(alias: str) -> Callable[[Task], Task]:
    """The row as it is now."""
    return lambda row: Task.objects.using(alias).get(pk=row.pk)


@pytest.fixture
def wait_for_state(fresh: Callable[[Task], Task]) -> Callable[..., Task]:
    def wait(row: Task, state: Task.State, seconds: float = 20.0) -> Task:
        wait_until(lambda: fresh(row).status == state, seconds, f"{row.name} becomes {state.name}")
        return fresh(row)

    return wait


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stuck attempt is given up after a moment, not after seconds."""
    from skipper_django.worker import timeouts
    from tests.worker import tasks as worker_tasks

    monkeypatch.setattr(timeouts, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(timeouts, "REPEAT_SECONDS", 0.1)
    worker_tasks.let_go.clear()
    yield
    worker_tasks.let_go.set()


@pytest.fixture
def short_lease() -> dict[str, str]:
    """The environment of a worker process whose leases last 2 s."""
    return skipper_settings(LEASE_DURATION=2)


def skipper_settings(**settings: Any) -> dict[str, str]:
    """The environment of a worker process with these SKIPPER settings."""
    return {"SKIPPER_TEST_SETTINGS": json.dumps(settings)}


@pytest.fixture
def short() -> dict[str, str]:
    """Leases and a liveness window that a few seconds of silence would end."""
    return skipper_settings(
        LEASE_DURATION=2, CLUSTER_HEARTBEAT_INTERVAL=1, CLUSTER_LIVENESS_WINDOW=3
    )


@pytest.fixture
def proxy(alias: str) -> Iterator[Proxy]:
    """A link to the server under test; SQLite has none."""
    server = servers.named_server(alias) if alias in servers.ALIASES else None
    if server is None:
        pytest.skip("SQLite is no server: there is no link to cut")
    proxy = Proxy(server.host, server.port)
    yield proxy
    proxy.down()


@pytest.fixture
def through(proxy: Proxy, alias: str) -> dict[str, str]:
    """The environment of a worker that reaches its database through the proxy."""
    server = servers.named_server(alias)
    assert server is not None
    behind = dataclasses.replace(server, host="127.0.0.1", port=proxy.port)
    return {servers.address_variable(alias): behind.address}


@pytest.fixture
def pid_of(alias: str) -> Callable[[Task], int]:
    """The process that holds a task's lease."""

    def pid(row: Task) -> int:
        holder = row.worker_ids.splitlines()[-1]
        return int(Member.objects.using(alias).get(member_id=holder).pid)

    return pid
