"""PostgreSQL's COPY: the server takes the first rows in while the next are written out here."""

import re
from collections.abc import Iterable, Sequence

from .database import Database

_ESCAPES = {ord("\\"): "\\\\", ord("\t"): "\\t", ord("\n"): "\\n", ord("\r"): "\\r"}
_must_escape = re.compile(r"[\\\t\n\r]").search


def copy_in(
    database: Database,
    columns: Iterable[str],
    batches: Iterable[Iterable[Sequence[str | int | None]]],
) -> None:
    """Add the rows of all batches to the tasks, in one statement; NULL for None."""
    sql = f"COPY {database.tasks} ({', '.join(columns)}) FROM STDIN"
    connection = database.connection
    connection.validate_no_broken_transaction()  # as Django's execute() does
    with connection.wrap_database_errors, connection.cursor() as cursor, cursor.copy(sql) as copy:
        for batch in batches:
            copy.write("".join(map(_line, batch)))


def _line(row: Sequence[str | int | None]) -> str:
    return "\t".join(map(_field, row)) + "\n"


def _field(value: str | int | None) -> str:
    if isinstance(value, str):
        return value.translate(_ESCAPES) if _must_escape(value) else value
    return "\\N" if value is None else str(value)
