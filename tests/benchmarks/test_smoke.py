"""The benchmarks work, and count what ran; how fast it was is no business of a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.effects import Effects, NotExactlyOnce, leave, middle_rate
from benchmarks.results import Results

PROJECT = Path(__file__).parents[2]
TASKS = 300


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": ""}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=115,
    )


def test_a_quick_run_counts_every_task_once_and_reports(tmp_path: Path) -> None:
    output = ("--output", str(tmp_path))
    small = ("--quick", "--database", "sqlite", "--tasks", str(TASKS))

    ran = benchmarks(*small, "--only", "enqueue,drain,statements", *output)

    assert ran.returncode == 0, ran.stderr
    figures = json.loads((tmp_path / "last.json").read_text())["figures"]["sqlite"]
    # One and two processes, and the run that counts statements.
    assert figures["tasks_checked"] == 3 * TASKS
    assert figures["drain_1"] > 0
    assert figures["statements_per_task"] > 0
    assert "| drain, 1 process (tasks/s) |" in ran.stdout

    document = tmp_path / "README.md"
    document.write_text(f"Before\n{report.BEGIN}\nold\n{report.END}\nAfter\n")
    wrote = benchmarks("report", str(document), *output)

    assert wrote.returncode == 0, wrote.stderr
    text = document.read_text()
    assert text.startswith("Before\n")
    assert text.endswith("\nAfter\n")
    assert "old" not in text
    assert "| drain, 1 process (tasks/s) |" in text


@pytest.mark.slow
def test_contention_and_a_rolling_restart_are_counted(tmp_path: Path) -> None:
    output = ("--output", str(tmp_path))
    small = ("--quick", "--database", "sqlite", "--tasks", str(TASKS))

    ran = benchmarks(*small, "--only", "contention,rolling", *output)

    assert ran.returncode == 0, ran.stderr
    figures = json.loads((tmp_path / "last.json").read_text())["figures"]["sqlite"]
    assert figures["tasks_checked"] == 2 * TASKS + figures["rolling_tasks"]
    assert figures["contention_ranges_lost"] >= 0
    assert figures["contention_whole_queue_rate"] > 0
    assert figures["rolling_gap"] > 0
    assert "| lost races, whole queue |" in ran.stdout
    assert f"{TASKS} no-op tasks and 3 members that begin" in ran.stdout
    assert "Drains of" not in ran.stdout


@pytest.fixture
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Effects:
    monkeypatch.setenv("SKIPPER_BENCH_EFFECTS", str(tmp_path / "effects"))
    monkeypatch.setattr("benchmarks.effects._file", None)
    return Effects(tmp_path / "effects")


def test_effects_in_order_of_start(effects: Effects) -> None:
    for number in (2, 0, 1):
        leave(number)

    checked = effects.check(range(3))

    assert [effect.number for effect in checked] == [2, 0, 1]
    assert {effect.pid for effect in checked} == {os.getpid()}
    assert len(effects) == 3
    assert middle_rate(checked) > 0


@pytest.mark.parametrize(
    ("ran", "message"),
    [((0, 1), "1 lost"), ((0, 1, 1, 2), "1 doubled"), ((0, 1, 2, 7), "4 calls")],
)
def test_a_task_lost_or_doubled_spoils_the_run(
    effects: Effects, ran: tuple[int, ...], message: str
) -> None:
    for number in ran:
        leave(number)

    with pytest.raises(NotExactlyOnce, match=message):
        effects.check(range(3))


def test_a_report_without_markers_is_refused(tmp_path: Path) -> None:
    document = tmp_path / "README.md"
    document.write_text("no markers\n")

    with pytest.raises(ValueError, match="has no <!-- benchmarks -->"):
        report.insert(document, "table")


def test_what_was_not_measured_is_a_dash() -> None:
    plan = dict.fromkeys(("tasks", "memory_tasks", "samples", "repeats"), 1)
    results = Results({}, plan, {"sqlite": {"drain_1": 4321.9}, "mysql": {}}, {}, {"mariadb": "x"})

    table = report.render(results)

    assert "| drain, 1 process (tasks/s) | 4,322 | - |" in table
    assert "No mariadb: x." in table
