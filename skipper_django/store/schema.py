"""Are the tables in the database those that the migrations make?"""

from collections.abc import Iterator
from typing import Any

from django.db.migrations.executor import MigrationExecutor
from django.db.models import Index, Model, UniqueConstraint

from ..models import Member, Task
from .database import Database

APP = "skipper_django"


def missing_tables(database: Database) -> list[str]:
    there = set(database.connection.introspection.table_names())
    return [model._meta.db_table for model in (Task, Member) if model._meta.db_table not in there]


def pending_migrations(database: Database) -> list[str]:
    executor = MigrationExecutor(database.connection)
    targets = [node for node in executor.loader.graph.leaf_nodes() if node[0] == APP]
    plan = executor.migration_plan(targets)
    return [migration.name for migration, _ in plan if migration.app_label == APP]


def differences(database: Database) -> Iterator[str]:
    """Columns, indexes and rules that are not as the migrations make them, in words."""
    for model in (Task, Member):
        with database.connection.cursor() as cursor:
            introspection = database.connection.introspection
            table = model._meta.db_table
            columns = {info.name for info in introspection.get_table_description(cursor, table)}
            found = introspection.get_constraints(cursor, table)
        for field in model._meta.local_concrete_fields:
            if field.column not in columns:
                yield f"table {table} has no column {field.column}"
        yield from _constraint_differences(model, found)


def _constraint_differences(model: type[Model], found: dict[str, Any]) -> Iterator[str]:
    table = model._meta.db_table
    if not any(there["primary_key"] for there in found.values()):
        yield f"table {table} has no primary key"
    for item in (*model._meta.indexes, *model._meta.constraints):
        there = found.get(item.name)
        fields = getattr(item, "fields", ())
        columns = [model._meta.get_field(str(name)).column for name in fields]  # type: ignore[union-attr]
        if there is None:
            if columns or (model._meta.constraints and _knows_checks(found)):
                yield f"table {table} has no {_kind(item)} {item.name}"
        elif columns and list(there["columns"]) != columns:
            yield f"{_kind(item)} {item.name} is over {', '.join(there['columns'])}"
        elif isinstance(item, UniqueConstraint) and not there["unique"]:
            yield f"{item.name} of table {table} is not unique"


def _kind(item: Any) -> str:
    if isinstance(item, Index):
        return "index"
    return "unique index" if isinstance(item, UniqueConstraint) else "rule"


def _knows_checks(found: dict[str, Any]) -> bool:
    return any(there["check"] for there in found.values())
