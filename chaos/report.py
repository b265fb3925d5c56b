"""python -m chaos.report [FILE ...]: the last table, or put between the markers of documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- chaos -->", "<!-- /chaos -->"
LAST = Path(__file__).parents[1] / "build" / "chaos" / "last.json"


@dataclass
class Row:
    """One line of the table: what one scenario came to on one database."""

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
    """The last run on one database."""

    version: str
    circumstances: dict[str, Any]
    failed: list[str]
    rows: list[Row]


def save(database: str, run: Run) -> None:
    """Replace the last run on this database; those on others stay."""
    LAST.parent.mkdir(parents=True, exist_ok=True)
    runs = json.loads(LAST.read_text()) if LAST.exists() else {}
    LAST.write_text(json.dumps({**runs, database: asdict(run)}, indent=1) + "\n")


def load(databases: Sequence[str] = ()) -> list[Run]:
    """The last runs, on these databases or on all; FileNotFoundError if there was none."""
    runs = json.loads(LAST.read_text())
    return [
        Run(**{**run, "rows": [Row(**row) for row in run["rows"]]})
        for database, run in sorted(runs.items())
        if not databases or database in databases
    ]


def render(runs: Sequence[Run]) -> str:
    """A line for each fault and database, and what they were seen on."""
    lines = [
        "| fault | promise | database | tasks | recovery (s) | lost | doubled |",
        "|---|---|---|--:|--:|--:|--:|",
    ]
    # In the order of the scenarios, the databases of each side by side.
    rows = [(run.version, row) for run in runs for row in run.rows]
    order = list(dict.fromkeys((row.fault, row.promise) for _, row in rows))
    for version, row in sorted(
        rows, key=lambda pair: order.index((pair[1].fault, pair[1].promise))
    ):
        note = f" ({row.note})" if row.note else ""
        lines.append(
            f"| {row.fault}{note} | {row.promise} | {version} | {row.tasks:,} "
            f"| {row.recovery:.1f} | {row.lost} | {row.doubled} |"
        )
    return "\n".join([*lines, "", *map(_about, runs)])


def _about(run: Run) -> str:
    facts = "; ".join(f"{key} {value}" for key, value in run.circumstances.items())
    failed = f"failed: {', '.join(run.failed)}" if run.failed else "none failed"
    return f"{run.version}: {facts}; {failed}.  "


def insert(path: Path, block: str) -> None:
    """Replace what stands between the markers; ValueError where there are none."""
    before, begin, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no {BEGIN} followed by {END}")
    path.write_text(f"{before}{BEGIN}\n{block}\n{END}{after}")


def main(files: Sequence[str]) -> None:
    try:
        block = render(load())
    except FileNotFoundError:
        sys.exit("nothing seen yet: run make chaos")
    for file in files:
        insert(Path(file), block)
    if not files:
        print(block)


if __name__ == "__main__":
    main(sys.argv[1:])
