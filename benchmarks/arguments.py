"""Arguments that the commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import results


def several(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    """The type of an argument: names out of `allowed`, separated by commas."""

    def names(text: str) -> list[str]:
        chosen = text.replace(",", " ").split()
        if not chosen or set(chosen) - set(allowed):
            raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(allowed)}")
        return chosen

    return names


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, default=results.DIRECTORY, help="for the files")
