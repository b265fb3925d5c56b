"""The demo of the example project, as a stranger starts it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


# Whoever runs the tests in the background of a shell has SIGINT ignored, and so would the demo.
RUN_DEMO = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("example_project.demo", run_name="__main__", alter_sys=True)
"""


def start(directory: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN_DEMO, *options],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "example_project.settings",
            "EXAMPLE_DATABASE": str(directory / "db.sqlite3"),
            "EXAMPLE_LOG": str(directory / "workers.log"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def workers_of(directory: Path) -> list[int]:
    """Processes that have this run's database in their environment, the demo itself aside."""
    marked = f"EXAMPLE_DATABASE={directory}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_worker = b"skipper_worker" in (path / "cmdline").read_bytes()
            if is_worker and marked in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.mark.slow
def test_demo_ends_by_itself_and_can_be_run_again(tmp_path: Path) -> None:
    for _ in range(2):
        demo = start(tmp_path, "--limit", "30")
        output, _ = demo.communicate(timeout=90)

        assert demo.returncode == 0, output
        assert "30 of 30 tasks" in output
        assert "make admin" in output
        assert not workers_of(tmp_path)


@pytest.mark.slow
def test_demo_prints_the_ranges_of_its_members(tmp_path: Path) -> None:
    output, _ = start(tmp_path, "--limit", "300").communicate(timeout=90)

    assert "range of the 1,000 buckets" in output
    # How many were there at one moment is a matter of how fast they were.
    assert re.search(r"^worker-\d .* \[0, (1000|500|334)\)$", output, re.MULTILINE), output


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_demo_leaves_no_worker_behind(tmp_path: Path, number: signal.Signals) -> None:
    demo = start(tmp_path)
    wait_until(lambda: len(workers_of(tmp_path)) >= 3, seconds=60)

    demo.send_signal(number)
    output, _ = demo.communicate(timeout=60)

    assert demo.returncode == 128 + number, output
    assert not workers_of(tmp_path)
