"""The settings as one checked value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipper_django.core.config import KEYS, Config, read_config
from skipper_django.core.errors import InvalidSetting

DURATIONS = (
    "CLUSTER_HEARTBEAT_INTERVAL", "CLUSTER_LIVENESS_WINDOW", "LEASE_DURATION", "STEAL_AFTER",
    "RETENTION", "FAILED_RETENTION",
)  # fmt: skip
NAMES = ("TENANT", "DATABASE", "CLUSTER_MEMBER_NAME")


class NoText:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


NO_TEXT = NoText()
NO_DURATION = [
    True, False, "5", b"5", -1, 0, -0.5, float("nan"), float("inf"), 10**400, 10**5000,
    timedelta(0), timedelta(-1), timedelta.max, [], {}, object, 1j, NO_TEXT,
]  # fmt: skip
NO_NAME = [1, b"x", "", "x" * 101, "a\0b", "\ud800", [], True, ("default",), NO_TEXT, 10**5000]


def each(keys: Iterable[str], *values: object) -> list[tuple[str, object]]:
    return [(key, value) for key in keys for value in values]


WRONG = [
    *each(DURATIONS, *NO_DURATION),
    *each(set(DURATIONS) - {"STEAL_AFTER"}, None),
    *each(NAMES, *NO_NAME),
    *each(["TENANT", "DATABASE"], None),
    *each(["CLUSTER_MEMBER_NAME"], "a\nb", "a\rb", "a\x0bb", "a\u2028b"),
    *each(["CLUSTER_MEMBERSHIP_MANAGER"], "Database", "", None, 1, [], NO_TEXT),
    *each(["TASK_PARTITIONING"], "gate", "", None, 1, 0, [], len, ".", "a.", ".b", "a b.c"),
    *each(["MAX_PAYLOAD_BYTES"], True, 0, -1, 1.5, "1", None, [], NO_TEXT),
    *each(["WAKE_UP"], "", "run/skipper", 1, None, [], NO_TEXT),
    *each(["TABLE_PREFIX"], "", "x" * 16, "a-b", "a b", "\xe9", 'a"b', "a\n", 1, None, [], NO_TEXT),
]
WRONG.sort(key=lambda pair: pair[0])
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.timedeltas()
    | st.complex_numbers()
    | st.sampled_from([10**400, -(10**4000), object, len])
    | st.builds(NoText),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def named(value: object) -> str:
    # Not pytest's own way: there are numbers here whose text cannot be made.
    return type(value).__name__


def reading(key: str, value: object) -> Any:
    config, problems = read_config({key: value})
    assert problems == []
    return getattr(config, key.lower())


def test_nothing_set_gives_the_defaults() -> None:
    assert read_config({}) == (Config(), [])


def test_every_field_has_a_key_and_every_key_a_field() -> None:
    assert [field.name.upper() for field in fields(Config)] == list(KEYS)


def test_the_default_of_each_key_is_what_the_design_promises() -> None:
    config = Config()

    assert (config.tenant, config.database) == ("default", "default")
    assert (config.cluster_membership_manager, config.cluster_member_name) == ("database", None)
    assert (config.cluster_heartbeat_interval, config.cluster_liveness_window) == (10, 60)
    assert (config.task_partitioning, config.lease_duration) == (True, 60)
    assert (config.steal_after, config.retention) == (5, 7 * 86400)
    assert config.table_prefix == "skipper_"


@pytest.mark.parametrize("key", DURATIONS)
@pytest.mark.parametrize(
    ("value", "seconds"), [(45, 45.0), (45.5, 45.5), (timedelta(seconds=45.25), 45.25)]
)
def test_a_duration_is_seconds_or_a_timedelta(key: str, value: Any, seconds: float) -> None:
    values: dict[str, Any] = {key: value}
    if key == "CLUSTER_HEARTBEAT_INTERVAL":
        values["CLUSTER_LIVENESS_WINDOW"] = 1000

    config, problems = read_config(values)

    read = getattr(config, key.lower())
    assert problems == []
    assert (read, type(read)) == (seconds, float)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("STEAL_AFTER", None),
        ("TENANT", "akme \U0001f680"),
        ("TENANT", "x" * 100),
        ("DATABASE", "queue"),
        ("CLUSTER_MEMBER_NAME", "host-1"),
        ("CLUSTER_MEMBER_NAME", None),
        ("CLUSTER_MEMBERSHIP_MANAGER", "single"),
        ("TASK_PARTITIONING", False),
        ("TASK_PARTITIONING", "project.gates.partitioning"),
        ("MAX_PAYLOAD_BYTES", 1),
        ("TABLE_PREFIX", "x" * 15),
        ("TABLE_PREFIX", "Queue_2_"),
        ("WAKE_UP", False),
        ("WAKE_UP", "/run/skipper"),
    ],
)
def test_a_good_value_is_taken_as_it_is(key: str, value: Any) -> None:
    assert reading(key, value) == value


@pytest.mark.parametrize(
    ("key", "value"), WRONG, ids=[f"{index}-{key}" for index, (key, _) in enumerate(WRONG)]
)
def test_a_wrong_value_is_a_problem_that_names_the_key_and_keeps_the_default(
    key: str, value: object
) -> None:
    config, problems = read_config({key: value})

    (problem,) = problems
    assert isinstance(problem, InvalidSetting)
    assert key in str(problem)
    assert "give" in str(problem)
    assert len(str(problem)) < 1_000
    assert config == Config()


def test_too_long_a_duration_is_not_called_too_short() -> None:
    _, (problem,) = read_config({"RETENTION": timedelta.max})

    assert "at most" in str(problem)


def test_all_wrong_keys_are_told_at_once_and_the_good_ones_hold() -> None:
    config, problems = read_config({"TENANT": 1, "RETENTION": "x", "LEASE_DURATION": 5})

    assert len(problems) == 2
    assert config == Config(lease_duration=5.0)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("TENNANT", "TENANT"),
        ("tenant", "TENANT"),
        ("LEASE_DURATOIN", "LEASE_DURATION"),
        ("HEARTBEAT_INTERVAL", "CLUSTER_HEARTBEAT_INTERVAL"),
        ("CLUSTER_MEMBER", "CLUSTER_MEMBER_NAME"),
    ],
)
def test_an_unknown_key_is_met_with_the_near_one(key: str, meant: str) -> None:
    _, (problem,) = read_config({key: 1})

    assert key in str(problem)
    assert f"did you mean {meant!r}?" in str(problem)


@pytest.mark.parametrize("key", ["XYZ", 1, None, (), b"TENANT", 10**5000, NO_TEXT], ids=named)
def test_an_unknown_key_that_is_near_to_none_is_met_with_all(key: Any) -> None:
    config, (problem,) = read_config({key: 1})

    assert "unknown key" in str(problem)
    assert config == Config()


@pytest.mark.parametrize("values", [None, [], "TENANT", 1, object(), {"TENANT"}])
def test_a_setting_that_is_no_dict_is_a_problem(values: object) -> None:
    config, (problem,) = read_config(values)

    assert "give a dict" in str(problem)
    assert config == Config()


@pytest.mark.parametrize(("interval", "window", "fine"), [(10, 30, True), (10, 29.9, False)])
def test_a_window_must_last_three_intervals(interval: float, window: float, fine: bool) -> None:
    _, problems = read_config(
        {"CLUSTER_HEARTBEAT_INTERVAL": interval, "CLUSTER_LIVENESS_WINDOW": window}
    )

    assert (problems == []) is fine
    for problem in problems:
        assert "CLUSTER_LIVENESS_WINDOW" in str(problem)
        assert "CLUSTER_HEARTBEAT_INTERVAL" in str(problem)


@given(
    st.dictionaries(st.sampled_from(KEYS) | st.text() | st.integers() | st.none(), anything)
    | anything
)
def test_whatever_is_set_gives_a_config_and_problems_and_raises_nothing(values: object) -> None:
    config, problems = read_config(values)

    assert isinstance(config, Config)
    for problem in problems:
        assert isinstance(problem, InvalidSetting)
        str(problem).encode()


@given(st.sampled_from(DURATIONS), anything)
def test_a_duration_that_is_accepted_is_a_finite_positive_float(key: str, value: object) -> None:
    config, _ = read_config({key: value})

    duration = getattr(config, key.lower())
    assert duration is None or 0 < duration < float("inf")
