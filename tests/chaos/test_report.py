"""The table of the chaos suite; the suite itself is no part of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos import report
from chaos.report import Row, Run


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "LAST", tmp_path / "chaos" / "last.json")
    row = Row("test_kill[mysql]", "kill", "3 times", "nothing lost", "mysql", 1234, 1.25, 0, 2)
    report.save("mysql", Run("MySQL 9", "2 cores", ["seed 5"], [], [row]))
    report.save("sqlite", Run("SQLite 3", "2 cores", ["seed 6"], ["a scenario"], []))


@pytest.mark.usefixtures("runs")
def test_a_run_replaces_the_last_one_on_its_database_only() -> None:
    report.save("sqlite", Run("SQLite 4", "2 cores", ["seed 7"], [], []))

    assert [run.version for run in report.load()] == ["MySQL 9", "SQLite 4"]
    assert [run.version for run in report.load(["sqlite"])] == ["SQLite 4"]


@pytest.mark.usefixtures("runs")
def test_a_part_that_is_run_again_leaves_the_rest() -> None:
    old = report.last("mysql")
    assert old is not None
    new = Row("test_stop[mysql]", "stop", "", "nothing lost", "mysql", 1, 0.0, 0, 0)

    both = Run("MySQL 9", "2 cores", ["seed 8"], [], [new]).replacing(old, {new.scenario})
    again = Run("MySQL 9", "2 cores", ["seed 9"], [new.scenario], []).replacing(
        both, {new.scenario}
    )

    assert [row.scenario for row in both.rows] == ["test_kill[mysql]", "test_stop[mysql]"]
    assert both.circumstances == ["seed 5", "seed 8"]
    assert [row.scenario for row in again.rows] == ["test_kill[mysql]"]
    assert again.failed == ["test_stop[mysql]"]


@pytest.mark.usefixtures("runs")
def test_the_table_stands_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")

    report.main([str(page)])

    text = page.read_text()
    assert "| kill (3 times) | nothing lost | MySQL 9 | 1,234 | 1.2 | 0 | 2 |" in text
    assert "SQLite 3: seed 6; failed: a scenario" in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text


@pytest.mark.usefixtures("runs")
def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("no markers\n")

    with pytest.raises(ValueError, match="has no <!-- chaos -->"):
        report.main([str(page)])
