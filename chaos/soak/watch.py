"""What is looked at while the load lasts: calls, memory, sessions, sizes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import resident_megabytes
from chaos.databases import Database
from skipper_django.models import Task

MEGABYTE = 2**20
TABLE = Task._meta.db_table
# InnoDB: with what the file keeps for later rows, and transactions whose old rows still stand.
INNODB = (
    "SELECT table_rows, data_length + data_free, index_length, (SELECT count "
    "FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len') "
    f"FROM information_schema.tables WHERE table_schema = 'chaos' AND table_name = '{TABLE}'"
)
# PostgreSQL: dead rows that no vacuum has removed.
POSTGRESQL = (
    "SELECT n_live_tup, pg_table_size(relid), pg_indexes_size(relid), n_dead_tup "
    f"FROM pg_stat_user_tables WHERE relname = '{TABLE}'"
)


@dataclass(frozen=True)
class Sample:
    """One look. Sizes are in MB."""

    seconds: float  # since the load began
    enqueued: int
    done: int
    memory: float  # of all processes of the worker that is never killed
    sessions: int
    rows: int  # as the server estimates them
    table: float
    indexes: float
    purge_lag: int

    @property
    def waiting(self) -> int:
        return max(0, self.enqueued - self.done)


def look(database: Database, seconds: float, enqueued: int, done: int, pids: list[int]) -> Sample:
    memory = sum(_memory(pid) for pid in pids)
    rows, table, indexes, purge_lag = _sizes(database)
    return Sample(
        round(seconds, 1),
        enqueued,
        done,
        round(memory, 1),
        len(database.sessions()),
        int(rows),
        round(float(table) / MEGABYTE, 1),
        round(float(indexes) / MEGABYTE, 1),
        int(purge_lag),
    )


def _memory(pid: int) -> float:
    try:
        return resident_megabytes(pid)
    except (OSError, StopIteration):  # it is gone, which is found out otherwise
        return 0.0


def _sizes(database: Database) -> tuple[int, ...]:
    with database.admin() as execute:
        if database.name == "postgresql":
            (sizes,) = execute(POSTGRESQL)
            return sizes
        if database.name == "mysql":  # which would answer with figures of yesterday
            execute("SET SESSION information_schema_stats_expiry = 0")
        (sizes,) = execute(INNODB)
        return sizes


class Tally:
    """Counts the calls in the file of effects, and reads only what is new in it."""

    def __init__(self, path: Path, tasks: int) -> None:
        self._path = path
        self._offset = 0
        self._begun = bytearray(tasks)
        self._done = bytearray(tasks)
        self.done = 0

    def read(self) -> int:
        """How many tasks have ended a call by now."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            number, what, *_ = line.split()
            self._count(int(number), what)
        return self.done

    def _count(self, number: int, what: bytes) -> None:
        if what == b"begun":
            self._begun[number] += 1
        elif not self._done[number]:
            self._done[number] = 1
            self.done += 1

    def lost(self, acknowledged: Collection[int]) -> set[int]:
        return {number for number in acknowledged if not self._done[number]}

    def doubled(self) -> dict[int, int]:
        """The calls beyond the first, of the tasks that had any."""
        return {number: calls - 1 for number, calls in enumerate(self._begun) if calls > 1}
