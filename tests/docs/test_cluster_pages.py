"""The pages on scaling out and parity say what code and tests say."""

from __future__ import annotations

import inspect
import re
from functools import cache

import pytest

from skipper_django.core.buckets import BucketRange
from skipper_django.core.config import KEYS, Config
from skipper_django.core.partition import partition
from skipper_django.core.reasons import ClusterReason, FetchReason
from skipper_django.embed import MAX_ABANDONED, start_worker
from tests.docs.pages import DOCS, ROOT, code, rows, section

SCALING = (DOCS / "scaling-out.md").read_text()
PARITY = (DOCS / "parity.md").read_text()


@cache
def existing_tests() -> frozenset[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return frozenset(
        name
        for path in files
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
    )


def cited(line: str) -> list[str]:
    return re.findall(r"`(test_\w+)`", line)


def test_every_row_from_a1_to_a20_stands_once() -> None:
    assert re.findall(r"^\| (A\d+) \|", PARITY, re.MULTILINE) == [f"A{n}" for n in range(1, 21)]


@pytest.mark.parametrize("name", sorted(set(cited(PARITY))))
def test_every_test_of_the_parity_list_exists(name: str) -> None:
    assert name in existing_tests()


def test_a_row_without_a_test_says_so() -> None:
    silent = [
        line
        for line in PARITY.splitlines()
        if re.match(r"\| A\d", line) and not cited(line) and "Not yet" not in line
    ]

    assert silent == []


def test_every_test_named_after_a_row_is_in_the_list() -> None:
    named = {name for name in existing_tests() if re.match(r"test_a\d+_", name)}

    assert named <= set(cited(PARITY))


def test_fallbacks_list_every_reason() -> None:
    text = section(SCALING, "## Fallbacks")

    listed = [code(row[0]) for row in rows(text)]
    both = {reason.value for reason in FetchReason} & {reason.value for reason in ClusterReason}
    assert sorted(listed) == sorted(
        [*FetchReason, *(reason for reason in ClusterReason if reason.value not in both)]
    )


def test_settings_are_told_with_their_defaults() -> None:
    for row in rows(section(SCALING, "## Settings")):
        key = code(row[0])
        assert key in KEYS
        default = getattr(Config(), key.lower())
        assert code(row[1]) == (f'"{default}"' if isinstance(default, str) else f"{default:g}"
                                if isinstance(default, float) else str(default))  # fmt: skip


def test_ranges_are_those_of_the_rule() -> None:
    table = section(SCALING, "## How it works")
    for line in re.findall(r"^\| (\d) \| ([^|]+) \|$", table, re.MULTILINE):
        members, told = int(line[0]), re.findall(r"\[(\d+), (\d+)\)", line[1])
        ranges = list(partition(str(n) for n in range(members)).values())
        assert [BucketRange(int(a), int(b)) for a, b in told] == ranges[-len(told) :]


def test_the_arguments_of_start_worker_are_told_with_their_defaults() -> None:
    text = section(SCALING, "## A worker inside the web process")

    told = {code(row[0]): code(row[1]) for row in rows(text) if len(row) == 3}
    parameters = inspect.signature(start_worker).parameters.values()
    assert told == {parameter.name: repr(parameter.default) for parameter in parameters}
    assert MAX_ABANDONED == 8
    assert "When eight\nthreads are left behind" in text
