"""docs/seeing-it-run.md lists what the JSON and the command have."""

from __future__ import annotations

import re

from skipper_django.management.commands.skipper_cluster import Command
from tests.cluster.test_json import FIELDS, MEMBER_FIELDS
from tests.docs.pages import DOCS, section

PAGE = (DOCS / "seeing-it-run.md").read_text()


def _first_cells(text: str) -> list[str]:
    return [
        name
        for cell in re.findall(r"^\| (`.*?) \| ", text, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", cell)
    ]


def test_every_field_is_documented_once() -> None:
    top, members = section(PAGE, "## JSON").split("Each of the `members`:")
    assert sorted(_first_cells(top)) == sorted(FIELDS)
    assert sorted(_first_cells(members)) == sorted(MEMBER_FIELDS)


def test_every_option_is_documented() -> None:
    documented = {name.split()[0] for name in _first_cells(section(PAGE, "## The command"))}
    parser = Command().create_parser("manage.py", "skipper_cluster")
    own = {"--json", "--watch", "--backend", "--tenant", "--database"}
    assert documented == own
    assert own <= {text for action in parser._actions for text in action.option_strings}


def test_the_picture_is_small() -> None:
    assert (DOCS / "images" / "cluster.png").stat().st_size < 150_000
