"""What this worker holds: every lease from its claim until its outcome is stored."""

import threading
from collections.abc import Iterable

from ..core.clock import monotonic
from ..store.claim import Lease


class Custody:
    """Shared by the loop, which adds and removes, and the keeper, which renews."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: dict[int, Lease] = {}
        self._oldest = 0.0

    def __len__(self) -> int:
        return len(self._leases)

    def add(self, leases: Iterable[Lease]) -> None:
        with self._lock:
            self._leases.update((lease.id, lease) for lease in leases)

    def holds(self, lease: Lease) -> bool:
        """By identity: the same task claimed again is another lease."""
        return self._leases.get(lease.id) is lease

    def remove(self, lease: Lease) -> bool:
        """Let go of it; False if it was not held any more."""
        with self._lock:
            if self._leases.get(lease.id) is not lease:
                return False
            del self._leases[lease.id]
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
