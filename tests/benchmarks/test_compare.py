"""The comparison's tables, and what it knows of the peers; no peer is run here."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from benchmarks import comparison, report, results, venvs
from benchmarks.compare import _medians
from benchmarks.effects import LINE, Effects, NotExactlyOnce
from benchmarks.peers import OURS, PEERS, load
from benchmarks.results import Results
from benchmarks.targets import Against, Figures, Known, OfRun, Ours, entry

PLAN = {"seconds": 2.0, "waiting": 100, "samples": 5, "rounds": 1}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def known(ours: float, **peers: float) -> Known:
    """One figure, `x`, of ours and of peers on SQLite."""
    figures: Figures = {entry(OURS, "sqlite"): {"x": ours}}
    figures |= {
        entry(peer.replace("_", "-"), "sqlite"): {"x": value} for peer, value in peers.items()
    }
    return Known(figures)


@pytest.mark.parametrize(
    ("ours", "ratio", "reached"),
    [(3_000.0, "30.0", "yes"), (2_999.0, "30.0", "**no**"), (100.0, "1.0", "**no**")],
)
def test_a_rate_is_compared_with_the_best_of_the_peers(
    ours: float, ratio: str, reached: str
) -> None:
    target = Against("drain", ("x",), ("sqlite",), times=30)

    (line,) = target.lines(known(ours, huey=100.0, dj_queue=20.0))

    assert cells(line) == [
        "drain, sqlite",
        "huey 100/s",
        f"{ours:,.0f}/s",
        ratio,
        ">= 30 x",
        reached,
    ]


def test_a_cost_is_compared_with_the_least_of_the_peers() -> None:
    target = Against("pick-up", ("x",), ("sqlite",), bound=3, costs=True, template="{:.1f} ms")

    (line,) = target.lines(known(2.0, huey=5.0, dj_queue=50.0))
    (slow,) = target.lines(known(4.0, huey=5.0))

    assert cells(line)[1:] == ["huey 5.0 ms", "2.0 ms", "2.5", ">= 1 x, <= 3.0 ms", "yes"]
    assert cells(slow)[-1] == "**no**", "ahead of the peers, but beyond the bound"


def test_a_bound_counts_where_no_peer_has_a_figure() -> None:
    target = Against("bulk", ("x",), ("sqlite",), bound=40_000)

    assert cells(target.lines(known(41_000.0))[0])[1:] == [
        "-",
        "41,000/s",
        "-",
        ">= 1 x, >= 40,000/s",
        "yes",
    ]
    assert cells(target.lines(known(39_000.0))[0])[-1] == "**no**"


def test_only_the_peers_that_are_named_count() -> None:
    target = Against("drain", ("x",), ("sqlite",), ("dj-queue",), 10)

    (line,) = target.lines(known(300.0, huey=1_000.0, dj_queue=20.0))

    assert cells(line)[1] == "dj-queue 20/s"


def test_the_best_of_several_figures_of_a_queue_is_taken() -> None:
    figures = {
        entry(OURS, "sqlite"): {"drain_1": 10.0, "drain_2": 30.0},
        entry("huey", "sqlite"): {"drain_1": 15.0, "drain_4": 5.0},
    }
    target = Against("drain", ("drain_1", "drain_2", "drain_4"), ("sqlite",))

    assert cells(target.lines(Known(figures))[0])[1:4] == ["huey 15/s", "30/s", "2.0"]


def test_beside_redis_stands_our_best_on_any_database() -> None:
    figures = {
        entry(OURS, "sqlite"): {"x": 10.0},
        entry(OURS, "mariadb"): {"x": 40.0},
        entry("huey", "redis"): {"x": 20.0},
    }
    target = Against("drain", ("x",), ("redis",))

    assert cells(target.lines(Known(figures))[0])[1:4] == ["huey 20/s", "40/s", "2.0"]
    assert target.lines(known(10.0)) == [], "nothing to compare with"


def test_what_was_not_measured_has_no_line_or_no_verdict() -> None:
    assert Against("drain", ("x",)).lines(Known({})) == []
    assert Ours("flat", ("sqlite", "x"), ("sqlite", "y"), 0.7).lines(known(5.0)) == []
    (line,) = Against("drain", ("x",), ("sqlite",)).lines(Known({"huey on sqlite": {"x": 4.0}}))
    assert cells(line)[1:] == ["huey 4/s", "-", "-", ">= 1 x", "-"]
    assert cells(OfRun("x", lambda f: f["x"], most=1).lines(Known({}))[0])[2] == "`run`"


def test_our_own_figures_stand_against_each_other() -> None:
    figures = {entry(OURS, "mysql"): {"x": 60.0}, entry(OURS, "mariadb"): {"x": 100.0}}
    target = Ours("MySQL by MariaDB", ("mysql", "x"), ("mariadb", "x"), 0.7)

    (line,) = target.lines(Known(figures))

    assert cells(line)[2:] == ["60/s by 100/s", "0.60", ">= 0.7", "**no**"]


def test_figures_of_the_last_run_fill_their_lines() -> None:
    target = OfRun("memory", lambda figures: figures["at"] - figures["bare"], most=25)

    lines = target.lines(Known({}, {"sqlite": {"at": 60.0, "bare": 40.0}, "mysql": {"at": 1.0}}))

    assert [cells(line)[0] for line in lines] == ["memory, sqlite"]
    assert cells(lines[0])[2:] == ["20.00", "-", "<= 25.00", "yes"]
    assert cells(target.lines(Known({}))[0])[2] == "`run`"


def comparison_found() -> Results:
    return Results(
        {"processor": "2 cores"},
        PLAN,
        {
            entry(OURS, "sqlite"): {"drain_1": 9_000.0},
            entry("huey", "sqlite"): {"drain_1": 2_000.0},
        },
        {"sqlite": "SQLite 3", "huey": "huey 3.5 on Python 3.13"},
        {"threadmill": "cannot be installed: no matching\ndistribution"},
    )


def test_the_tables_say_who_ran_how_and_who_did_not(tmp_path: Path) -> None:
    text = comparison.render(comparison_found(), tmp_path)

    assert "| drain, 1 process, sqlite | huey 2,000/s | 9,000/s | 4.5 | >= 3 x | yes |" in text
    assert "| SQLite 3 | enqueue/s |" in text
    assert "| huey | - | - | 2,000 |" in text
    assert f"- huey: huey 3.5 on Python 3.13. {load('huey').setting}." in text
    assert "- Not measured: threadmill: cannot be installed: no matching distribution" in text


def test_each_table_goes_between_its_own_markers(tmp_path: Path) -> None:
    comparison_found().keep("table", tmp_path, comparison.LAST)
    both = tmp_path / "both.md"
    both.write_text(
        "a\n<!-- benchmarks -->\nkept\n<!-- /benchmarks -->\n"
        "<!-- compare -->\nold\n<!-- /compare -->\nz\n"
    )

    report.main(argparse.Namespace(output=tmp_path, files=[both]))

    text = both.read_text()
    assert "kept" in text, "there was no run"
    assert "old" not in text
    assert "| drain, 1 process, sqlite | huey 2,000/s |" in text
    assert text.endswith("<!-- /compare -->\nz\n")


def test_figures_are_medians_of_the_rounds_that_have_them() -> None:
    rounds = [{"a": 1.0, "b": 5.0}, {"a": 9.0}, {"a": 2.0}]

    assert _medians(rounds) == {"a": 2.0, "b": 5.0}


@pytest.mark.parametrize("name", [*PEERS, OURS])
def test_every_peer_says_how_it_runs_without_its_library(name: str) -> None:
    peer = load(name)

    assert peer.setting
    assert set(peer.databases) <= {"sqlite", "mariadb", "mysql", "postgresql", "redis"}
    assert bool(peer.requirements) == (name != OURS)
    assert name == OURS or name.startswith(peer.name)


def test_a_stopped_run_may_lack_tasks_but_not_double_them(tmp_path: Path) -> None:
    effects = Effects(tmp_path / "effects")
    effects.path.write_text("".join(LINE % (number, number, 1) for number in (4, 2)))

    assert [effect.number for effect in effects.check_no_double()] == [2, 4]

    with effects.path.open("a") as file:
        file.write(LINE % (4, 9, 1))
    with pytest.raises(NotExactlyOnce, match="3 calls of 2 tasks"):
        effects.check_no_double()


@pytest.fixture
def installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every installation by its interpreter, done by nobody; the first interpreter has no luck."""
    done: list[str] = []

    def install(base: str, directory: Path, requirements: tuple[str, ...]) -> str:
        done.append(base)
        directory.mkdir(parents=True)
        return "ERROR: needs Python 3.12" if base == "old" or "never" in requirements else ""

    monkeypatch.setattr(venvs, "VENVS", tmp_path)
    monkeypatch.setattr(venvs, "_pythons", lambda: ["old", sys.executable])
    monkeypatch.setattr(venvs, "_install", install)
    return done


def test_an_environment_is_made_by_the_first_python_that_can_and_kept(installs: list[str]) -> None:
    python = venvs.python_of("huey", ("huey",))

    assert installs == ["old", sys.executable]
    assert venvs.python_of("huey", ("huey",)) == python
    assert len(installs) == 2, "it is kept"

    venvs.python_of("huey", ("huey", "redis"))
    assert len(installs) == 4, "other packages are wanted"

    venvs.python_of("huey", ("huey", "redis"), renew=True)
    assert len(installs) == 6


def test_what_no_python_can_install_says_why(installs: list[str]) -> None:
    with pytest.raises(venvs.NotInstalled, match=r"needs Python 3\.12"):
        venvs.python_of("huey", ("never",))


def test_results_of_each_kind_are_kept_apart(tmp_path: Path) -> None:
    comparison_found().keep("table", tmp_path, comparison.LAST)

    assert comparison.load_last(tmp_path).missing.keys() == {"threadmill"}
    with pytest.raises(FileNotFoundError):
        results.load(tmp_path)
