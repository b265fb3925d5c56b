"""Results as files: every run is kept, the last one is what `report` renders."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parents[1] / "build" / "benchmarks"
LAST = "last.json"


@dataclass
class Results:
    """What was measured, where, and how much of it."""

    machine: dict[str, str]
    plan: dict[str, Any]
    figures: dict[str, dict[str, float]] = field(default_factory=dict)  # by database
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def save(self, name: str, directory: Path = DIRECTORY) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(self), indent=1) + "\n"
        path = directory / f"{name}.json"
        path.write_text(text)
        (directory / LAST).write_text(text)
        return path


def load(directory: Path = DIRECTORY) -> Results:
    """The last run; FileNotFoundError if there was none."""
    return Results(**json.loads((directory / LAST).read_text()))
