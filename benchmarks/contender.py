"""A queue under comparison: its agent, which enqueues, and its worker processes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.databases import Target
from benchmarks.effects import PATH_VARIABLE, Effects
from benchmarks.peers.base import PEER_VARIABLE, PLACE_VARIABLE, Peer
from benchmarks.processes import PROJECT, cpu_seconds

CALL_SECONDS = 600.0
STOP_SECONDS = 15.0
SHOWN = 300  # characters of what a peer said when it failed


class PeerFailed(Exception):
    """It does not do what is measured; the message is what it said."""


@dataclass(frozen=True)
class Place:
    """What a peer runs on: one of our databases, or Redis."""

    database: str
    directory: Path
    connection: dict[str, Any]
    target: Target | None = None

    @classmethod
    def of(cls, database: str, where: Target | Place, key: str) -> Place:
        """A place for this contender alone: a directory of its own, and a new database."""
        directory = Path(tempfile.mkdtemp(prefix=key, dir=where.directory))
        if isinstance(where, Place):
            return cls(database, directory, where.connection)
        target = Target(database, directory, where.server)
        target.create()
        return cls(database, directory, target.django_database(), target)


class Contender:
    """A peer on a database; a context manager, which starts its agent and sets up its tables."""

    def __init__(self, key: str, peer: type[Peer], place: Place, python: str) -> None:
        self.key = key
        self.peer = peer
        self.place = place
        self.effects = Effects(place.directory / "effects")
        self.software = ""
        self.drain_size: int | None = None  # known once it was measured
        self._python = python
        self._log = place.directory / "log"
        self._agent: subprocess.Popen[str] | None = None

    def __enter__(self) -> Contender:
        self._agent = subprocess.Popen(
            [self._python, "-m", "benchmarks.peers.agent"],
            cwd=PROJECT,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("ab"),
            text=True,
        )
        try:
            self.software = self.call("set_up")
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def _close(self) -> None:
        agent = self._agent
        assert agent is not None
        assert agent.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            agent.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            agent.wait(STOP_SECONDS)
        agent.kill()
        agent.wait()

    def call(self, name: str, *arguments: Any) -> Any:
        """Let the agent do it; PeerFailed with what it said if it cannot."""
        agent = self._agent
        assert agent is not None
        assert agent.stdin is not None
        assert agent.stdout is not None
        agent.stdin.write(json.dumps([name, *arguments]) + "\n")
        agent.stdin.flush()
        answered, _, _ = select.select([agent.stdout], [], [], CALL_SECONDS)
        if not answered:
            raise PeerFailed(f"{name}: no answer within {CALL_SECONDS:g} s")
        line = agent.stdout.readline()
        answer = json.loads(line) if line else {"error": self._said()}
        if "error" in answer:
            raise PeerFailed(f"{name}: {answer['error'].strip()[-SHOWN:]}")
        return answer["value"]

    def clear(self) -> None:
        self.call("clear")
        self.effects.clear()

    @contextlib.contextmanager
    def workers(self, processes: int) -> Iterator[Workers]:
        """Worker processes as its users start them; at the end none is left."""
        commands = self.call("workers", processes)
        environment = self._environment()
        started = []
        try:
            with self._log.open("ab") as log:
                for command in commands:
                    started.append(
                        subprocess.Popen(
                            command,
                            cwd=PROJECT,
                            env=environment,
                            stdin=subprocess.DEVNULL,
                            stdout=log,
                            stderr=log,
                            start_new_session=True,  # a group, for its children
                        )
                    )
            yield Workers(self, started)
        finally:
            _stop(started)

    def _said(self) -> str:
        return self._log.read_text(errors="replace").strip()[-SHOWN:] or "it ended without a word"

    def _environment(self) -> dict[str, str]:
        place = {"database": self.place.database, "connection": self.place.connection}
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "benchmarks.peers.settings",
            PEER_VARIABLE: self.key,
            PLACE_VARIABLE: json.dumps(place),
            PATH_VARIABLE: str(self.effects.path),
        }


@dataclass
class Workers:
    """The running worker processes of a contender."""

    contender: Contender
    processes: list[subprocess.Popen[bytes]]

    def check(self) -> None:
        """PeerFailed if one has ended by itself."""
        if any(process.poll() is not None for process in self.processes):
            raise PeerFailed(f"a worker ended: {self.contender._said()}")

    def reached(self, count: int) -> bool:
        """Whether this many tasks were called; PeerFailed if a worker has ended."""
        self.check()
        return len(self.contender.effects) >= count

    def cpu_seconds(self) -> float:
        """Processor time of all of them, with their children."""
        return sum(cpu_seconds(pid) for process in self.processes for pid in _family(process.pid))


def _family(pid: int) -> list[int]:
    family = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            family += _family(int(child))
    return family


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
