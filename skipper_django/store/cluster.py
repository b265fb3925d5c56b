"""What the cluster's page and command show: bounded statements that never scan the tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..core.buckets import SLOTS
from ..core.membership import MemberRow
from ..models import Member
from .database import Database
from .members import NEVER, readable, state_of

LANES_A_STATEMENT = 200
# A lane without READY tasks may hold due ones that nobody promotes: one seek a slot, so few lanes.
MAX_LANES_SEARCHED_FOR_DUE = 20

_KEY = (
    "member_id",
    "incarnation",
    "state",
    "heartbeat_at",
    "queues",
    "host_key",
    "pid",
    "process_started",
)
_SAID = (
    "host",
    "started_at",
    "version",
    "concurrency",
    "fetch_mode",
    "reason",
    "running",
    "claimed",
    "stolen",
    "lost_races",
)


@dataclass(frozen=True, slots=True)
class MemberReport:
    """One row of the cluster, with all that the member said of itself at its last heartbeat."""

    row: MemberRow
    host: str
    started_at: datetime
    version: str
    concurrency: int
    fetch_mode: str
    reason: str
    running: int
    claimed: int
    stolen: int
    lost_races: int


def reports(database: Database, tenant: str) -> list[MemberReport]:
    """Every row of the tenant, live or not, in one statement."""
    table = database.connection.ops.quote_name(Member._meta.db_table)
    rows = database.rows(
        f"SELECT {readable(database, (*_KEY, *_SAID))} FROM {table} WHERE tenant = %s",  # noqa: S608
        [tenant],
    )
    return [_report(database, row[: len(_KEY)], row[len(_KEY) :]) for row in rows]


def _report(database: Database, key: Sequence[Any], said: Sequence[Any]) -> MemberReport:
    from_db = database.dialect.from_db
    member_id, incarnation, state, heartbeat_at, queues, *process = key
    host, started_at, *rest = said
    beaten, started = from_db(heartbeat_at) or NEVER, from_db(started_at) or NEVER
    names = frozenset(queues.split("\n")) if queues else frozenset()
    row = MemberRow(member_id, incarnation, state_of(state), beaten, names, *process)
    return MemberReport(row, host, started, *rest)


def lanes_with_ready(database: Database, lanes: Sequence[int]) -> set[int]:
    """Which of the lanes have READY tasks: one seek a lane."""
    found: set[int] = set()
    for start in range(0, len(lanes), LANES_A_STATEMENT):
        # The ORDER BY names the whole index: without it PostgreSQL may walk finished rows.
        union = " UNION ALL ".join(
            f"SELECT * FROM (SELECT lane FROM {database.tasks} WHERE lane = {lane} "  # noqa: S608
            f"AND status = 1 ORDER BY slot, ord, run_after, id LIMIT 1) AS q{lane}"
            for lane in lanes[start : start + LANES_A_STATEMENT]
        )
        found.update(lane for (lane,) in database.rows(union))
    return found


def lanes_with_due(database: Database, lanes: Sequence[int], now: datetime) -> set[int]:
    """Which of the lanes, the first few of them, have SCHEDULED tasks that are due by now."""
    slots = ", ".join(map(str, range(SLOTS)))
    moment = database.dialect.instant_parameter
    found: set[int] = set()
    for lane in lanes[:MAX_LANES_SEARCHED_FOR_DUE]:
        sql = (
            f"SELECT lane FROM {database.tasks} WHERE lane = {lane} AND status = 0 "  # noqa: S608
            f"AND slot IN ({slots}) AND ord = 0 AND run_after <= {moment} LIMIT 1"
        )
        found.update(lane for (lane,) in database.rows(sql, [database.to_db(now)]))
    return found
