"""What is wrong with the row of a task, and what may be done about it: rules, no statement.

What can be computed again is repaired. What cannot be run as it stands is parked: FAILED with a
reason, its text kept. A task under a live lease is only reported, never touched.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from .buckets import bucket_of, lane_of, slot_of
from .errors import BadArguments, BadRow
from .outcome import describe_error, load_errors
from .payload import load_arguments
from .reasons import FailReason
from .states import TaskState
from .text import shown
from .tokens import incarnation_of

MAX_PRIORITY = 100  # that of the Tasks framework, either way
# A moment later than this cannot have happened yet, whatever the clocks say.
FUTURE = timedelta(hours=1)
TEXTS = ("task_id", "tenant", "queue_name", "name", "backend")


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row as it was read.

    `unreadable` names the moments that hold something, but no moment; `undecodable` the texts that
    are no UTF-8, read with escapes in place of the bytes that are wrong.
    """

    id: int
    columns: Mapping[str, Any]
    unreadable: frozenset[str] = frozenset()
    undecodable: frozenset[str] = frozenset()

    def __getitem__(self, column: str) -> Any:
        return self.columns[column]


@dataclass(slots=True)
class Diagnosis:
    """`faults` in words; `changes` are columns to write, none for a row that must be left alone."""

    row: StoredRow
    faults: list[str] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)
    parked: FailReason | None = None

    def repair(self, fault: str, column: str, value: Any) -> None:
        self.faults.append(fault)
        self.changes[column] = value

    def park(self, fault: str, reason: FailReason) -> None:
        self.faults.append(fault)
        self.parked = self.parked or reason


@dataclass(frozen=True, slots=True)
class Present:
    """What a row is judged by: the database's time, and who lives.

    A lease that ends after `latest_lease` is none that a worker takes, unless a live incarnation
    holds it, whose settings may differ.
    """

    now: datetime
    latest_lease: datetime
    incarnations: frozenset[int] = frozenset()


def diagnose(row: StoredRow, present: Present) -> Diagnosis:
    """Everything that is wrong with one row, and the columns that make it right."""
    diagnosis = Diagnosis(row)
    for rule in RULES:
        rule(row, diagnosis, present)
    if diagnosis.parked is not None:
        _park(row, diagnosis, present.now)
    if is_held(row, present):
        diagnosis.changes.clear()
    return diagnosis


def condemn(row: StoredRow, fault: str, now: datetime) -> Diagnosis:
    """Park a row that its very claim has failed at, whoever holds it, and mend what can be."""
    diagnosis = Diagnosis(row)
    diagnosis.park(fault, FailReason.BAD_ROW)
    for rule in RULES:
        rule(row, diagnosis, Present(now, now))
    _park(row, diagnosis, now)
    return diagnosis


def is_held(row: StoredRow, present: Present) -> bool:
    """Is the task being run under a live lease?"""
    token, expires = row["lease_token"], row["lease_expires_at"]
    if row["status"] != TaskState.RUNNING or not _is_int(token) or expires is None:
        return False
    if incarnation_of(token) in present.incarnations:
        return bool(expires > present.now)
    return bool(present.now < expires <= present.latest_lease)


def _park(row: StoredRow, diagnosis: Diagnosis, now: datetime) -> None:
    error = BadRow("; ".join(diagnosis.faults))
    attempt = row["attempts"] if _is_int(row["attempts"]) else 0
    errors = [*_kept_errors(row), describe_error(error, attempt)]
    diagnosis.changes |= {
        "status": TaskState.FAILED.value,
        "reason": (diagnosis.parked or FailReason.BAD_ROW).value,
        "ord": 0,
        "lease_expires_at": None,
        "lease_token": None,
        "finished_at": row["finished_at"] or now,
        "errors": json.dumps(errors, ensure_ascii=False),
    }
    # A row that nobody can compute the place of: unrunnable anyway, and never looked for by it.
    if row["run_after"] is None:
        diagnosis.changes.setdefault("run_after", row["enqueued_at"] or now)


def _state(row: StoredRow, diagnosis: Diagnosis, present: Present) -> None:
    if _state_of(row) is None:
        diagnosis.park(f"its status is {shown(row['status'])}", FailReason.BAD_ROW)


def _identity(row: StoredRow, diagnosis: Diagnosis, present: Present) -> None:
    for column in sorted(row.undecodable):
        diagnosis.repair(f"its {column} is bytes, or no UTF-8", column, row[column])
    wrong = [column for column in TEXTS if not isinstance(row[column], str)]
    if wrong:
        diagnosis.park(f"{', '.join(wrong)}: no text", FailReason.BAD_ROW)


def _place(row: StoredRow, diagnosis: Diagnosis, present: Present) -> None:
    """Lane, bucket and slot: where in the hot index the workers look for it."""
    if not all(isinstance(row[column], str) for column in TEXTS):
        return
    bucket = bucket_of(row["task_id"])
    lane = lane_of(row["tenant"], row["queue_name"])
    for column, right in (("lane", lane), ("bucket", bucket), ("slot", slot_of(bucket))):
        if row[column] != right:
            fault = f"its {column} is {shown(row[column])} and must be {right}"
            diagnosis.repair(fault, column, right)


def _order(row: StoredRow, diagnosis: Diagnosis, present: Present) -> None:
    state, priority = _state_of(row), row["priority"]
    if not _is_int(priority) or not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        nearest = max(-MAX_PRIORITY, min(MAX_PRIORITY, priority)) if _is_int(priority) else 0
        diagnosis.repair(f"its priority is {shown(priority)}", "priority", nearest)
        priority = nearest
    right = -priority if state is TaskState.READY else 0
    if row["ord"] != right:
        diagnosis.repair(f"its ord is {shown(row['ord'])} and must be {right}", "ord", right)


def _counts(row: StoredRow, diagnosis: Diagnosis, present: Present) -> None:
    attempts, lost = row["attempts"], row["lost_leases"]
    if not _is_int(attempts) or attempts < 0:
        diagnosis.repair(f"its attempts are {shown(attempts)}", "attempts", 0)
        attempts = 0
    if not _is_int(lost) or not 0 <= lost <= attempts:
        nearest = max(0, min(lost, attempts)) if _is_int(lost) else 0
        diagnosis.repair(f"its lost leases are {shown(lost)}", "lost_leases", nearest)


def _moments(row: StoredRow, diagnosis: Diagnosis, present: Present) -> None:
    now = present.now
    for column in ("started_at", "last_attempted_at"):
        if column in row.unreadable:
            diagnosis.repair(f"its {column} is no moment", column, None)
    enqueued = row["enqueued_at"]
    if enqueued is None or enqueued > now + FUTURE:
        # Pruning ends at the first row that seems to be from later.
        diagnosis.repair(f"its enqueued_at is {_told(row, 'enqueued_at')}", "enqueued_at", now)
        enqueued = now
    if row["run_after"] is None:
        fault = f"its run_after is {_told(row, 'run_after')}"
        if _state_of(row) is TaskState.SCHEDULED:
            # Perhaps it was meant never to run: nobody but its author can say when it is due.
            diagnosis.park(fault, FailReason.BAD_ROW)
        else:
            diagnosis.repair(fault, "run_after", min(enqueued, now))


def _finish(row: StoredRow, diagnosis: Diagnosis, present: Present) -> None:
    state, finished, now = _state_of(row), row["finished_at"], present.now
    if state is None:
        return
    if state.is_final and (finished is None or finished > now + FUTURE):
        fault = f"it has ended, and its finished_at is {_told(row, 'finished_at')}"
        diagnosis.repair(fault, "finished_at", now)
    elif not state.is_final and (finished is not None or "finished_at" in row.unreadable):
        diagnosis.repair("it has a finished_at, but has not ended", "finished_at", None)


def _lease(row: StoredRow, diagnosis: Diagnosis, present: Present) -> None:
    expires, now = row["lease_expires_at"], present.now
    is_running = row["status"] == TaskState.RUNNING
    if not is_running:
        if expires is not None or "lease_expires_at" in row.unreadable:
            diagnosis.repair("it has a lease, but does not run", "lease_expires_at", None)
        return
    if expires is None:
        fault = f"it runs, and the end of its lease is {_told(row, 'lease_expires_at')}"
        diagnosis.repair(fault, "lease_expires_at", now)
    elif not _is_int(row["lease_token"]) and expires > now:
        # Nobody can prove to hold it: it ends now, and the workers reclaim it by their own rule.
        diagnosis.repair("it runs without a lease token", "lease_expires_at", now)
    elif expires > present.latest_lease and not is_held(row, present):
        fault = f"nobody that lives holds its lease, which ends on {expires:%Y-%m-%d}"
        diagnosis.repair(fault, "lease_expires_at", now)


def _arguments(row: StoredRow, diagnosis: Diagnosis, present: Present) -> None:
    state = _state_of(row)
    if state is None or state.is_final:
        return  # it is not called any more
    try:
        load_arguments(row["args"], row["kwargs"])
    except BadArguments as error:
        diagnosis.park(str(error), FailReason.BAD_ARGUMENTS)


def _result(row: StoredRow, diagnosis: Diagnosis, present: Present) -> None:
    result = row["result"]
    if _state_of(row) is TaskState.SUCCESSFUL and result is not None and not _is_json(result):
        diagnosis.park("its result is not JSON", FailReason.BAD_RESULT)


def _errors(row: StoredRow, diagnosis: Diagnosis, present: Present) -> None:
    if not _has_sound_errors(row):
        kept = json.dumps(_kept_errors(row), ensure_ascii=False)
        diagnosis.repair("its errors are not a JSON list of objects", "errors", kept)


def _reason(row: StoredRow, diagnosis: Diagnosis, present: Present) -> None:
    state, reason = _state_of(row), row["reason"]
    if state is TaskState.FAILED and reason not in set(FailReason):
        diagnosis.park(f"it has failed for the reason {shown(reason)}", FailReason.BAD_ROW)
    elif state not in (TaskState.FAILED, None) and reason is not None:
        fault = f"it has a reason, {shown(reason)}, but has not failed"
        diagnosis.repair(fault, "reason", None)


RULES: tuple[Callable[[StoredRow, Diagnosis, Present], None], ...] = (
    _state, _identity, _place, _order, _counts, _moments, _finish, _lease, _arguments, _result,
    _errors, _reason,
)  # fmt: skip


def _state_of(row: StoredRow) -> TaskState | None:
    try:
        return TaskState(row["status"])
    except ValueError:
        return None


def _told(row: StoredRow, column: str) -> str:
    if row[column] is not None:
        return f"{row[column]:%Y-%m-%d %H:%M:%S} UTC, which is to come"
    return "no moment" if column in row.unreadable else "NULL"


def _kept_errors(row: StoredRow) -> list[dict[str, Any]]:
    """The stored errors; a text that is none of ours becomes one, in full."""
    if _has_sound_errors(row):
        return load_errors(row["errors"])
    entry = describe_error(BadRow("these errors were not a JSON list of objects"), 0)
    text = row["errors"]
    return [{**entry, "traceback": text if isinstance(text, str) else repr(text)}]


def _has_sound_errors(row: StoredRow) -> bool:
    text = row["errors"]
    if text is None:
        return True
    if not isinstance(text, str) or not _is_json(text):
        return False
    errors = json.loads(text)
    return isinstance(errors, list) and all(isinstance(error, dict) for error in errors)


def _is_json(text: Any) -> bool:
    try:
        json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return False
    return isinstance(text, str)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
