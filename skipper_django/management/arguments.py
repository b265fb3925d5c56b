"""Arguments that several commands take."""

from typing import Any


def add_database(add: Any) -> None:
    """`add`: that of the command's parser."""
    add(
        "--database",
        type=str,
        metavar="ALIAS",
        help="alias of the queue's database (default: SKIPPER['DATABASE'])",
    )
