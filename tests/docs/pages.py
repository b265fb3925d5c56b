"""The documentation as the tests read it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [README, *sorted(DOCS.glob("*.md"))]

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")


class Block(NamedTuple):
    language: str
    text: str


def blocks(text: str) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(text)]


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its level."""
    _, _, rest = text.partition(f"\n{heading}\n")
    assert rest, f"no heading {heading!r}"
    level = heading.split()[0]
    return rest.partition(f"\n{level} ")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows whose first cell is code."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| `")
    ]


def code(cell: str) -> str:
    """The first span of code in a cell."""
    found = _SPAN.search(cell)
    assert found, f"no code in {cell!r}"
    return found[1]
