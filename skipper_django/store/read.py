"""Read single tasks back: for results, the admin and tests."""

from ..core.states import TaskState
from ..models import Task
from .database import Database

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


def is_installed(database: Database) -> bool:
    """Has the table of tasks been made? Raises what the database raises when it cannot be asked."""
    return Task._meta.db_table in database.connection.introspection.table_names()
