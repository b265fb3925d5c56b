"""The seam for metrics: what a worker does, told to whoever listens; by default nobody."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Protocol

from .buckets import BucketRange
from .outcome import Outcome
from .reasons import FetchMode, FetchReason


class RunTask(Protocol):
    """What may be told of a task: never its id."""

    name: str
    queue_name: str
    run_after: datetime
    begun: float  # monotonic; 0: it has not started
    seconds: float


_NOTHING = nullcontext()


class Telemetry:
    """Hears nothing. Methods are called on the hot path: they must neither raise nor wait.

    Counts come by the batch, so that listening costs little, too.
    """

    def started(self, member_id: str, slots: int) -> None:
        """The worker has joined, perhaps anew under another name, and runs so many at once."""

    def fetched(self, mode: FetchMode, reason: FetchReason | None, buckets: BucketRange) -> None:
        """The next fetch looks at this range; the empty one while it is the whole queue."""

    def claiming(self) -> AbstractContextManager[None]:
        """Around one look for tasks and the claim of what it found."""
        return _NOTHING

    def claimed(self, leases: Sequence[RunTask], chosen: int, stolen: bool = False) -> None:
        """Of so many chosen tasks, these were not taken by others first."""

    def held(self, count: int) -> None:
        """So many tasks are RUNNING here."""

    def settled(
        self,
        settlements: Sequence[tuple[RunTask, Outcome]],
        lost: Sequence[tuple[RunTask, Outcome]],
        seconds: float,
        now: datetime,
    ) -> None:
        """A batch of outcomes was stored, but those whose lease had been lost."""

    def lease_lost(self, lease: RunTask) -> None:
        """The outcome of this task will be, or was, discarded."""

    def renewed(self, count: int) -> None: ...

    def promoted(self, count: int) -> None: ...

    def reclaimed(self, count: int) -> None: ...

    def pruned(self, count: int) -> None: ...

    def beaten(self, seconds: float) -> None:
        """A heartbeat was written."""

    def viewed(self, live: int, has_range: bool, seconds: float) -> None:
        """The members were read: so many live, this one with a claim to a range among them."""

    def unavailable(self, activity: str, first: bool) -> None:
        """The database did not answer; `first`: it had done so the time before."""

    def contended(self, database: str) -> None:
        """A statement is tried again because others held its rows, or SQLite's one lock."""


SILENT = Telemetry()
