"""What the soak makes of its samples; the soak itself is no part of the tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.soak import report
from chaos.soak.report import Soaked
from chaos.soak.verdict import LEAST_SECONDS, figures, growth
from chaos.soak.watch import Sample, Tally

RATE = 500


def flat(minute: float) -> Sample:
    seconds, done = 60 * minute, int(60 * minute * RATE)
    return Sample(seconds, done + 100, done, 120.0, 20, 40_000, 30.0, 12.0, 9_000)


def course(change: Callable[[Sample], Sample] = lambda sample: sample) -> list[Sample]:
    return [change(flat(look / 6)) for look in range(181)]


def soaked(samples: list[Sample], troubles: list[str] | None = None) -> Soaked:
    return Soaked(
        "MariaDB 10", "seed 5", RATE, 900_000, 90, 85, 0, 600, 0, 120, 1.5, samples, troubles or []
    )


def test_what_is_flat_passes() -> None:
    found = figures(course())

    assert found.rate == (RATE, RATE)
    assert found.memory == (120.0, 120.0)
    assert growth(found, RATE) == []


def test_growth_within_the_warm_up_is_none() -> None:
    def warming(sample: Sample) -> Sample:
        return dataclasses.replace(sample, memory=min(120.0, 20 + sample.seconds))

    assert growth(figures(course(warming)), RATE) == []


@pytest.mark.parametrize(
    ("field", "a_minute", "complaint"),
    [
        ("memory", 1.0, "memory (MB) grew"),
        ("sessions", 1, "sessions grew"),
        ("table", 1.0, "table (MB) grew"),
        ("indexes", 1.0, "indexes (MB) grew"),
        ("purge_lag", 2_000, "purge lag grew"),
    ],
)
def test_what_grows_is_told(field: str, a_minute: float, complaint: str) -> None:
    def growing(sample: Sample) -> Sample:
        grown = getattr(sample, field) + a_minute * sample.seconds / 60
        return dataclasses.replace(sample, **{field: grown})

    (told,) = growth(figures(course(growing)), RATE)

    assert told.startswith(complaint)


def test_a_queue_that_falls_behind_is_told() -> None:
    def slowing(sample: Sample) -> Sample:
        return dataclasses.replace(sample, done=int(sample.done * (1 - sample.seconds / 20_000)))

    slower, waiting = growth(figures(course(slowing)), RATE)

    assert slower.startswith("throughput fell from")
    assert waiting.endswith("tasks wait, more than 2,500")


def test_a_single_peak_of_waiting_tasks_is_no_backlog() -> None:
    samples = course()
    samples[-10] = dataclasses.replace(samples[-10], enqueued=samples[-10].done + 50_000)

    assert growth(figures(samples), RATE) == []


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        figures(course()[:8])


def test_what_is_too_short_is_not_judged_but_counted() -> None:
    def growing(sample: Sample) -> Sample:
        return dataclasses.replace(sample, memory=sample.seconds)

    short = [sample for sample in course(growing) if sample.seconds < LEAST_SECONDS]

    assert soaked(short).verdict() == []
    assert "too short to be judged" in report.render([soaked(short)])
    assert soaked(short, ["lost: [7]"]).verdict() == ["lost: [7]"]
    assert soaked(course(growing)).verdict() != []


def test_calls_are_counted_once_however_often_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "effects"
    path.write_text("0 begun 1 0.5\n0 done 1 0.6\n1 begun 1 0.7\n2 beg")
    tally = Tally(path, 4)
    assert tally.read() == 1

    with path.open("a") as file:
        file.write("un 1 0.8\n1 begun 2 0.9\n1 done 2 1.0\n1 done 1 1.1\n")

    assert tally.read() == 2
    assert tally.read() == 2
    assert tally.doubled() == {1: 1}
    assert tally.lost(range(4)) == {2, 3}


def test_the_figures_stand_between_the_markers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "LAST", tmp_path / "soak" / "last.json")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.save([soaked(course()), soaked(course(), ["lost: [7]"])])

    report.main([str(page)])

    text = page.read_text()
    assert "| tasks/s, first and last quarter | 500, 500 | 500, 500 |" in text
    assert "| verdict | passed | not passed |" in text
    assert "| MariaDB 10 | 30.0 | 500 | 100 | 120 | 20 | 40,000 | 30 | 12 | 9,000 |" in text
    assert "MariaDB 10: not passed: lost: [7]. 0 enqueues raised" in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old\n" not in text
