"""PostgreSQL's COPY: the server takes the first rows in while the next are written out here."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from .database import Database

_ESCAPES = {ord("\\"): "\\\\", ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}


def copy_in(
    database: Database, columns: Iterable[str], batches: Iterable[Iterable[Sequence[Any]]]
) -> None:
    """Add the rows of all batches to the tasks, in one statement; NULL for None."""
    sql = f"COPY {database.tasks} ({', '.join(columns)}) FROM STDIN"
    connection = database.connection
    connection.validate_no_broken_transaction()  # as Django's execute() does
    with connection.wrap_database_errors, connection.cursor() as cursor, cursor.copy(sql) as copy:
        for batch in batches:
            copy.write("".join(map(_line, batch)))


def _line(row: Sequence[Any]) -> str:
    return "\t".join(map(_field, row)) + "\n"


def _field(value: Any) -> str:
    if isinstance(value, str):
        return value if value.isalnum() else value.translate(_ESCAPES)
    if value is None:
        return "\\N"
    return value.isoformat() if isinstance(value, datetime) else str(value)
