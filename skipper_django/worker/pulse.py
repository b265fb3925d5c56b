"""A worker's signs of life and its leases, in memory that its stand-in reads.

A task in C code may hold the interpreter for minutes: no thread of the process can then say that
it lives. So all of it stands in shared memory beforehand, mapped before the processes are forked.
Words are aligned and read only while nothing writes them, so neither side needs a lock.
"""

import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Protocol

from ..core.clock import monotonic
from ..core.config import Config
from ..store.lease import Lease
from .process import start_of
from .timeouts import GRACE_SECONDS

# A pulse that stands still for so many looks is silent; a timeout must not wait for longer.
LOOKS = 4
SILENT_AFTER_SECONDS = GRACE_SECONDS
RENEWALS_PER_LEASE = 3

# More than a worker of the highest concurrency can hold; pages never written cost nothing.
MAX_HELD = 16_384
WORD = 8

# The header, in words of eight bytes; the leases follow, each an id, a token and a deadline.
BEATS, PID, STARTED, INCARNATION, TRUSTED_UNTIL, CONDEMNED_AT, HIGHEST, NAME_BYTES = range(8)
BEATEN_AT, HANDING_BACK, NAME = 8, 9, 10
TABLE = 128
ID, TOKEN, DEADLINE, ENTRY = 0, 1, 2, 3
UNSTARTED = 0.0


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as the stand-in sees it. `deadline`: monotonic; inf: has none, or has ended."""

    id: int
    token: int
    deadline: float

    @property
    def has_started(self) -> bool:
        return self.deadline != UNSTARTED

    def has_overrun(self, moment: float) -> bool:
        """Was its deadline at this moment, or before?"""
        return self.has_started and self.deadline <= moment


class Pulse:
    """The place of one worker number; the process that fills it may be replaced."""

    def __init__(self) -> None:
        self._bytes = memoryview(mmap.mmap(-1, (TABLE + MAX_HELD * ENTRY) * WORD))
        self._ints = self._bytes.cast("q")
        self._floats = self._bytes.cast("d")
        self._index: dict[int, int] = {}
        self._free: list[int] = []
        # Written on one side before it is read on the other: no processor may turn that round.
        self._fence = threading.Lock()

    # The worker

    def enter(self) -> None:
        """Forget the process before; nothing of this one is watched until its first beat."""
        for word in range(TABLE + self._ints[HIGHEST] * ENTRY):
            self._ints[word] = 0
        self._ints[PID] = os.getpid()
        self._ints[STARTED] = int(start_of(os.getpid()) or 0)

    def beat(self, member_id: str, incarnation: int) -> None:
        name = member_id.encode()
        self._bytes[NAME * WORD : NAME * WORD + len(name)] = name
        self._ints[NAME_BYTES] = len(name)
        self._ints[INCARNATION] = incarnation
        self._ints[BEATS] += 1

    def leave(self) -> None:
        self._ints[BEATS] = 0

    def trust(self, until: float) -> bool:
        """The worker may start what it holds until then: told before it may.

        False: not so, the stand-in may just be handing back what has not started.
        """
        self._floats[TRUSTED_UNTIL] = max(until, self._floats[TRUSTED_UNTIL])
        with self._fence:
            return not self._ints[HANDING_BACK]

    def hold(self, lease: Lease) -> None:
        entry = self._entry(lease.id)
        if entry is not None:
            self._ints[entry + ID] = 0  # half an entry must not look like a whole one
            self._ints[entry + TOKEN] = lease.token
            self._floats[entry + DEADLINE] = UNSTARTED
            self._ints[entry + ID] = lease.id

    def begin(self, task: int, deadline: float) -> None:
        """The task of this id starts, to end by the deadline; it has ended: inf."""
        if (entry := self._index.get(task)) is not None:
            self._floats[entry + DEADLINE] = deadline

    def drop(self, task: int) -> None:
        if (entry := self._index.pop(task, None)) is not None:
            self._ints[entry + ID] = 0
            self._free.append(entry)

    def _entry(self, task: int) -> int | None:
        entry = self._index.get(task)
        if entry is None and self._free:
            entry = self._index[task] = self._free.pop()
        elif entry is None and self._ints[HIGHEST] < MAX_HELD:
            entry = self._index[task] = TABLE + self._ints[HIGHEST] * ENTRY
            self._ints[HIGHEST] += 1
        return entry

    # The stand-in, and the supervisor

    @property
    def beats(self) -> int:
        """Grows as long as the interpreter is free; 0 before the first and after the last."""
        return self._ints[BEATS]

    @property
    def process(self) -> tuple[int, str]:
        """Process id and start time of the worker."""
        return self._ints[PID], str(self._ints[STARTED])

    @property
    def member(self) -> tuple[str, int]:
        """Its id and incarnation."""
        start = NAME * WORD
        name = bytes(self._bytes[start : start + self._ints[NAME_BYTES]]).decode()
        return name, self._ints[INCARNATION]

    @property
    def trusted_until(self) -> float:
        return self._floats[TRUSTED_UNTIL]

    @contextmanager
    def handing_back(self) -> Iterator[bool]:
        """May the stand-in hand back what has not started? The worker waits with it meanwhile."""
        self._ints[HANDING_BACK] = 1
        try:
            with self._fence:
                is_over = monotonic() >= self.trusted_until
            yield is_over
        finally:
            self.hands_nothing_back()

    def hands_nothing_back(self) -> None:
        self._ints[HANDING_BACK] = 0

    @property
    def beaten_at(self) -> float:
        """Monotonic: when the stand-in last sent the member's heartbeat; 0: it has not."""
        return self._floats[BEATEN_AT]

    def beaten(self, at: float) -> None:
        self._floats[BEATEN_AT] = at

    @property
    def condemned_at(self) -> float:
        """Monotonic: when the stand-in decided to end this process; 0: it has not."""
        return self._floats[CONDEMNED_AT]

    def condemn(self, now: float) -> None:
        self._floats[CONDEMNED_AT] = now

    def held(self) -> list[Held]:
        end = TABLE + self._ints[HIGHEST] * ENTRY
        return [
            Held(self._ints[at + ID], self._ints[at + TOKEN], self._floats[at + DEADLINE])
            for at in range(TABLE, end, ENTRY)
            if self._ints[at + ID]
        ]


class HasName(Protocol):
    """A member may join anew under another name."""

    member_id: str
    incarnation: int


class PulseThread:
    """Beats while the interpreter is free; it does nothing else, so nothing else can delay it."""

    def __init__(self, pulse: Pulse, member: HasName, config: Config) -> None:
        self._pulse = pulse
        self._member = member
        self._every = look_every(config)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skipper-pulse", daemon=True)

    def start(self) -> None:
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)
        self._pulse.leave()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self._beat()

    def _beat(self) -> None:
        self._pulse.beat(self._member.member_id, self._member.incarnation)


def look_every(config: Config) -> float:
    """Seconds between two beats, and between two looks at them."""
    return min(act_every(config) / 2, SILENT_AFTER_SECONDS) / LOOKS


def act_every(config: Config) -> float:
    """Seconds between two times that heartbeat and leases are renewed."""
    return min(config.cluster_heartbeat_interval, config.lease_duration / RENEWALS_PER_LEASE)


def deadline_after(seconds: float | None, now: float) -> float:
    return inf if seconds is None else now + seconds
