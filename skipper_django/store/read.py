"""Read single tasks back: for results, the admin and tests."""

from typing import NamedTuple

from ..core.states import TaskState
from ..models import Task
from .database import Database
from .lanes import MAX_LANE

BATCH = 1_000


def find(database: Database, tenant: str, task_ids: list[str]) -> dict[str, Task]:
    """The rows of these ids, by id; ids that do not exist are not in the answer."""
    ours = Task.objects.using(database.alias).filter(tenant=tenant)
    return {
        row.task_id: row
        for start in range(0, len(task_ids), BATCH)
        for row in ours.filter(task_id__in=task_ids[start : start + BATCH])
    }


def unfinished(database: Database, tenant: str) -> bool:
    """Is anything left that is ready, due later, or running?"""
    return (
        Task.objects.using(database.alias)
        .filter(tenant=tenant, status__lt=TaskState.SUCCESSFUL.value)
        .exists()
    )


class QueueInUse(NamedTuple):
    lane: int
    tenant: str
    name: str


def queues_in_use(database: Database, most: int) -> list[QueueInUse]:
    """Queues of all tenants that have rows, at most so many: one seek in the hot index each."""
    queues: list[QueueInUse] = []
    last = -MAX_LANE
    while len(queues) < most and (
        found := database.rows(
            f"SELECT lane, tenant, queue_name FROM {database.tasks} WHERE lane > {last} "  # noqa: S608
            f"AND lane <= {MAX_LANE} ORDER BY lane, status, slot, ord, run_after, id LIMIT 1"
        )
    ):
        ((last, tenant, name),) = found
        queues.append(QueueInUse(last, str(tenant), str(name)))
    return sorted(queues, key=lambda queue: (queue.tenant, queue.name))


def is_installed(database: Database) -> bool:
    """Has the table of tasks been made? Raises what the database raises when it cannot be asked."""
    return Task._meta.db_table in database.connection.introspection.table_names()
