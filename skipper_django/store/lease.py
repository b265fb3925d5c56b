"""A lease, as a row holds it and as a worker does."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .database import Database

# What a worker needs to know of a task to run it.
PLAIN = (
    "id", "task_id", "name", "queue_name", "backend", "priority", "args", "kwargs", "attempts",
    "lost_leases", "worker_ids", "errors",
)  # fmt: skip
MOMENTS = ("run_after", "enqueued_at", "started_at")


def payload(database: Database) -> str:
    """The columns that lease_of() takes, for a SELECT."""
    return ", ".join([*PLAIN, *map(database.dialect.moment, MOMENTS)])


@dataclass(slots=True)
class Lease:
    """The right to run one task until `lease_expires_at`; every write back proves the token."""

    id: int
    task_id: str
    name: str
    queue_name: str
    backend: str
    priority: int
    # Not in the repr, which reports of errors show.
    args: str = field(repr=False)
    kwargs: str = field(repr=False)
    attempts: int  # claims that counted, this one included
    lost_leases: int
    worker_ids: str  # one a line, this one the last
    errors: str | None = field(repr=False)
    run_after: datetime  # due since
    enqueued_at: datetime
    started_at: datetime
    token: int
    last_attempted_at: datetime
    # Monotonic: past it a worker that was stopped must not start the task any more.
    trusted_until: float = float("inf")
    begun: float = 0.0  # monotonic; 0: it has not started
    seconds: float = 0.0  # how long it ran

    @property
    def policy_attempt(self) -> int:
        """The number of this attempt for the retry policy: lost leases are not its business."""
        return self.attempts - self.lost_leases


def lease_of(database: Database, row: Sequence[Any], token: int, now: datetime) -> Lease:
    """The lease of a row of payload() that was claimed at `now`."""
    *values, run_after, enqueued_at, started_at = row
    from_db = database.dialect.from_db
    # MySQL reads its zero dates as NULL.
    moments = (from_db(moment) or now for moment in (run_after, enqueued_at, started_at))
    values += [*moments, token, now]
    return Lease(*values)
