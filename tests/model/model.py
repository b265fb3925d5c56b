"""The promise of the queue in plain dicts: judges every change of a row, whoever made it.

It is shown the tables after each statement and told what members believe and do. It knows no SQL
and shares no rule with the code: what it allows is written here once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

SCHEDULED, READY, RUNNING, SUCCESSFUL, FAILED = range(5)
FINAL = SUCCESSFUL  # and what comes after it
Row = Mapping[str, Any]


class Violation(AssertionError):
    """The queue has broken its promise."""


@dataclass(frozen=True)
class Promise:
    """The settings that the promise depends on, in seconds."""

    window: float
    retention: float
    failed_retention: float


class Model:
    """What the tables held at the last look, and what has happened so far."""

    def __init__(self, promise: Promise) -> None:
        self.promise = promise
        self.tasks: dict[int, Row] = {}
        self.claimed: dict[int, str] = {}  # token: who has it
        self.beats: dict[int, datetime] = {}  # incarnation: its last heartbeat
        self.names: dict[int, str] = {}  # incarnation: the member's name
        self.silent: set[int] = set()  # incarnations that were silent for a whole window once
        self.outcomes: dict[tuple[int, int], str] = {}  # (task, token): what the attempt led to
        self.settled: dict[tuple[int, int], str] = {}  # (task, token): what was stored
        self.reclaimed: set[tuple[int, int]] = set()  # (task, token) of a lease that had run out
        self.starts: dict[int, int] = {}  # task: how often it was started
        self.pruned: dict[int, Row] = {}

    # What members do

    def started(self, who: str, incarnation: int, task: int, token: int, now: datetime) -> None:
        """A member calls the task's function."""
        self.starts[task] = self.starts.get(task, 0) + 1
        if self._is_silent(incarnation, now):
            raise Violation(f"fenced: {who} has not beaten for long and starts task {task}")
        if token >> 32 in self.silent:
            raise Violation(f"fenced: {who} was silent for long and starts task {task}")
        row = self.tasks.get(task)
        if row is None or row["lease_token"] != token:
            raise Violation(f"fenced: {who} starts task {task}, whose lease it has lost")
        if row["lease_expires_at"] <= now:
            raise Violation(f"fenced: {who} starts task {task}, whose lease has run out")

    def ended(self, task: int, token: int, outcome: str) -> None:
        """An attempt has its outcome; it may be told again until it is stored."""
        before = self.outcomes.setdefault((task, token), outcome)
        if before != outcome:
            raise Violation(f"task {task} {outcome}, under a lease under which it {before}")

    # What becomes of the rows

    def saw_members(self, rows: Mapping[int, tuple[str, datetime]]) -> None:
        """Incarnation to name and last heartbeat."""
        for incarnation, (name, beat) in rows.items():
            if self._is_silent(incarnation, beat):
                self.silent.add(incarnation)
            self.names[incarnation] = name
            self.beats[incarnation] = beat

    def saw_tasks(self, rows: Mapping[int, Row], who: str, now: datetime) -> None:
        """The whole table after a statement of this member, or of the project."""
        for task in sorted(self.tasks.keys() | rows.keys()):
            before, after = self.tasks.get(task), rows.get(task)
            if before != after:
                self._judge(task, before, after, who, now)
        self.tasks = dict(rows)

    def _judge(
        self, task: int, before: Row | None, after: Row | None, who: str, now: datetime
    ) -> None:
        if before is None:
            assert after is not None
            if after["status"] > READY or task in self.pruned:
                raise Violation(f"task {task} appears as {after}")
        elif after is None:
            self._is_pruned(task, before, now)
        elif before["status"] >= FINAL:
            raise Violation(f"final is final: {before} became {after}")
        elif after["lost_leases"] < before["lost_leases"]:
            raise Violation(f"lost leases only grow: {before} became {after}")
        else:
            steps = {SCHEDULED: self._from_scheduled, READY: self._from_ready}
            steps.get(before["status"], self._from_running)(before, after, who, now)

    def _is_pruned(self, task: int, row: Row, now: datetime) -> None:
        kept = {SUCCESSFUL: self.promise.retention, FAILED: self.promise.failed_retention}
        seconds = kept.get(row["status"])
        if seconds is None or now - row["finished_at"] < timedelta(seconds=seconds):
            raise Violation(f"deleted, but not by retention: {row}")
        self.pruned[task] = row

    def _from_scheduled(self, before: Row, after: Row, who: str, now: datetime) -> None:
        if after != {**before, "status": READY} or before["run_after"] > now:
            raise Violation(f"{who} at {now} promotes {before} to {after}")

    def _from_ready(self, before: Row, after: Row, who: str, now: datetime) -> None:
        token = after["lease_token"]
        if after["status"] != RUNNING or token is None or token <= 0:
            raise Violation(f"{who} makes {before} {after}")
        if after["attempts"] != before["attempts"] + 1:
            raise Violation(f"attempts only grow: {before} became {after}")
        if self.claimed.setdefault(token, who) != who or self.names[token >> 32] != who:
            raise Violation(f"one live token: {who} claims with that of {self.claimed[token]}")
        if (before["id"], token) in self.settled:
            raise Violation(f"one live token: {who} uses {token} again")

    def _from_running(self, before: Row, after: Row, who: str, now: datetime) -> None:
        token = after["lease_token"]
        if token is None:
            self._is_reclaimed(before, after, who, now)
        elif token == -before["lease_token"]:
            self._is_settled(before, after, who)
        elif token != before["lease_token"]:
            raise Violation(f"one live token: {who} takes the live lease of {before}")
        elif {**before, "lease_expires_at": after["lease_expires_at"]} != after:
            raise Violation(f"{who} changes {before} to {after} and keeps the lease")
        elif self.claimed[token] != who or after["lease_expires_at"] < before["lease_expires_at"]:
            raise Violation(f"{who} renews {before} as {after}")

    def _is_reclaimed(self, before: Row, after: Row, who: str, now: datetime) -> None:
        if after["attempts"] != before["attempts"]:
            raise Violation(f"attempts only grow: {before} became {after}")
        if after["lost_leases"] != before["lost_leases"] + 1:
            raise Violation(f"{who} reclaims {before} and does not count it: {after}")
        if (after["status"] == FAILED) != (after["lost_leases"] >= 3):
            raise Violation(f"{who} reclaims {before} and makes it {after}")
        holder = before["lease_token"] >> 32
        is_dead = holder in self.silent or self._is_silent(holder, now)
        if not (before["lease_expires_at"] < now or is_dead):
            raise Violation(f"one live token: {who} at {now} reclaims the live lease of {before}")
        self.reclaimed.add((before["id"], before["lease_token"]))

    def _is_silent(self, incarnation: int, now: datetime) -> bool:
        beat = self.beats.get(incarnation, now)
        return now - beat >= timedelta(seconds=self.promise.window)

    def _is_settled(self, before: Row, after: Row, who: str) -> None:
        key = before["id"], before["lease_token"]
        outcome = self.outcomes.get(key)
        if self.claimed[before["lease_token"]] != who or outcome is None:
            raise Violation(f"{who} settles a task that was claimed again meanwhile: {before}")
        expected = {"succeeded": SUCCESSFUL, "failed": FAILED, "retry": SCHEDULED}
        if after["status"] != expected.get(outcome, READY):
            raise Violation(f"{who} stores {after} for a task that {outcome}")
        if outcome == "succeeded" and after["result"] != str(before["lease_token"]):
            raise Violation(f"{who} stores the result of another attempt: {after}")
        given_back = outcome == "released"
        if after["attempts"] != before["attempts"] - given_back:
            raise Violation(f"attempts only grow, but by a release: {before} became {after}")
        self.settled[key] = outcome

    # What must have become of them

    def must_be_stored(self, task: int, token: int, outcome: str) -> None:
        """The member was told that its outcome is stored."""
        if self.settled.get((task, token)) != outcome:
            raise Violation(f"dropped: task {task} {outcome} and nobody stored it")

    def must_be_lost(self, task: int, token: int) -> None:
        """The member was told that it has lost its lease."""
        row = self.tasks.get(task)
        if row is not None and row["lease_token"] == token:
            raise Violation(f"dropped: task {task} is still held under {token}")

    def must_have_run_once(self) -> None:
        """Where nothing fails: every attempt was started, one was the last, and no lease lost."""
        for task, row in self.tasks.items():
            ends = [end for (one, _), end in self.settled.items() if one == task]
            lasts = ends.count("succeeded") + ends.count("failed")
            if (row["attempts"], row["lost_leases"], lasts) != (self.starts[task], 0, 1):
                raise Violation(f"{row} was started {self.starts[task]} times and {ends}")

    def unseen(self, now: datetime) -> list[Row]:
        """Tasks that somebody should have brought to an end by now."""
        return [
            row for row in self.tasks.values() if row["status"] < FINAL and row["run_after"] <= now
        ]
