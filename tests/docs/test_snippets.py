"""The documentation says what the code says."""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from pathlib import Path

import pytest

import skipper_django
from skipper_django.core import config
from skipper_django.core.reasons import FailReason, FetchReason
from skipper_django.core.states import TaskState
from skipper_django.management.commands.skipper_worker import Command
from tests.docs.pages import DOCS, PAGES, README, Block, blocks, code, rows, section

PYTHON = [
    pytest.param(block.text, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page.read_text()))
    if block.language == "python"
]


@pytest.mark.parametrize("snippet", PYTHON)
def test_every_python_snippet_compiles(snippet: str) -> None:
    compile(snippet, "snippet", "exec")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param((DOCS / "settings.md").read_text(), id="settings.md"),
        pytest.param(section(README.read_text(), "## Settings"), id="README.md"),
    ],
)
def test_settings_are_listed_with_their_defaults(text: str) -> None:
    listed = {code(row[0]): ast.literal_eval(code(row[1])) for row in rows(text)}

    defaults = config.Config()
    assert listed == {key: getattr(defaults, key.lower()) for key in config.KEYS}


def test_retention_is_told_in_days_as_well() -> None:
    text = (DOCS / "settings.md").read_text()

    assert timedelta(seconds=config.Config().retention).days == 7
    assert timedelta(seconds=config.Config().failed_retention).days == 30
    assert "(seven days)" in text
    assert "(thirty days)" in text


def test_checks_page_lists_exactly_the_checks_there_are() -> None:
    listed = [code(row[0]) for row in rows((DOCS / "checks.md").read_text())]

    modules = Path(skipper_django.__file__).parent.glob("*checks.py")
    source = "".join(module.read_text() for module in modules)
    assert listed == sorted(set(re.findall(r"skipper\.[EW]\d{3}", source)))


def test_worker_page_lists_exactly_the_options_of_the_command() -> None:
    listed = {
        code(row[0]).split()[0] for row in rows((DOCS / "worker.md").read_text()) if "--" in row[0]
    }

    parser = Command().create_parser("manage.py", "skipper_worker")
    ours = {action.option_strings[0] for action in parser._actions} - set(django_options())
    assert listed == ours


def django_options() -> list[str]:
    """The options that every command has."""
    from django.core.management.base import BaseCommand

    parser = BaseCommand().create_parser("manage.py", "any")
    return [action.option_strings[0] for action in parser._actions]


def test_worker_page_tells_the_default_of_each_number() -> None:
    parser = Command().create_parser("manage.py", "skipper_worker")

    told = {code(row[0]).split()[0]: row[1] for row in rows((DOCS / "worker.md").read_text())}

    numbers = {
        action.option_strings[0]: action.default
        for action in parser._actions
        if type(action.default) in (int, float) and action.option_strings[0] in told
    }
    assert {option: float(told[option]) for option in numbers} == numbers
    assert len(numbers) == 3


def test_guarantees_list_every_reason() -> None:
    text = section((DOCS / "guarantees.md").read_text(), "## Nothing is dropped")

    assert set(re.findall(r"reason `(\w+)`", text)) == {reason.value for reason in FailReason}


def test_worker_page_lists_every_reason_to_fetch_the_whole_queue() -> None:
    text = section((DOCS / "worker.md").read_text(), "## Who fetches what")

    assert [code(row[0]) for row in rows(text)] == [reason.value for reason in FetchReason]


def test_glossary_lists_every_state() -> None:
    text = section((DOCS / "glossary.md").read_text(), "## States")

    assert re.findall(r"^\| ([A-Z]+) \|", text, re.MULTILINE) == [s.name for s in TaskState]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_the_words_of_the_glossary(page: Path) -> None:
    others = re.compile(r"\b(jobs?|shard\w*|nack|zombies?|daemons?|brokers)\b", re.IGNORECASE)

    assert not others.findall(page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+\.md)[^)]*\)", page.read_text())

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_blocks_are_read_as_they_stand() -> None:
    assert blocks("a\n```sh\nls\n```\nb\n```python\nx\n```\n") == [
        Block("sh", "ls\n"),
        Block("python", "x\n"),
    ]
