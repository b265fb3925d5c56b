"""What ails the queue of one database, in words, and the repair of what can be repaired.

Reads settings, schema, members and every row of the table; writes only where told to, and never a
task that is being run under a live lease. Nothing is deleted but rows of members long dead.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.core import checks
from django.db import Error, IntegrityError

from .core.clock import Clock
from .core.config import Config
from .core.diagnosis import FUTURE, Diagnosis, Present, StoredRow, diagnose
from .core.membership import View
from .core.states import TaskState
from .janitor import prune_every
from .overview import look
from .store import members, repair, schema
from .store.clock import host_skew
from .store.database import Database

MAX_SKEW_SECONDS = 5.0
LATE_SECONDS = 60.0  # after the end of its lease a task is reclaimed within seconds
MAX_LISTED = 1_000
ERROR, WARNING = "error", "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: what, how bad, and what to do. `repaired`: nothing any more."""

    code: str
    level: str
    text: str
    remedy: str
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class BadTask:
    """A row of nonsense. `action` is one of "found", "repaired", "parked", "running", "moved"."""

    task_id: str
    id: int
    faults: tuple[str, ...]
    action: str
    reason: str | None = None


@dataclass(slots=True)
class Report:
    database: str
    findings: list[Finding] = field(default_factory=list)
    tasks: list[BadTask] = field(default_factory=list)  # the first MAX_LISTED
    rows: int = 0
    counts: dict[str, int] = field(default_factory=dict)  # bad rows by action

    @property
    def is_healthy(self) -> bool:
        """Is nothing left to be done? Warnings do not count."""
        left = sum(self.counts.get(action, 0) for action in ("found", "running", "moved"))
        return not left and not any(
            finding.level == ERROR and not finding.repaired for finding in self.findings
        )

    def add(self, code: str, level: str, text: str, remedy: str, repaired: bool = False) -> None:
        self.findings.append(Finding(code, level, text, remedy, repaired))


def examine(config: Config, clock: Clock, repairs: bool = False) -> Report:
    """Look at everything; with `repairs`, correct what can be. Raises Error without a database."""
    report = Report(config.database)
    _check_settings(report)
    database = Database(config.database)
    database.rows("SELECT 1")
    missing = schema.missing_tables(database)
    migrate = f"Run: manage.py migrate --database={config.database}"
    if missing:
        report.add("no_table", ERROR, f"There is no table {', '.join(missing)}.", migrate)
        return report
    if pending := schema.pending_migrations(database):
        text = f"Migrations have not been run: {', '.join(pending)}."
        report.add("migrations_pending", ERROR, text, migrate)
    for difference in schema.differences(database):
        remedy = "Make it as the migrations do: manage.py sqlmigrate skipper_django 0001 shows it."
        report.add("schema", ERROR, f"{difference[0].upper()}{difference[1:]}.", remedy)
    if report.is_healthy or not _lacks_columns(report):
        check_rows(database, config, clock, repairs, report)
        _check_clock(config, report)
        _check_members(database, config, clock, repairs, report)
        _check_cluster(config, clock, report)
    return report


def _lacks_columns(report: Report) -> bool:
    return any("has no column" in finding.text for finding in report.findings)


def _check_settings(report: Report) -> None:
    """The system checks, those that ask the server included."""
    for message in checks.run_checks(databases=[report.database]):
        if str(message.id).startswith("skipper.") and not message.is_silenced():
            level = ERROR if message.is_serious() else WARNING
            report.add(str(message.id), level, str(message.msg), str(message.hint or ""))


def _check_clock(config: Config, report: Report) -> None:
    skew = host_skew(config.database)
    if abs(skew) > MAX_SKEW_SECONDS:
        way = "ahead of" if skew > 0 else "behind"
        report.add(
            "clock_skew",
            WARNING,
            f"The clock of this host is {abs(skew):.0f} s {way} the database's.",
            "Only the database's clock counts, so nothing is lost; set this host's clock by NTP "
            "all the same: its logs, and run_after values that your code computes, are off.",
        )


# Rows


def check_rows(
    database: Database, config: Config, clock: Clock, repairs: bool, report: Report
) -> None:
    expired = _Tally("expired_lease", lambda row, now: _is_expired(row, now))
    unpruned = _Tally("prune_lag", lambda row, now: _is_unpruned(row, config, now))
    for batch in repair.walk(database):
        present = _present(database, config, clock.now())
        for row in batch:
            report.rows += 1
            expired.look(row, present.now)
            unpruned.look(row, present.now)
            diagnosis = diagnose(row, present)
            if diagnosis.faults:
                _treat(database, diagnosis, repairs, report)
    if expired.count:
        text = f"{expired.count} running tasks have lost their worker, {expired.age_text}."
        remedy = "A live worker of their queue reclaims them within seconds: start one."
        report.add(expired.code, ERROR, text, remedy)
    if unpruned.count:
        text = f"{unpruned.count} finished tasks are past their retention, {unpruned.age_text}."
        remedy = "Every worker prunes once an hour or more often: start one, or see its log."
        report.add(unpruned.code, WARNING, text, remedy)


@dataclass(slots=True)
class _Tally:
    """How many rows are late for something, and for how long the latest of them."""

    code: str
    lateness: Callable[[StoredRow, datetime], float]  # seconds; 0: not late
    count: int = 0
    longest: float = 0.0

    def look(self, row: StoredRow, now: datetime) -> None:
        seconds = self.lateness(row, now)
        if seconds > 0:
            self.count += 1
            self.longest = max(self.longest, seconds)

    @property
    def age_text(self) -> str:
        return f"the first of them {self.longest / 60:.0f} minutes ago"


def _is_expired(row: StoredRow, now: datetime) -> float:
    expires = row["lease_expires_at"]
    if row["status"] != TaskState.RUNNING or expires is None:
        return 0.0
    seconds = (now - expires).total_seconds()
    return seconds if seconds > LATE_SECONDS else 0.0


def _is_unpruned(row: StoredRow, config: Config, now: datetime) -> float:
    finished, status = row["finished_at"], row["status"]
    if row["tenant"] != config.tenant or finished is None:
        return 0.0
    if status not in (TaskState.SUCCESSFUL, TaskState.FAILED, TaskState.CANCELLED):
        return 0.0
    kept = config.failed_retention if status == TaskState.FAILED else config.retention
    seconds = (now - finished).total_seconds() - kept
    return seconds if seconds > 2 * prune_every(config) else 0.0


def _present(database: Database, config: Config, now: datetime) -> Present:
    """Asked anew for each batch: workers come and go while the table is walked."""
    rows = members.all_of_all(database)
    live = View.of(rows, now, config.cluster_liveness_window).live
    longest = timedelta(seconds=10 * config.lease_duration) + FUTURE
    return Present(now, now + longest, frozenset(row.incarnation for row in live))


def _treat(database: Database, diagnosis: Diagnosis, repairs: bool, report: Report) -> None:
    if not diagnosis.changes:
        action = "running"
    else:
        action = _apply(database, diagnosis) if repairs else "found"
    report.counts[action] = report.counts.get(action, 0) + 1
    if len(report.tasks) < MAX_LISTED:
        row, reason = diagnosis.row, diagnosis.parked
        report.tasks.append(
            BadTask(str(row["task_id"]), row.id, tuple(diagnosis.faults), action, reason)
        )


def _apply(database: Database, diagnosis: Diagnosis) -> str:
    try:
        done = repair.correct(database, diagnosis.row, diagnosis.changes)
    except IntegrityError:  # two rows would have one id
        done = False
    if not done:
        return "moved"
    return "parked" if diagnosis.parked else "repaired"


# Members


def _check_members(
    database: Database, config: Config, clock: Clock, repairs: bool, report: Report
) -> None:
    now = clock.now()
    orphans = members.orphans(database, config.tenant, now)
    if orphans:
        if repairs:
            members.prune(database, config.tenant, now)
        report.add(
            "orphan_members",
            WARNING,
            f"{len(orphans)} members have been dead for hours, and nobody has deleted their rows: "
            f"{', '.join(orphans[:10])}{', ...' if len(orphans) > 10 else ''}.",
            "A live worker deletes them within a minute; --repair does, too.",
            repaired=repairs,
        )
    for name, fault in members.nonsense(database, config.tenant):
        report.add(
            "bad_member",
            WARNING,
            f"The row of member {name} has {fault}.",
            "It is corrected by the member's next heartbeat, if it lives, else deleted in time.",
        )


def _check_cluster(config: Config, clock: Clock, report: Report) -> None:
    try:
        overview = look(config, clock)
    except Error as error:
        report.add("cluster", ERROR, f"The cluster cannot be read: {error}", "See the text.")
        return
    if overview.unserved_queues:
        report.add(
            "unserved_queues",
            ERROR,
            f"Tasks wait in queues that no live worker serves: "
            f"{', '.join(overview.unserved_queues[:20])}.",
            "Start one: manage.py skipper_worker",
        )
