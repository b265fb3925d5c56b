"""Keep tasks that may be what kills workers apart from each other.

Whoever runs or waits in a process when it dies loses a lease, guilty or not, and the batch is
claimed together again. The third loss is the last, so a process never holds two tasks that have
lost two: the guilty one then takes nobody with it.
"""

from collections.abc import Callable, Sequence

from ..store.lease import Lease
from ..store.upkeep import MAX_LOST_LEASES
from .custody import Custody
from .settle import Settler


class Quarantine:
    """Lets leases start; of suspects one at a time, the others go back at once."""

    def __init__(self, custody: Custody, settler: Settler, submit: Callable[[Lease], None]) -> None:
        self._custody = custody
        self._settler = settler
        self._submit = submit
        self._suspect: Lease | None = None
        self._crowded = False

    def room(self, room: int) -> int:
        """How many to claim of that many: one by one while there are several suspects about."""
        if not self._crowded:
            return room
        return 0 if self._has_suspect() else min(room, 1)

    def start(self, leases: Sequence[Lease]) -> int:
        """Hand over those that may start here; how many."""
        suspects = [lease for lease in leases if lease.lost_leases >= MAX_LOST_LEASES - 1]
        surplus = suspects if self._has_suspect() else suspects[1:]
        started = [lease for lease in leases if lease not in surplus]
        if suspects and not self._has_suspect():
            self._suspect = suspects[0]
        if leases:
            self._crowded = bool(surplus) or (self._crowded and bool(suspects))
        try:
            if surplus:
                # Stored before the suspect starts: it may end the process at its first step.
                self._settler.hand_back(surplus)
                self._settler.settle()
        finally:
            for lease in started:
                self._submit(lease)
        return len(started)

    def _has_suspect(self) -> bool:
        return self._suspect is not None and self._custody.holds(self._suspect)
