"""What tasks leave behind: a file to which every call adds its lines, by which it is counted.

The file lies outside the database, so that no fault of it can hide a call.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

VARIABLE = "CHAOS_EFFECTS"
NO_TASK = -1


def leave(number: int, what: str) -> None:
    """One line in one write: those of several processes do not mix, a kill leaves no half."""
    line = f"{number} {what} {os.getpid()} {time.monotonic()}\n"
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


@dataclass(frozen=True)
class Effect:
    number: int
    what: str  # begun, done, beat, or the verb of a statement
    pid: int
    at: float  # monotonic: one clock for all processes of this machine


class Effects:
    """The file, from the side of who counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def read(self, *what: str) -> list[Effect]:
        """Those of these kinds."""
        lines = (line.split() for line in self.path.read_text().splitlines())
        return [
            Effect(int(number), kind, int(pid), float(at))
            for number, kind, pid, at in lines
            if kind in what
        ]

    def calls(self) -> Counter[int]:
        return Counter(effect.number for effect in self.read("begun"))

    def done(self) -> set[int]:
        return {effect.number for effect in self.read("done")}

    def unfinished(self, pids: Collection[int]) -> set[int]:
        """What these processes have begun and not done."""
        begun, done = (
            {effect.number for effect in self.read(what) if effect.pid in pids}
            for what in ("begun", "done")
        )
        return begun - done

    def recovery(self, since: float, numbers: set[int] | None = None) -> float:
        """Seconds until the last of these tasks was begun after that moment; 0 for none."""
        first: dict[int, float] = {}
        for effect in self.read("begun"):
            if effect.at >= since and (numbers is None or effect.number in numbers):
                first.setdefault(effect.number, effect.at)
        return max(first.values(), default=since) - since

    def next_after(self, since: float) -> float:
        """Seconds until the next call of any task."""
        later = [effect.at for effect in self.read("begun") if effect.at >= since]
        return min(later, default=float("inf")) - since

    def longest_pause(self, start: float, end: float) -> float:
        """The longest time in which no task was begun."""
        moments = sorted(e.at for e in self.read("begun") if start < e.at < end)
        edges = [start, *moments, end]
        return max(after - before for before, after in pairwise(edges))
