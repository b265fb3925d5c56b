"""What tasks leave behind: a file with one line for each call, so that every call is counted.

A line has a fixed width: the number of the task, when it started (CLOCK_MONOTONIC, the same for
all processes of this machine, in nanoseconds), and the process that ran it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

PATH_VARIABLE = "SKIPPER_BENCH_EFFECTS"
LINE = "%09d %020d %010d\n"
WIDTH = len(LINE % (0, 0, 0))

_file: int | None = None


def leave(number: int) -> None:
    """Say that this task has been called. One unbuffered append: it survives a killed worker."""
    global _file
    if _file is None:
        _file = os.open(os.environ[PATH_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(_file, (LINE % (number, time.monotonic_ns(), os.getpid())).encode())


class NotExactlyOnce(Exception):
    """Some task ran more or less than once: no figure of that run is worth anything."""


@dataclass(frozen=True)
class Effect:
    number: int
    started: float  # seconds of time.monotonic()
    pid: int


class Effects:
    """The file, from the side of who counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def __len__(self) -> int:
        return self.path.stat().st_size // WIDTH

    def clear(self) -> None:
        os.truncate(self.path, 0)

    def read(self) -> list[Effect]:
        lines = (line.split() for line in self.path.read_text().splitlines())
        return [Effect(int(number), int(ns) / 1e9, int(pid)) for number, ns, pid in lines]

    def check(self, numbers: range) -> list[Effect]:
        """All effects, in order of start; NotExactlyOnce unless there is one of each number."""
        effects = sorted(self.read(), key=lambda effect: effect.started)
        counts = Counter(effect.number for effect in effects)
        lost = [number for number in numbers if number not in counts]
        doubled = [number for number, count in counts.items() if count > 1]
        if lost or doubled or len(counts) != len(numbers):
            raise NotExactlyOnce(
                f"{len(numbers)} tasks, {len(effects)} calls: {len(lost)} lost {lost[:5]}, "
                f"{len(doubled)} doubled {doubled[:5]}"
            )
        return effects

    def check_no_double(self) -> list[Effect]:
        """All effects of a run that was stopped, in order of start; NotExactlyOnce if one twice."""
        numbers = {effect.number for effect in self.read()}
        if len(numbers) != len(self):
            raise NotExactlyOnce(f"{len(self)} calls of {len(numbers)} tasks")
        return sorted(self.read(), key=lambda effect: effect.started)


def middle_rate(effects: list[Effect]) -> float:
    """Starts per second over the middle 90 % of the starts: no start-up, no last stragglers."""
    first, last = int(len(effects) * 0.05), int(len(effects) * 0.95)
    return (last - first) / max(1e-9, effects[last].started - effects[first].started)
