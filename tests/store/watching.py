"""What a call of the store costs the database: its statements, their plans, the rows they read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from skipper_django.store.database import Database

# Steps of SQLite's virtual machine that stand for one row: writing a row takes the most.
STEPS_PER_ROW = 120


@dataclass
class Statement:
    sql: str
    indexes: set[str] = field(default_factory=set)
    scans: list[str] = field(default_factory=list)  # of the table, without an index
    sorted_rows: int = 0
    rows_read: int = 0  # PostgreSQL only; the others count the whole call


@dataclass
class Cost:
    statements: list[Statement] = field(default_factory=list)
    rows_read: int = 0

    @property
    def indexes(self) -> list[set[str]]:
        return [statement.indexes for statement in self.statements]

    @property
    def scans(self) -> list[str]:
        return [scan for statement in self.statements for scan in statement.scans]


def watch(database: Database, call: Callable[[], Any]) -> Cost:
    """Run the call; what it cost."""
    cost = Cost()
    explain, count = {
        "sqlite": (_explain_sqlite, _count_steps),
        "mysql": (_explain_mysql, _count_handler_reads),
        "postgresql": (_explain_postgresql, None),
    }[database.connection.vendor]

    def explained(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "(")):
            statement = Statement(sql)
            if not sql.startswith("INSERT"):
                explain(database, statement, params)
            cost.statements.append(statement)
        return execute(sql, params, many, context)

    if count is None:
        with database.connection.execute_wrapper(explained):
            call()
        cost.rows_read = sum(statement.rows_read for statement in cost.statements)
    else:
        # Explaining and counting are two runs of one call would be; the plans come first.
        with database.connection.execute_wrapper(explained):
            cost.rows_read = count(database, call)
    return cost


def _raw(database: Database, sql: str, params: Any = None) -> list[tuple[Any, ...]]:
    """Run a statement below Django's wrappers."""
    with closing(database.connection.create_cursor()) as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall()) if cursor.description else []


def _explain_sqlite(database: Database, statement: Statement, params: Any) -> None:
    table = database.tasks.strip('"')
    for *_, detail in _raw(database, f"EXPLAIN QUERY PLAN {statement.sql}", params):
        words = detail.split()
        if "INTEGER PRIMARY KEY" in detail:
            statement.indexes.add("PRIMARY")
        elif "INDEX" in words:
            statement.indexes.add(words[words.index("INDEX") + 1])
        if words[0] == "SCAN" and words[1] in (table, "t") and "INDEX" not in words:
            statement.scans.append(detail)


def _count_steps(database: Database, call: Callable[[], Any]) -> int:
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    # The steps of EXPLAIN QUERY PLAN are not executed, only a few to give its rows.
    database.connection.ensure_connection()
    database.connection.connection.set_progress_handler(step, 10)
    try:
        call()
    finally:
        database.connection.connection.set_progress_handler(None, 10)
    return steps * 10 // STEPS_PER_ROW


def _explain_mysql(database: Database, statement: Statement, params: Any) -> None:
    table = database.tasks.strip("`")
    with closing(database.connection.create_cursor()) as cursor:
        cursor.execute(f"EXPLAIN FORMAT=TRADITIONAL {statement.sql}", params)
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for row in rows:
        if row["table"] not in (table, "t"):
            continue
        if row["key"] is None:
            statement.scans.append(str(row))
        else:
            statement.indexes.add(row["key"])
        if "filesort" in (row["Extra"] or ""):
            statement.sorted_rows += int(row["rows"])


def _handler_reads(database: Database) -> int:
    rows = _raw(database, "SHOW SESSION STATUS LIKE 'Handler_read%'")
    return sum(int(value) for _, value in rows)


def _count_handler_reads(database: Database, call: Callable[[], Any]) -> int:
    _handler_reads(database)
    first = _handler_reads(database)
    of_asking = _handler_reads(database) - first
    before = first + of_asking
    call()
    return _handler_reads(database) - before - of_asking


def _explain_postgresql(database: Database, statement: Statement, params: Any) -> None:
    _raw(database, "BEGIN")
    try:
        ((plan,),) = _raw(
            database, f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement.sql}", params
        )
    finally:
        _raw(database, "ROLLBACK")
    plan = json.loads(plan) if isinstance(plan, str) else plan
    for node in _nodes(plan[0]["Plan"]):
        loops = node["Actual Loops"]
        rows = node["Actual Rows"] * loops
        if node["Node Type"] == "Sort":
            statement.sorted_rows += round(rows)
        # Of a bitmap the rows, not the index entries as well, which former versions have, too.
        is_read = "Scan" in node["Node Type"] and node["Node Type"] != "Bitmap Index Scan"
        if is_read and ("Relation Name" in node or "Index Name" in node):
            removed = sum(value for key, value in node.items() if key.startswith("Rows Removed"))
            statement.rows_read += round(rows + removed * loops)
        if "Index Name" in node:
            name = node["Index Name"]
            statement.indexes.add("PRIMARY" if name.endswith("_pkey") else name)
        if node["Node Type"] == "Seq Scan":
            statement.scans.append(json.dumps(node))


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _nodes(child)
