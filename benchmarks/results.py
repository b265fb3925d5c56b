"""Results as files: every run is kept, the last one of each kind is what `report` renders."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parents[1] / "build" / "benchmarks"
LAST = "last.json"


@dataclass
class Results:
    """What was measured, where, and how much of it."""

    machine: dict[str, str]
    plan: dict[str, Any]
    figures: dict[str, dict[str, float]] = field(default_factory=dict)  # by database, or contender
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def save(self, name: str, directory: Path = DIRECTORY, last: str = LAST) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), indent=1) + "\n"
        path = directory / f"{name}.json"
        path.write_text(text)
        (directory / last).write_text(text)
        return path

    def keep(self, table: str, directory: Path, last: str = LAST) -> None:
        """Save with a name of this moment, the table beside it, and print the table."""
        kind = last.removesuffix(".json").replace("last", "run")
        path = self.save(f"{kind}-{datetime.now(UTC):%Y%m%d-%H%M%S}", directory, last)
        path.with_suffix(".md").write_text(f"{table}\n")
        print(table)


def load(directory: Path = DIRECTORY, last: str = LAST) -> Results:
    """The last run; FileNotFoundError if there was none."""
    return Results(**json.loads((directory / last).read_text()))
