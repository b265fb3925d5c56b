"""Rows of the cluster: join, beat, leave, and who is there."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ..core.buckets import BUCKETS
from ..core.membership import MemberRow, MemberState
from ..models import Member
from .database import Database

# Rows of dead members stay visible for so long.
KEEP_DEAD = timedelta(hours=6)

# Of a heartbeat that is no moment.
NEVER = datetime(1970, 1, 1, tzinfo=UTC)

READ = (
    "member_id",
    "incarnation",
    "state",
    "heartbeat_at",
    "queues",
    "host_key",
    "pid",
    "process_started",
)


@dataclass(frozen=True, slots=True)
class NewMember:
    """What a process says of itself when it joins."""

    tenant: str
    member_id: str
    incarnation: int
    host: str
    host_key: str
    pid: int
    process_started: str
    queues: tuple[str, ...]
    concurrency: int
    version: str

    def columns(self, database: Database, now: datetime) -> dict[str, Any]:
        moment = database.to_db(now)
        return {
            "tenant": self.tenant,
            "member_id": self.member_id,
            "incarnation": self.incarnation,
            "host": self.host,
            "host_key": self.host_key,
            "pid": self.pid,
            "process_started": self.process_started,
            "queues": "\n".join(self.queues),
            "concurrency": self.concurrency,
            "version": self.version,
            "state": MemberState.ACTIVE.value,
            "started_at": moment,
            "heartbeat_at": moment,
            "fetch_mode": "",
            "reason": "",
            "range_start": 0,
            "range_stop": 0,
            **dict.fromkeys(COUNTERS, 0),
        }


COUNTERS = (
    "running",
    "claimed",
    "stolen",
    "lost_races",
    "partitioned_fetches",
    "whole_queue_fetches",
)


def _table(database: Database) -> str:
    return database.connection.ops.quote_name(Member._meta.db_table)


def add(database: Database, member: NewMember, now: datetime) -> bool:
    """Insert the row; False if there is one of that name."""
    columns = member.columns(database, now)
    marks = ", ".join(["%s"] * len(columns))
    database.execute(
        f"INSERT INTO {_table(database)} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
        f"{database.dialect.ignore_duplicates}",
        list(columns.values()),
    )
    row = find(database, member.tenant, member.member_id)
    return row is not None and row.incarnation == member.incarnation


def take_over(database: Database, member: NewMember, dead: int, now: datetime) -> bool:
    """Take the row of the incarnation `dead`; False if somebody else was faster."""
    columns = member.columns(database, now)
    setters = ", ".join(f"{name} = %s" for name in columns)
    matched = database.execute(
        f"UPDATE {_table(database)} SET {setters} "  # noqa: S608
        "WHERE tenant = %s AND member_id = %s AND incarnation = %s",
        [*columns.values(), member.tenant, member.member_id, dead],
    )
    return matched == 1


def beat(
    database: Database,
    tenant: str,
    member_id: str,
    incarnation: int,
    values: Mapping[str, Any],
    now: datetime,
) -> bool:
    """Say that this incarnation lives, and what it does; False if its row is gone or another's."""
    setters = "".join(f", {name} = %s" for name in values)
    matched = database.execute(
        f"UPDATE {_table(database)} SET heartbeat_at = %s{setters} "  # noqa: S608
        "WHERE tenant = %s AND member_id = %s AND incarnation = %s",
        [database.to_db(now), *values.values(), tenant, member_id, incarnation],
    )
    return matched == 1


def leave(database: Database, tenant: str, member_id: str, incarnation: int) -> None:
    database.execute(
        f"DELETE FROM {_table(database)} "  # noqa: S608
        "WHERE tenant = %s AND member_id = %s AND incarnation = %s",
        [tenant, member_id, incarnation],
    )


def mark_dead(database: Database, tenant: str, member_id: str, incarnation: int) -> bool:
    """For whoever knows it for certain; the row stays visible. False if it is gone or marked."""
    dead = MemberState.DEAD.value
    matched = database.execute(
        f"UPDATE {_table(database)} SET state = {dead} "  # noqa: S608
        f"WHERE tenant = %s AND member_id = %s AND incarnation = %s AND state <> {dead}",
        [tenant, member_id, incarnation],
    )
    return matched == 1


def find(database: Database, tenant: str, member_id: str) -> MemberRow | None:
    rows = database.rows(
        f"SELECT {readable(database, READ)} FROM {_table(database)} "  # noqa: S608
        "WHERE tenant = %s AND member_id = %s",
        [tenant, member_id],
    )
    return _row(database, rows[0]) if rows else None


def describe(database: Database, tenant: str, member_id: str) -> str:
    """The process that holds a name, in words."""
    rows = database.rows(
        f"SELECT {readable(database, ('host', 'pid', 'started_at'))} FROM {_table(database)} "  # noqa: S608
        "WHERE tenant = %s AND member_id = %s",
        [tenant, member_id],
    )
    if not rows:
        return "a process that has just left"
    host, pid, started_at = rows[0]
    started = database.dialect.from_db(started_at) or NEVER
    return f"process {pid} on host {host}, started at {started:%Y-%m-%d %H:%M:%S} UTC"


def all_of(database: Database, tenant: str) -> list[MemberRow]:
    """Every row of the tenant, live or not."""
    rows = database.rows(
        f"SELECT {readable(database, READ)} FROM {_table(database)} WHERE tenant = %s",  # noqa: S608
        [tenant],
    )
    return [_row(database, row) for row in rows]


def all_of_all(database: Database) -> list[MemberRow]:
    """Every row of every tenant."""
    columns = readable(database, READ)
    rows = database.rows(f"SELECT {columns} FROM {_table(database)}")  # noqa: S608
    return [_row(database, row) for row in rows]


def orphans(database: Database, tenant: str, now: datetime) -> list[str]:
    """The ids of members that prune() would delete, had anybody called it for an hour."""
    rows = database.rows(
        f"SELECT member_id FROM {_table(database)} "  # noqa: S608
        "WHERE tenant = %s AND heartbeat_at < %s ORDER BY member_id",
        [tenant, database.to_db(now - KEEP_DEAD - timedelta(hours=1))],
    )
    return [member_id for (member_id,) in rows]


def nonsense(database: Database, tenant: str) -> Iterator[tuple[str, str]]:
    """Members whose rows hold what no member writes: the id, and what it is."""
    rows = database.rows(
        f"SELECT member_id, state, range_start, range_stop, "  # noqa: S608
        f"CASE WHEN {database.dialect.is_moment('heartbeat_at')} THEN 1 ELSE 0 END "
        f"FROM {_table(database)} WHERE tenant = %s",
        [tenant],
    )
    states = set(MemberState)
    for member_id, state, start, stop, has_heartbeat in rows:
        if state not in states:
            yield member_id, f"the state {state}"
        if not 0 <= start <= stop <= BUCKETS:
            yield member_id, f"the range [{start}, {stop})"
        if not has_heartbeat:
            yield member_id, "a heartbeat that is no moment"


def prune(database: Database, tenant: str, now: datetime) -> int:
    """Delete the rows of members that have been dead for hours; how many."""
    return database.execute(
        f"DELETE FROM {_table(database)} WHERE tenant = %s AND heartbeat_at < %s",  # noqa: S608
        [tenant, database.to_db(now - KEEP_DEAD)],
    )


def _row(database: Database, values: tuple[Any, ...]) -> MemberRow:
    member_id, incarnation, state, heartbeat_at, queues, host_key, pid, started = values
    moment = database.dialect.from_db(heartbeat_at) or NEVER
    names = frozenset(queues.split("\n")) if queues else frozenset()
    return MemberRow(member_id, incarnation, state_of(state), moment, names, host_key, pid, started)


def state_of(value: Any) -> MemberState:
    """Of a number that no state has, as somebody wrote it: the heartbeat says whether it lives."""
    try:
        return MemberState(value)
    except ValueError:
        return MemberState.ACTIVE


def readable(database: Database, columns: Iterable[str]) -> str:
    """The columns for a SELECT, moments that are none as NULL: one row must not hide the others."""
    return ", ".join(
        f"CASE WHEN {database.dialect.is_moment(name)} THEN {name} END"
        if name in ("heartbeat_at", "started_at")
        else name
        for name in columns
    )
