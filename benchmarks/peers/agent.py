"""A peer at the other end of a pipe, in its own virtual environment.

Each line on stdin is a JSON list, the name of a call and its arguments; each is answered by one
JSON line, {"value": ...} or {"error": ...}. What the peer itself prints goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from importlib.metadata import version
from typing import Any

from benchmarks.peers.base import Peer, play

STEP = 50  # tasks between two looks at the clock


class Agent:
    """The calls; times are seconds."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def set_up(self) -> str:
        """Create the tables; tell what software this is."""
        self._peer.set_up()
        python = ".".join(map(str, sys.version_info[:3]))
        return f"{self._peer.name} {version(self._peer.name)} on Python {python}"

    def clear(self) -> None:
        self._peer.clear()

    def singles(self, seconds: float) -> float:
        """Enqueue one by one for this long; how many a second."""
        begun, count = time.perf_counter(), 0
        while (passed := time.perf_counter() - begun) < seconds:
            self._peer.singles(range(count, count + STEP))
            count += STEP
        return count / passed

    def fill(self, start: int, stop: int) -> float:
        """Enqueue these; how many a second."""
        begun = time.perf_counter()
        self._peer.fill(range(start, stop))
        return (stop - start) / (time.perf_counter() - begun)

    def one(self, number: int) -> float:
        """Enqueue this one; the time of its commit by the monotonic clock."""
        self._peer.enqueue(number)
        return time.monotonic()

    def defer(self, count: int) -> None:
        self._peer.defer(count)

    def left(self) -> int:
        return self._peer.left()

    def workers(self, processes: int) -> list[list[str]]:
        return self._peer.workers(processes)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    agent = Agent(play())
    ours = type(agent._peer).__module__ == "benchmarks.peers.ours"
    for line in sys.stdin:
        call, *arguments = json.loads(line)
        answer: dict[str, Any]
        try:
            answer = {"value": getattr(agent, call)(*arguments)}
            assert ours or "skipper_django" not in sys.modules, "a peer has our package loaded"
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
