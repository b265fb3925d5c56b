"""Members that do anything in any order, on the real store, judged by the model.

A member may be armed: at one of its next statements it crashes, loses its connection, or another
member acts meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from skipper_django.core.clock import ManualClock
from skipper_django.core.config import Config
from skipper_django.core.errors import MemberNameTaken
from skipper_django.store.add import add
from tests.model.member import SimulatedMember
from tests.model.model import FINAL, Violation
from tests.model.watched import Crash, LostConnection, Watched, Witness, told_time
from tests.store.support import new

NAMES = ("ann", "bob", "cay")
OUTCOMES = ("succeeded", "retry", "failed", "released")
# With living members everything due is done within the liveness window, the longest lease, two
# losses of it, and a little.
MOST_TASKS = 12
BOUND_SECONDS, TICK_SECONDS = 400.0, 20.0


WORK = ("choose", "take", "claim", "claim", "start", "start", "settle")
CARE = ("beat", "renew", "promote", "reclaim", "reclaim", "hand_back", "prune")
WHOLE = ("live", "live", "fail_all", "leave")
steps = st.sampled_from(WORK + CARE + WHOLE)
others_steps = st.lists(st.sampled_from(("fail_all", "live", *WORK, *CARE)), min_size=1, max_size=3)
faults = st.sampled_from([Crash, LostConnection])
numbers = st.integers(0, 2)
indexes = st.integers(0, len(NAMES) - 1)


class QueueMachine(RuleBasedStateMachine):
    """On the database `alias`; see on()."""

    alias = ""

    @classmethod
    def on(cls, alias: str) -> type[QueueMachine]:
        return type(cls.__name__, (cls,), {"alias": alias})

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self._stack = ExitStack()
        self._stack.enter_context(told_time(self.clock))
        self.members: dict[str, SimulatedMember] = {}
        self.actor = "project"
        self.count = 0
        self.armed: tuple[int, bool, Callable[[], None]] | None = None
        self.is_broken = False

    @initialize(lease_duration=st.sampled_from([30.0, 100.0]))
    def begin(self, lease_duration: float) -> None:
        self.config = Config(
            database=self.alias,
            lease_duration=lease_duration,
            retention=300.0,
            failed_retention=600.0,
        )
        self.witness = Witness(self.alias, self.config, self.clock)
        self.witness.empty()
        self.database = Watched(self.alias, self._boundary)
        self.join("ann")
        self.enqueue(2, None, 0)

    @precondition(lambda self: len(self.witness.model.tasks) < MOST_TASKS)
    @rule(
        count=st.integers(1, 3),
        delay=st.sampled_from([None, None, None, 8.0, 90.0]),
        priority=st.sampled_from([0, 0, 5]),
    )
    def enqueue(self, count: int, delay: float | None, priority: int) -> None:
        now = self.clock.now()
        due = None if delay is None else now + timedelta(seconds=delay)
        tasks = []
        for _ in range(count):
            self.count += 1
            tasks.append(new(f"task-{self.count}", priority=priority, run_after=due))
        self._act("project", lambda: add(self.database, tasks, now))

    @rule(seconds=st.sampled_from([1.0, 8.0, 25.0, 61.0, 101.0, 301.0]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(name=st.sampled_from(NAMES))
    def join(self, name: str) -> None:
        if name not in self.members:
            member = SimulatedMember(name, self.witness, self.database, self.config)
            self.members[name] = member
            self._act(name, member.cluster.join)

    @precondition(lambda self: self.members)
    @rule(index=indexes, step=st.sampled_from(WORK))
    def work(self, index: int, step: str) -> None:
        member = self._member(index)
        self._act(member.name, getattr(member, step))

    @precondition(lambda self: self.members)
    @rule(index=indexes, step=st.sampled_from(CARE))
    def care(self, index: int, step: str) -> None:
        self.work(index, step)

    @precondition(lambda self: self.members)
    @rule(index=indexes, step=st.sampled_from(WHOLE))
    def live_or_leave(self, index: int, step: str) -> None:
        self.work(index, step)

    @precondition(lambda self: self.members)
    @rule(index=indexes, outcome=st.sampled_from(OUTCOMES))
    def finish(self, index: int, outcome: str) -> None:
        self._member(index).finish(outcome)

    @precondition(lambda self: self.members)
    @rule(index=indexes, step=steps, number=numbers, after=st.booleans(), fault=faults)
    def fail(
        self, index: int, step: str, number: int, after: bool, fault: type[BaseException]
    ) -> None:
        """A step during which the member crashes or loses its connection."""

        def fail() -> None:
            raise fault

        self.armed = number, after, fail
        self.work(index, step)
        self.armed = None

    @precondition(lambda self: len(self.members) > 1)
    @rule(index=indexes, step=steps, number=numbers, other=indexes, others=others_steps)
    def meanwhile(self, index: int, step: str, number: int, other: int, others: list[str]) -> None:
        """A step in the middle of which another member acts."""
        names = [name for name in sorted(self.members) if name != self._member(index).name]
        name = names[other % len(names)]

        def act() -> None:
            for step in others:
                if name in self.members:
                    self._act(name, getattr(self.members[name], step))

        self.armed = number, True, act
        self.work(index, step)
        self.armed = None

    def do(self, name: str, *steps: str) -> None:
        """For stories: these steps of one member, in this order."""
        for step in steps:
            self._act(name, getattr(self.members[name], step))

    def _member(self, index: int) -> SimulatedMember:
        names = sorted(self.members)
        return self.members[names[index % len(names)]]

    def _act(self, name: str, step: Callable[[], Any]) -> None:
        before, self.actor = self.actor, name
        try:
            step()
        except LostConnection:
            pass  # it lives on and tries again
        except (Crash, MemberNameTaken):
            self.members.pop(name, None)
        except BaseException:
            self.is_broken = True
            raise
        finally:
            self.actor = before

    def _boundary(self, sql: str, after: bool) -> None:
        if after:
            self.witness.look(sql, self.actor)
        if self.armed is None or self.actor == "project" or self.armed[1] != after:
            return
        number, _, event = self.armed
        self.armed = (number - 1, after, event) if number else None
        if not number:
            event()

    def teardown(self) -> None:
        """No ready task stays unseen longer than a bound while a member lives."""
        with self._stack:
            if hasattr(self, "witness") and not self.is_broken:
                self._live_on()

    def _live_on(self) -> None:
        self.join("ann")
        model = self.witness.model
        for _ in range(int(BOUND_SECONDS / TICK_SECONDS)):
            self.clock.advance(TICK_SECONDS)
            for name in list(self.members):
                self._act(name, self.members[name].live)
            self.join("ann")
            if not any(row["status"] < FINAL for row in model.tasks.values()):
                return
        if unseen := model.unseen(self.clock.now()):
            raise Violation(f"unseen for {BOUND_SECONDS:g} s: {unseen}")
