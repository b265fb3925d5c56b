"""The admin of the example project: its process is a member of the cluster."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.example.test_demo import ROOT
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started = []

    def start(*options: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "server.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "example_project.serve", *options],
                cwd=ROOT,
                env={
                    **os.environ,
                    "DJANGO_SETTINGS_MODULE": "example_project.settings",
                    "EXAMPLE_DATABASE": str(tmp_path / "db.sqlite3"),
                },
                stdout=log,
                stderr=log,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def url_of_cluster(directory: Path) -> str:
    def found() -> str:
        match = re.search(r"The cluster: (\S+)", (directory / "server.log").read_text())
        return match[1] if match else ""

    return wait_until(found, 60, "the server says where it is")


def members(directory: Path) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(directory / "db.sqlite3")) as connection:
        return connection.execute("SELECT pid, fetch_mode FROM skipper_cluster_members").fetchall()


def test_the_web_process_is_a_member_until_it_ends(
    serve: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = serve()
    url = url_of_cluster(tmp_path)

    wait_until(lambda: members(tmp_path) == [(process.pid, "partitioned")], what="it has joined")
    with urlopen(url, timeout=20) as answer:  # noqa: S310  (its login page)
        assert answer.status == 200

    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert members(tmp_path) == []


def test_without_a_worker(serve: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    serve("--no-worker")

    url_of_cluster(tmp_path)

    assert members(tmp_path) == []
