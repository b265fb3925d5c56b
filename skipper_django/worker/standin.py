"""The stand-in: a process that keeps up the workers beside it while a task holds their interpreter.

A task in C code may keep the interpreter for minutes, and with it every thread of its process:
heartbeat, renewals, timeouts. The stand-in reads the workers' pulses and does nothing, without a
connection of its own, while they beat. Where one stands still although its process runs, it sends
the heartbeats and renews the leases, and ends the process when a task has overrun its timeout.

A process that is stopped (SIGSTOP) or gone gets no help: others must be able to take its tasks.
"""

import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import ceil, inf
from threading import Event

from django.db import connections

from ..core.clock import monotonic
from ..core.config import Config
from ..core.telemetry import Telemetry
from ..store import members
from ..store.clock import clock_of
from ..store.database import Database
from ..store.held import load
from ..store.lease import Lease
from ..store.upkeep import BATCH, renew
from . import timeouts
from .custody import Custody
from .execute import Attempt, Executor
from .finished import Finished
from .outage import Outage
from .process import start_of, state_of
from .pulse import LOOKS, Held, Pulse, act_every, look_every
from .settle import Settler
from .shutdown import SIGNALS

logger = logging.getLogger("skipper_django.worker")

STOPPED = "Tt"
HELD = "because the interpreter is held"


def is_possible() -> bool:
    """Only where the system tells whether a process is stopped, as Linux does in /proc."""
    return start_of(os.getpid()) is not None


class StandIn:
    """For all workers of one supervisor, in a process of its own."""

    name = "stand-in"

    def __init__(
        self, config: Config, pulses: Sequence[Pulse], telemetry: Callable[[int], Telemetry]
    ) -> None:
        self._pulses = pulses
        self._every = look_every(config)
        self._supervisor = os.getpid()
        self._watches = [
            Watch(config, pulse, partial(telemetry, index)) for index, pulse in enumerate(pulses)
        ]

    def has_ended(self, index: int) -> bool:
        """Was it the stand-in that killed the worker of this number?"""
        return bool(self._pulses[index].condemned_at)

    def child_ended(self, index: int, cause: str | None) -> None:
        self._pulses[index].leave()
        self._pulses[index].condemn(0.0)

    def close(self) -> None:
        """There is nothing that the other children could do without."""

    def run(self) -> int:
        """Until it is killed, or supervisor and workers are gone."""
        for number in SIGNALS:
            # Whoever stops every process of a container means the workers, which may need help
            # until they have ended; the supervisor kills this one then.
            signal.signal(number, signal.SIG_IGN)
        for pulse in self._pulses:
            pulse.hands_nothing_back()  # as the stand-in before, killed in the middle of it, did
        while os.getppid() == self._supervisor or any(watch.is_there for watch in self._watches):
            for watch in self._watches:
                watch.look()
            Event().wait(self._every)
        return 0


class Watch:
    """One worker, as the stand-in sees it."""

    def __init__(self, config: Config, pulse: Pulse, telemetry: Callable[[], Telemetry]) -> None:
        self._config = config
        self._pulse = pulse
        self._telemetry = telemetry
        self._beats = 0
        self._looks = 0
        self._act_at = 0.0
        self._acting: Acting | None = None

    @property
    def is_there(self) -> bool:
        return state_of(*self._pulse.process) is not None

    def look(self) -> None:
        if self._pulse.condemned_at:
            self._end()
        elif not self._is_silent():
            self._stand_back()
        elif any(held.has_overrun(_overdue()) for held in self._pulse.held()):
            self._condemn()
        elif monotonic() >= self._act_at:
            self._act()

    def _is_silent(self) -> bool:
        """Has the pulse stood still for some looks, while the process could have gone on?

        Counted in looks, not in seconds: when both were frozen, both begin anew.
        """
        beats = self._pulse.beats
        if beats and beats == self._beats and self._is_running():
            self._looks += 1
        else:
            self._beats, self._looks = beats, 0
        return self._looks >= LOOKS

    def _is_running(self) -> bool:
        state = state_of(*self._pulse.process)
        return state is not None and state not in STOPPED

    def _begin(self) -> "Acting":
        if self._acting is None:
            member_id, incarnation = self._pulse.member
            self._acting = Acting(self._config, member_id, incarnation, self._pulse)
            logger.warning(
                "a task holds the interpreter of member %s: its stand-in sends its heartbeats and "
                "renews its leases",
                member_id,
                extra={"member_id": member_id},
            )
        return self._acting

    def _act(self) -> None:
        if self._begin().renew():
            self._act_at = monotonic() + act_every(self._config)

    def _stand_back(self) -> None:
        if self._acting is not None:
            self._acting.close()
            self._acting = None
            self._act_at = 0.0

    def _condemn(self) -> None:
        """Stop the process, so that nothing of it runs while its outcomes are stored."""
        process = self._pulse.process
        self._pulse.condemn(monotonic())
        _send(process, signal.SIGSTOP)
        if self._pulse.beats == self._beats:
            self._end()
        else:  # it has woken up meanwhile
            self._pulse.condemn(0.0)
            _send(process, signal.SIGCONT)

    def _end(self) -> None:
        """Store, then kill. Tried again after an outage, by another stand-in if need be."""
        process, moment = self._pulse.process, self._pulse.condemned_at
        if state_of(*process) is None:
            self._stand_back()
            return
        _send(process, signal.SIGSTOP)  # the stand-in before may not have come so far
        too_late = monotonic() - moment > self._config.lease_duration
        overdue = moment - timeouts.GRACE_SECONDS
        with _at_most(self._config.lease_duration):
            if too_late or self._begin().settle(overdue, self._telemetry):
                _send(process, signal.SIGKILL)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """A process that takes longer is killed: backoff and receivers of signals are user code."""
    signal.alarm(ceil(seconds))
    try:
        yield
    finally:
        signal.alarm(0)


def _send(process: tuple[int, str], number: signal.Signals) -> None:
    if state_of(*process) is not None:
        with suppress(ProcessLookupError):
            os.kill(process[0], number)


def _overdue() -> float:
    """Deadlines up to this one have been overrun beyond the grace."""
    return monotonic() - timeouts.GRACE_SECONDS


class Acting:
    """What is done in a member's name."""

    def __init__(self, config: Config, member_id: str, incarnation: int, pulse: Pulse) -> None:
        self.member_id = member_id
        self._incarnation = incarnation
        self._config = config
        self._pulse = pulse
        self._beats = pulse.beats
        self._since = monotonic()
        self._clock = clock_of(config.database)
        self._database = Database(config.database)
        self._outage = Outage(self._database, member_id, "stand in for its member")

    def renew(self) -> bool:
        """Beat and renew; False while the database is away."""
        with self._outage.survived():
            self._beat()
            self._hand_back()
            held = self._pulse.held()
            for start in range(0, len(held), BATCH):
                batch = held[start : start + BATCH]
                renew(self._database, batch, self._clock.now(), self._config.lease_duration)
        return not self._outage.is_on

    def _hand_back(self) -> None:
        """What the worker will not start any more: others may have room for it."""
        # Read before its trust is: what it claims in between it may start.
        before = [lease for lease in self._pulse.held() if not lease.has_started]
        with self._pulse.handing_back() as may_hand_back:
            if may_hand_back:
                held = set(self._pulse.held())
                self._settle([], [lease for lease in before if lease in held])

    def _beat(self) -> None:
        if self._registers:
            started, now, tenant = monotonic(), self._clock.now(), self._config.tenant
            if members.beat(self._database, tenant, self.member_id, self._incarnation, {}, now):
                self._pulse.beaten(started)

    def settle(self, overdue: float, telemetry: Callable[[], Telemetry]) -> bool:
        """Store what overran its timeout, hand back the rest; False while the database is away."""
        with self._outage.survived():
            self._database.telemetry = telemetry()
            held = self._pulse.held()
            overrun = [lease for lease in held if lease.has_overrun(overdue)]
            self._settle(overrun, [lease for lease in held if lease not in overrun])
            if self._registers:
                tenant = self._config.tenant
                members.leave(self._database, tenant, self.member_id, self._incarnation)
        return not self._outage.is_on

    def _settle(self, overrun: Sequence[Held], rest: Sequence[Held]) -> None:
        custody = Custody()
        settler = Settler(self._database, self._clock, custody, self)
        leases = load(self._database, [*overrun, *rest])
        custody.add(leases, inf)
        deadlines = {lease.id: lease.deadline for lease in overrun}
        stuck = [
            self._give_up(lease, deadlines[lease.id]) for lease in leases if lease.id in deadlines
        ]
        for finished in stuck:
            settler.add(finished)
        settler.hand_back(leases, but=stuck)
        settler.settle()

    def _give_up(self, lease: Lease, deadline: float) -> Finished:
        executor = Executor(self._clock, self, self._config.max_payload_bytes)
        attempt = executor.prepare(lease)
        if not isinstance(attempt, Attempt):  # its code has gone meanwhile
            return Finished(lease, attempt, 0.0)
        lease.begun = deadline - (attempt.timeout or 0.0)
        outcome = executor.give_up(attempt, HELD)
        return Finished(lease, outcome, monotonic() - lease.begun, stuck=True)

    def close(self) -> None:
        """Stand back: the worker goes on by itself, is stopped, or has ended."""
        goes_on = self._pulse.beats not in (0, self._beats)
        logger.warning(
            "member %s %s: its stand-in stands back after %.1f s",
            self.member_id,
            "has its interpreter back" if goes_on else "is stopped or has ended",
            monotonic() - self._since,
            extra={"member_id": self.member_id},
        )
        connections.close_all()  # receivers of signals may have used others

    @property
    def _registers(self) -> bool:
        return self._config.cluster_membership_manager == "database"
