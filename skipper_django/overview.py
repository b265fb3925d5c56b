"""What the cluster looks like now, as one value: for the admin's page, the JSON, the command.

Read from the rows alone, by the workers' own rule and the database's clock; the process that asks
is usually no member.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from . import words
from .core.buckets import BUCKETS, BucketRange
from .core.clock import Clock
from .core.config import Config
from .core.membership import MemberRow, MemberState, View
from .core.reasons import ClusterReason, FetchMode
from .store import cluster
from .store.cluster import MemberReport
from .store.database import Database
from .store.lanes import lanes_in_use

ABSENT = BucketRange(0, 0)
MAX_GONE = 50

_current: dict[tuple[str, str], Callable[[], str | None]] = {}


def set_current_member(config: Config, ask: Callable[[], str | None] | None) -> None:
    """For a worker inside this very process: how to ask for its member id; None when it stops."""
    if ask is None:
        _current.pop((config.database, config.tenant), None)
    else:
        _current[config.database, config.tenant] = ask


def current_member_id(config: Config) -> str | None:
    """The member that runs in this process, if there is one."""
    ask = _current.get((config.database, config.tenant))
    return ask() if ask is not None else None


@dataclass(frozen=True, slots=True)
class LiveMember:
    """A live member, its range, and what it said of itself at its last heartbeat."""

    report: MemberReport
    buckets: BucketRange  # empty while it fetches from the whole queue, or drains
    heartbeat_age: float  # seconds
    is_current: bool

    @property
    def member_id(self) -> str:
        return self.report.row.member_id

    @property
    def share(self) -> float:
        """Percent of the buckets."""
        return len(self.buckets) * 100 / BUCKETS

    @property
    def fetches_whole_queue(self) -> bool:
        return self.report.fetch_mode == FetchMode.WHOLE_QUEUE

    @property
    def is_active(self) -> bool:
        return self.report.row.state is MemberState.ACTIVE


@dataclass(frozen=True, slots=True)
class GoneMember:
    """A row whose member died; one that stopped in good order leaves no row."""

    report: MemberReport
    heartbeat_age: float


@dataclass(frozen=True, slots=True)
class Division:
    """Queues that the same members serve, and the ranges that the rule gives these members."""

    queues: tuple[str, ...]  # empty: there is no queue yet
    ranges: Mapping[str, BucketRange]


@dataclass(frozen=True, slots=True)
class Overview:
    tenant: str
    taken_at: datetime
    members: tuple[LiveMember, ...]  # in the order of the ranges
    gone: tuple[GoneMember, ...]  # the latest first, at most MAX_GONE
    gone_count: int
    divisions: tuple[Division, ...]  # that of the most queues first
    unserved_queues: tuple[str, ...]  # with tasks to run, and no member to run them
    partitioning_active: bool
    reason: str | None  # a ClusterReason, or the FetchReason that all members share
    current: LiveMember | None


def look(config: Config, clock: Clock) -> Overview:
    """Read the rows and divide the buckets as the workers do."""
    database = Database(config.database)
    now = clock.now()
    reports = {report.row.member_id: report for report in cluster.reports(database, config.tenant)}
    view = View.of((report.row for report in reports.values()), now, config.cluster_liveness_window)
    lanes = lanes_in_use(database, config.tenant)
    divisions = divide(view, lanes.values())
    members = _live_members(view, reports, divisions, now, current_member_id(config))
    gone = _gone_members(view, reports, now)
    active, reason = judge(members, registers=config.cluster_membership_manager == "database")
    return Overview(
        tenant=config.tenant,
        taken_at=now,
        members=members,
        gone=gone[:MAX_GONE],
        gone_count=len(gone),
        divisions=divisions,
        unserved_queues=(
            () if reason == ClusterReason.NOT_REGISTERED else _unserved(database, view, lanes, now)
        ),
        partitioning_active=active,
        reason=reason,
        current=next((member for member in members if member.is_current), None),
    )


def divide(view: View, queues_in_use: Iterable[str]) -> tuple[Division, ...]:
    """The queues grouped by who serves them; one group, usually."""
    active = [row for row in view.live if row.state is MemberState.ACTIVE]
    kinds = {row.queues for row in active}
    groups: dict[frozenset[frozenset[str]], list[str]] = {}
    for name in sorted({*queues_in_use, *(name for kind in kinds for name in kind)}):
        serving = frozenset(kind for kind in kinds if not kind or name in kind)
        if serving:
            groups.setdefault(serving, []).append(name)
    if not groups and active:
        return (Division((), view.ranges("")),)
    divisions = [Division(tuple(names), view.ranges(names[0])) for names in groups.values()]
    return tuple(sorted(divisions, key=lambda division: (-len(division.queues), division.queues)))


def judge(members: Sequence[LiveMember], registers: bool) -> tuple[bool, str | None]:
    """Is partitioning active in the cluster, and if not or not everywhere, why?"""
    if not members:
        why = ClusterReason.NO_LIVE_MEMBER if registers else ClusterReason.NOT_REGISTERED
        return False, why
    active = [member for member in members if member.is_active]
    if not active:
        return False, ClusterReason.ALL_DRAINING
    whole = [member for member in active if member.fetches_whole_queue]
    if not whole:
        return True, None
    if len(whole) < len(active):
        return True, ClusterReason.SOME_WHOLE_QUEUE
    reasons = {member.report.reason for member in whole}
    return False, reasons.pop() if len(reasons) == 1 else ClusterReason.SEVERAL_REASONS


def _live_members(
    view: View,
    reports: Mapping[str, MemberReport],
    divisions: Sequence[Division],
    now: datetime,
    current_id: str | None,
) -> tuple[LiveMember, ...]:
    main: dict[str, BucketRange] = {}
    for division in divisions:
        for member_id, buckets in division.ranges.items():
            main.setdefault(member_id, buckets)

    def member(row: MemberRow) -> LiveMember:
        report = reports[row.member_id]
        is_whole = report.fetch_mode == FetchMode.WHOLE_QUEUE
        buckets = ABSENT if is_whole else main.get(row.member_id, ABSENT)
        return LiveMember(report, buckets, _age(row, now), row.member_id == current_id)

    return tuple(member(row) for row in view.live)


def _gone_members(
    view: View, reports: Mapping[str, MemberReport], now: datetime
) -> tuple[GoneMember, ...]:
    latest_first = sorted(view.dead, key=lambda row: row.heartbeat_at, reverse=True)
    return tuple(GoneMember(reports[row.member_id], _age(row, now)) for row in latest_first)


def _age(row: MemberRow, now: datetime) -> float:
    return max(0.0, (now - row.heartbeat_at).total_seconds())


def _unserved(
    database: Database, view: View, lanes: Mapping[int, str], now: datetime
) -> tuple[str, ...]:
    """Queues that no live member serves and that have tasks which could run now."""
    active = {row.queues for row in view.live if row.state is MemberState.ACTIVE}
    nobody = [
        lane
        for lane, name in lanes.items()
        if not any(not queues or name in queues for queues in active)
    ]
    waiting = cluster.lanes_with_ready(database, nobody)
    rest = [lane for lane in nobody if lane not in waiting]
    waiting |= cluster.lanes_with_due(database, rest, now)
    return tuple(sorted(lanes[lane] for lane in waiting))


def as_json(overview: Overview) -> dict[str, Any]:
    """The same as a dict of plain values; names are stable."""
    current = overview.current
    return {
        "cluster_name": overview.tenant,
        "current_member_id": current.member_id if current else None,
        "registered": current is not None,
        "partitioning_active": overview.partitioning_active,
        "reason": overview.reason,
        "reason_text": words.of_cluster_reason(overview.reason) if overview.reason else None,
        "total_buckets": BUCKETS,
        "taken_at": overview.taken_at.isoformat(),
        "members": [_member_json(member) for member in overview.members],
        "divisions": [
            {"queues": list(division.queues), "members": len(division.ranges)}
            for division in overview.divisions
        ],
        "unserved_queues": list(overview.unserved_queues),
        "recently_gone_count": overview.gone_count,
        "recently_gone": [
            {
                **_said(gone.report),
                "heartbeat_age_seconds": round(gone.heartbeat_age, 3),
                "reason_text": str(words.ENDS[gone.report.row.state]),
            }
            for gone in overview.gone
        ],
    }


def _member_json(member: LiveMember) -> dict[str, Any]:
    report = member.report
    return {
        **_said(report),
        "start_bucket_inclusive": member.buckets.start,
        "end_bucket_exclusive": member.buckets.stop,
        "bucket_count": len(member.buckets),
        "share_percent": member.share,
        "current": member.is_current,
        "heartbeat_age_seconds": round(member.heartbeat_age, 3),
        "fetch_mode": report.fetch_mode or None,
        "reason": report.reason or None,
        "reason_text": words.of_fetch_reason(report.reason) if report.reason else None,
        "running": report.running,
        "concurrency": report.concurrency,
    }


def _said(report: MemberReport) -> dict[str, Any]:
    return {
        "member_id": report.row.member_id,
        "state": report.row.state.name.lower(),
        "host": report.host,
        "pid": report.row.pid,
        "started_at": report.started_at.isoformat(),
        "version": report.version,
        "queues": sorted(report.row.queues),
        "counters": {
            "claimed": report.claimed,
            "stolen": report.stolen,
            "lost_races": report.lost_races,
        },
    }
