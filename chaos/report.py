"""python -m chaos.report [FILE ...]: the last table, or put between the markers of documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- chaos -->", "<!-- /chaos -->"
LAST = Path(__file__).parents[1] / "build" / "chaos" / "last.json"


@dataclass
class Row:
    """One line of the table: what one scenario came to on one database."""

    scenario: str  # its id in pytest
    fault: str
    note: str
    promise: str
    database: str
    tasks: int
    recovery: float  # seconds
    lost: int
    doubled: int


@dataclass
class Run:
    """The last run on one database, and parts of it that were run again."""

    version: str
    machine: str
    circumstances: list[str]
    failed: list[str]  # scenarios
    rows: list[Row]

    def replacing(self, old: Run, ran: Collection[str]) -> Run:
        """This run of some scenarios, with what an older one says of the others."""
        return Run(
            self.version,
            self.machine,
            [*old.circumstances, *self.circumstances],
            [*(failed for failed in old.failed if failed not in ran), *self.failed],
            [*(row for row in old.rows if row.scenario not in ran), *self.rows],
        )


def save(database: str, run: Run) -> None:
    """Replace the last run on this database; those on others stay."""
    LAST.parent.mkdir(parents=True, exist_ok=True)
    LAST.write_text(json.dumps({**_stored(), database: asdict(run)}, indent=1) + "\n")


def last(database: str) -> Run | None:
    """The last run on this database, if there was one."""
    run = _stored().get(database)
    return Run(**{**run, "rows": [Row(**row) for row in run["rows"]]}) if run else None


def load(databases: Collection[str] = ()) -> list[Run]:
    """The last runs, on these databases or on all."""
    runs = [last(name) for name in sorted(_stored()) if not databases or name in databases]
    return [run for run in runs if run]


def _stored() -> dict[str, Any]:
    return json.loads(LAST.read_text()) if LAST.exists() else {}


def render(runs: Sequence[Run]) -> str:
    """A line for each fault and database, and what they were seen on."""
    lines = [
        "| fault | promise | database | tasks | recovery (s) | lost | doubled |",
        "|---|---|---|--:|--:|--:|--:|",
    ]
    # The databases of a scenario side by side.
    rows = [(run.version, row) for run in runs for row in run.rows]
    rows.sort(key=lambda pair: (pair[1].scenario.partition("[")[0], pair[1].fault))
    for version, row in rows:
        note = f" ({row.note})" if row.note else ""
        lines.append(
            f"| {row.fault}{note} | {row.promise} | {version} | {row.tasks:,} "
            f"| {row.recovery:.1f} | {row.lost} | {row.doubled} |"
        )
    return "\n".join([*lines, "", *map(_about, runs)])


def _about(run: Run) -> str:
    failed = f"failed: {', '.join(run.failed)}" if run.failed else "none failed"
    return f"{run.version}: {'; then '.join(run.circumstances)}; {failed}. {run.machine}.\n"


def insert(path: Path, block: str, begin: str = BEGIN, end: str = END) -> None:
    """Replace what stands between the markers; ValueError where there are none."""
    before, found, rest = path.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{path} has no {begin} followed by {end}")
    path.write_text(f"{before}{begin}\n{block}\n{end}{after}")


def main(files: Sequence[str]) -> None:
    runs = load()
    if not runs:
        sys.exit("nothing seen yet: run make chaos")
    block = render(runs)
    for file in files:
        insert(Path(file), block)
    if not files:
        print(block)


if __name__ == "__main__":
    main(sys.argv[1:])
