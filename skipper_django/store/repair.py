"""Read rows whatever is in them, and correct them one by one, while workers go on working."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import DatabaseError

from ..core.diagnosis import StoredRow, condemn
from .database import Database
from .dialects.base import still

NUMBERS = (
    "lane", "bucket", "slot", "status", "priority", "ord", "attempts", "lost_leases", "lease_token",
)  # fmt: skip
MOMENTS = (
    "run_after", "lease_expires_at", "enqueued_at", "started_at", "last_attempted_at",
    "finished_at",
)  # fmt: skip
TEXTS = ("task_id", "tenant", "queue_name", "name", "backend", "reason")
PAYLOADS = ("args", "kwargs", "result", "errors")
BATCH = 1_000
MAX_CHARACTERS = 4_000_000  # of payloads read at once
# A claim, an outcome and a reclaim change one of these; a renewal changes none, and does no harm.
FENCE = ("status", "lease_token", "attempts")
# What a statement raises that meets a value which the driver, or the column, cannot bear.
UNREADABLE = (DatabaseError, ValueError, OverflowError)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def walk(database: Database) -> Iterator[list[StoredRow]]:
    """All rows, by primary key, in batches of bounded size; each batch is read at one moment."""
    last = 0
    while batch := _sizes(database, last):
        last = batch[-1][0]
        for ids in _groups(batch):
            yield _read(database, ids)


def _sizes(database: Database, last: int) -> list[tuple[int, int]]:
    size = " + ".join(f"COALESCE(LENGTH({column}), 0)" for column in PAYLOADS)
    return database.rows(
        f"SELECT id, {size} FROM {database.tasks} WHERE id > %s ORDER BY id LIMIT {BATCH}",  # noqa: S608
        [last],
    )


def _groups(batch: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    ids: list[int] = []
    total = 0
    for pk, size in batch:
        if ids and total + size > MAX_CHARACTERS:
            yield ids
            ids, total = [], 0
        ids.append(pk)
        total += size
    yield ids


def _read(database: Database, ids: Sequence[int]) -> list[StoredRow]:
    try:
        return _read_at_once(database, ids)
    except UNREADABLE as error:
        if database.is_transient(error) or database.dialect.name != "sqlite":
            raise
        if len(ids) == 1:
            return [_forced(database, ids[0])]
    return [row for pk in ids for row in _read(database, [pk])]


def _forced(database: Database, pk: int) -> StoredRow:
    """A row of SQLite in which a text holds bytes that are no UTF-8."""
    texts = (*TEXTS, *PAYLOADS)
    casts = ", ".join(f"CAST({name} AS BLOB)" for name in texts)
    ((raw),) = database.rows(f"SELECT {casts} FROM {database.tasks} WHERE id = {pk}")  # noqa: S608
    decoded = {
        name: value and value.decode(errors="backslashreplace")
        for name, value in zip(texts, raw, strict=True)
    }
    bad = [
        name
        for name, value in zip(texts, raw, strict=True)
        if value is not None and value.decode(errors="ignore").encode() != value
    ]
    row = _read_at_once(database, [pk], without=bad)[0]
    return StoredRow(pk, {**row.columns, **decoded}, row.unreadable, frozenset(bad))


def _read_at_once(
    database: Database, ids: Sequence[int], without: Sequence[str] = ()
) -> list[StoredRow]:
    is_moment = database.dialect.is_moment
    # An expression, not the column: the driver would try to make a moment of anything in it.
    moments = ", ".join(
        f"CASE WHEN {is_moment(name)} THEN {name} END, "
        f"CASE WHEN {name} IS NOT NULL AND NOT {is_moment(name)} THEN 1 ELSE 0 END"
        for name in MOMENTS
    )
    plain = ("NULL" if name in without else name for name in (*NUMBERS, *TEXTS, *PAYLOADS))
    listed = ", ".join(map(str, ids))
    rows = database.rows(
        f"SELECT id, {', '.join(plain)}, {moments} "  # noqa: S608
        f"FROM {database.tasks} WHERE id IN ({listed}) ORDER BY id"
    )
    return [_row(database, values) for values in rows]


def _row(database: Database, values: Sequence[Any]) -> StoredRow:
    names = (*NUMBERS, *TEXTS, *PAYLOADS)
    plain = values[1 : 1 + len(names)]
    moments, unreadable = values[1 + len(names) :: 2], values[2 + len(names) :: 2]
    # SQLite keeps bytes in a column of text, too.
    decoded = {
        name: value.decode(errors="backslashreplace")
        for name, value in zip(names, plain, strict=True)
        if isinstance(value, bytes) and name not in NUMBERS
    }
    times = {
        name: database.dialect.from_db(value) for name, value in zip(MOMENTS, moments, strict=True)
    }
    return StoredRow(
        values[0],
        {**dict(zip(names, plain, strict=True)), **decoded, **times},
        frozenset(name for name, bad in zip(MOMENTS, unreadable, strict=True) if bad),
        frozenset(decoded),
    )


def correct(database: Database, row: StoredRow, changes: Mapping[str, Any]) -> bool:
    """Write the changes if the row is still as it was read; False if it has moved on."""
    setters = ", ".join(f"{name} = %s" for name in changes)
    params = [
        database.to_db(value) if isinstance(value, datetime) else value
        for value in changes.values()
    ]
    fence = ""
    for name in FENCE:
        if row[name] is None:
            fence += f" AND {name} IS NULL"
        else:
            fence += f" AND {name} = %s"
            params.append(row[name])
    sql = f"UPDATE {database.tasks} SET {setters} WHERE id = {row.id}{fence}"  # noqa: S608
    return database.through_contention(lambda: database.execute(sql, params)) == 1


def may_be_bad_rows(database: Database, error: Exception) -> bool:
    """Could the error come from what is in a row, and can anything be done about it here?"""
    return not database.is_transient(error) and not database.connection.in_atomic_block


def park_unclaimable(database: Database, pk: int, error: Exception, now: datetime) -> None:
    """A task that its claim failed at: FAILED with the reason bad_row, so that others go on."""
    for row in _read(database, [pk]):
        correct(database, row, condemn(row, f"it cannot be claimed: {error}", now).changes)


def mend_due_times(database: Database, lanes: Sequence[int]) -> int:
    """READY tasks whose run_after cannot be read count as due long ago; how many they were."""
    ids = database.rows(
        f"SELECT id FROM {database.tasks} WHERE lane IN ({', '.join(map(str, lanes))}) "  # noqa: S608
        f"AND status = 1 AND NOT {database.dialect.is_moment('run_after')} LIMIT {BATCH}"
    )
    if not ids:
        return 0
    sql = (
        f"UPDATE {database.tasks} SET run_after = %s "  # noqa: S608
        f"WHERE id IN ({', '.join(str(pk) for (pk,) in ids)}) AND {still(1)}"
    )
    return database.through_contention(lambda: database.execute(sql, [database.to_db(LONG_AGO)]))
