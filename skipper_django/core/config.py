"""The settings as one checked value; the only list of keys and defaults."""

import difflib
import os.path
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .errors import InvalidSetting
from .text import shown

MAX_NAME_LENGTH = 100
MAX_SECONDS = 1000 * 366 * 24 * 3600.0
MAX_PREFIX_LENGTH = 15  # index names may have 30 characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Durations are seconds."""

    tenant: str = "default"
    database: str = "default"
    cluster_membership_manager: str = "database"
    cluster_member_name: str | None = None  # None: the host name
    cluster_heartbeat_interval: float = 10.0
    cluster_liveness_window: float = 60.0
    task_partitioning: bool | str = True
    lease_duration: float = 60.0
    steal_after: float | None = 5.0
    retention: float = 7 * 24 * 3600.0
    failed_retention: float = 30 * 24 * 3600.0
    max_payload_bytes: int = 1024 * 1024
    table_prefix: str = "skipper_"
    wake_up: bool | str = True  # text: the directory of the sockets


def _seconds(key: str, value: object) -> float:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise InvalidSetting(
            f"SKIPPER[{key!r}] is {shown(value)}; give seconds as int or float, or a timedelta"
        )
    if not 0 < value <= MAX_SECONDS:
        raise InvalidSetting(
            f"SKIPPER[{key!r}] is {shown(value)}; give more than 0 seconds, at most {MAX_SECONDS:g}"
        )
    return float(value)


def _seconds_or_none(key: str, value: object) -> float | None:
    return None if value is None else _seconds(key, value)


def _name(key: str, value: object) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME_LENGTH or "\0" in value:
        raise InvalidSetting(
            f"SKIPPER[{key!r}] is {shown(value)}; give text of 1 to {MAX_NAME_LENGTH} characters"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidSetting(f"SKIPPER[{key!r}] holds a lone surrogate; give UTF-8 text") from error
    return value


def _member_name(key: str, value: object) -> str | None:
    if value is None:
        return None
    name = _name(key, value)
    if not name.isprintable():
        # Tasks keep the names of their workers one a line; logs and tables show them.
        raise InvalidSetting(
            f"SKIPPER[{key!r}] is {shown(value)}; give text without line breaks and control "
            "characters"
        )
    return name


def _manager(key: str, value: object) -> str:
    if value not in ("database", "single"):
        raise InvalidSetting(f"SKIPPER[{key!r}] is {shown(value)}; give 'database' or 'single'")
    return str(value)


def _gate(key: str, value: object) -> bool | str:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and "." in value and all(map(str.isidentifier, value.split("."))):
        return value
    raise InvalidSetting(
        f"SKIPPER[{key!r}] is {shown(value)}; give True, False, or the dotted path of a callable"
    )


def _bytes(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidSetting(f"SKIPPER[{key!r}] is {shown(value)}; give a whole number of bytes")
    return value


def _prefix(key: str, value: object) -> str:
    if isinstance(value, str) and re.fullmatch(rf"\w{{1,{MAX_PREFIX_LENGTH}}}", value, re.ASCII):
        return value
    raise InvalidSetting(
        f"SKIPPER[{key!r}] is {shown(value)}; give 1 to {MAX_PREFIX_LENGTH} letters, digits, "
        "underscores"
    )


def _wake_up(key: str, value: object) -> bool | str:
    if isinstance(value, bool) or (isinstance(value, str) and os.path.isabs(value)):
        return value
    raise InvalidSetting(
        f"SKIPPER[{key!r}] is {shown(value)}; give True, False, or the absolute path of a directory"
    )


_READERS: dict[str, Callable[[str, object], Any]] = {
    "TENANT": _name,
    "DATABASE": _name,
    "CLUSTER_MEMBERSHIP_MANAGER": _manager,
    "CLUSTER_MEMBER_NAME": _member_name,
    "CLUSTER_HEARTBEAT_INTERVAL": _seconds,
    "CLUSTER_LIVENESS_WINDOW": _seconds,
    "TASK_PARTITIONING": _gate,
    "LEASE_DURATION": _seconds,
    "STEAL_AFTER": _seconds_or_none,
    "RETENTION": _seconds,
    "FAILED_RETENTION": _seconds,
    "MAX_PAYLOAD_BYTES": _bytes,
    "TABLE_PREFIX": _prefix,
    "WAKE_UP": _wake_up,
}

KEYS = tuple(_READERS)


def read_config(values: object) -> tuple[Config, list[InvalidSetting]]:
    """The config that `values` describe, and all that is wrong; wrong keys keep defaults."""
    if not isinstance(values, Mapping):
        return Config(), [InvalidSetting(f"SKIPPER is {type(values).__name__}; give a dict")]
    fields: dict[str, Any] = {}
    problems = []
    for key, value in values.items():
        try:
            fields[str(key).lower()] = _reader_of(key)(key, value)
        except InvalidSetting as problem:
            problems.append(problem)
    config = Config(**fields)
    if not problems:
        problems.extend(_impossible_combinations(config))
    return config, problems


def _reader_of(key: object) -> Callable[[str, object], Any]:
    if isinstance(key, str) and key in _READERS:
        return _READERS[key]
    text = key if isinstance(key, str) else shown(key)
    near = difflib.get_close_matches(text.upper(), KEYS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(KEYS)}"
    raise InvalidSetting(f"SKIPPER has an unknown key {shown(key)}; {hint}")


def _impossible_combinations(config: Config) -> list[InvalidSetting]:
    problems = []
    if config.cluster_liveness_window < 3 * config.cluster_heartbeat_interval:
        problems.append(
            InvalidSetting(
                f"SKIPPER['CLUSTER_LIVENESS_WINDOW'] is {config.cluster_liveness_window:g} s, less "
                f"than 3 times SKIPPER['CLUSTER_HEARTBEAT_INTERVAL'] "
                f"({config.cluster_heartbeat_interval:g} s): one late heartbeat would look like a "
                "death; make the window longer or the interval shorter"
            )
        )
    return problems
