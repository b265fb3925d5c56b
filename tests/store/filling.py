"""Many rows at once, made by the database itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from skipper_django.core.buckets import lane_of
from skipper_django.core.states import TaskState
from skipper_django.store.database import Database

YESTERDAY = datetime(2025, 12, 31, tzinfo=UTC)


def fill(database: Database, thousands: int, status: TaskState, **values: Any) -> None:
    """So many thousand rows over all buckets; `first` thousands of the kind are there before."""
    tenant, queue = values.get("tenant", "default"), values.get("queue_name", "default")
    priority, due = values.get("priority", 0), values.get("run_after", YESTERDAY)
    first = int(values.get("first", 0))
    bucket = "((numbers.n * 7 + thousands.n * 13) % 1000)"
    name = f"'{tenant}-{queue}-{status}-{priority}-'"
    parts = [name, f"(thousands.n + {first})", "'-'", "numbers.n"]
    is_mysql = database.connection.vendor == "mysql"
    final = status.is_final
    database.execute(
        f"INSERT INTO {database.tasks} (task_id, tenant, queue_name, lane, bucket, slot, name, "  # noqa: S608
        "backend, args, kwargs, status, priority, ord, run_after, enqueued_at, finished_at) "
        "WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 999),"
        "thousands(n) AS (SELECT n FROM numbers WHERE n < %s) SELECT "
        f"{'CONCAT(' + ', '.join(parts) + ')' if is_mysql else ' || '.join(parts)}, "
        f"'{tenant}', '{queue}', {lane_of(tenant, queue)}, {bucket}, "
        f"({bucket} - {bucket} % 16) / 16, 'tests.tasks.noop', 'default', '[]', '{{}}', "
        f"{status.value}, {priority}, {-priority if status is TaskState.READY else 0}, "
        f"{database.dialect.instant_parameter}, {database.dialect.instant_parameter}, "
        f"{database.dialect.instant_parameter} FROM thousands CROSS JOIN numbers".replace(
            "%", "%%"
        ).replace("%%s", "%s"),
        [
            thousands,
            database.to_db(due),
            database.to_db(YESTERDAY),
            database.to_db(YESTERDAY) if final else None,
        ],
    )
