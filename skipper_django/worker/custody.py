"""What this worker holds: every lease from its claim until its outcome is stored."""

import threading
from collections.abc import Iterable
from math import inf

from ..core.clock import monotonic
from ..store.lease import Lease
from .pulse import Pulse, deadline_after


class Custody:
    """Shared by the loop, which adds and removes, the keeper, which renews, and the slots.

    Whatever it holds stands in the pulse, too, where a stand-in can see it.
    """

    def __init__(self, pulse: Pulse | None = None) -> None:
        self._pulse = pulse or Pulse()
        self._lock = threading.Lock()
        self._leases: dict[int, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def add(self, leases: Iterable[Lease], trusted_until: float) -> None:
        """They may be started until then, monotonic."""
        with self._lock:
            self._pulse.trust(trusted_until)
            for lease in leases:
                lease.trusted_until = trusted_until
                self._leases[lease.id] = lease
                self._pulse.hold(lease)

    def trust(self, until: float) -> bool:
        """What is held will be trusted so long: told before it is renewed. False: not this time."""
        with self._lock:
            return self._pulse.trust(until)

    def began(self, lease: Lease, timeout: float | None) -> None:
        """Before anybody asks whether it may start: a stand-in hands back what has not begun."""
        self._set_deadline(lease, deadline_after(timeout, monotonic()))

    def ended(self, lease: Lease) -> None:
        """It has its outcome: no deadline concerns it any more."""
        self._set_deadline(lease, inf)

    def _set_deadline(self, lease: Lease, deadline: float) -> None:
        with self._lock:
            if self._leases.get(lease.id) is lease:
                self._pulse.begin(lease.id, deadline)

    def holds(self, lease: Lease) -> bool:
        """By identity: the same task claimed again is another lease."""
        return self._leases.get(lease.id) is lease

    def remove(self, lease: Lease) -> bool:
        """Let go of it; False if it was not held any more."""
        with self._lock:
            if self._leases.get(lease.id) is not lease:
                return False
            del self._leases[lease.id]
            self._pulse.drop(lease.id)
            return True

    def snapshot(self) -> list[Lease]:
        with self._lock:
            return list(self._leases.values())


class Patience:
    """How long submitted tasks have been waiting without any of them starting."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._waiting = 0

    def is_over(self, waiting: int) -> bool:
        """Told how many wait now: has nothing started for too long?"""
        if not waiting or waiting != self._waiting or self._since is None:
            self._waiting = waiting
            self._since = monotonic()
            return False
        return monotonic() - self._since > self._seconds
