"""The only reader of Django's settings: they leave this module as one Config value."""

import os
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from .core.config import Config, read_config
from .core.errors import InvalidSetting

# What one entry of TASKS may override in its OPTIONS.
BACKEND_OPTIONS = ("TENANT", "DATABASE")
MAX_QUEUE_NAME_LENGTH = 100


class UnknownBackend(ImproperlyConfigured):
    """TASKS has no entry of that name, or it is not one of ours."""


def load(options: Mapping[str, Any] | None = None) -> Config:
    """The SKIPPER setting, overridden by the OPTIONS of a TASKS entry.

    Raises ImproperlyConfigured that names every key that cannot work.
    """
    config, problems = read(options)
    if problems:
        raise ImproperlyConfigured("; ".join(str(problem) for problem in problems))
    return config


def read(options: Mapping[str, Any] | None = None) -> tuple[Config, list[InvalidSetting]]:
    """Like load(), but with the problems as values: for the system checks."""
    chosen = tuple((options or {}).items())
    try:
        return _read(chosen)
    except TypeError:  # an unhashable, hence wrong, option
        return _read.__wrapped__(chosen)


@lru_cache
def _read(options: tuple[tuple[str, Any], ...]) -> tuple[Config, list[InvalidSetting]]:
    values = getattr(settings, "SKIPPER", {})
    problems = [
        InvalidSetting(
            f"OPTIONS of a TASKS entry has {key!r}; only {' and '.join(BACKEND_OPTIONS)} may stand "
            f"there: {_remedy_of(key)}"
        )
        for key, _ in options
        if key not in BACKEND_OPTIONS
    ]
    if isinstance(values, Mapping):
        values = {**values, **{key: value for key, value in options if key in BACKEND_OPTIONS}}
    config, wrong = read_config(values)
    return config, problems + wrong


def _remedy_of(option: object) -> str:
    near = get_close_matches(str(option).upper(), BACKEND_OPTIONS, n=1)
    return f"did you mean {near[0]!r}?" if near else "put it into SKIPPER"


def table_name(name: str) -> str:
    """The name of a table, index or constraint of ours, under the TABLE_PREFIX of the project."""
    return read()[0].table_prefix + name


def raw_task_settings() -> Any:
    """The TASKS setting, whatever it is."""
    return getattr(settings, "TASKS", None) or {}


def of_backend(name: str | None) -> Config:
    """What an entry of TASKS comes to; None: the SKIPPER setting alone.

    Raises UnknownBackend for one that is not there or not ours, and ImproperlyConfigured for what
    cannot work.
    """
    entries = raw_task_settings()
    if name is not None and (name not in entries or not _is_ours(entries[name].get("BACKEND"))):
        known = ", ".join(alias for alias in entries if _is_ours(entries[alias].get("BACKEND")))
        raise UnknownBackend(f"TASKS has no entry {name!r} of skipper_django; known: {known}")
    config = load(entries[name].get("OPTIONS") if name is not None else None)
    if config.database not in databases():
        raise ImproperlyConfigured(
            f"there is no database {config.database!r} in DATABASES; known: "
            f"{', '.join(databases())}"
        )
    return config


def clusters() -> dict[str, Config]:
    """Every cluster of the project, under the name of its entry in TASKS; "": that of SKIPPER.

    Entries with the same tenant and database are one, under the first name. What is wrong is left
    out: the system checks tell.
    """
    found: dict[tuple[str, str], tuple[str, Config]] = {}
    for name in (None, *raw_task_settings()):
        try:
            config = of_backend(name)
        except ImproperlyConfigured:
            continue
        found.setdefault((config.database, config.tenant), (name or "", config))
    return dict(found.values())


def queue_aliases() -> list[str]:
    """The databases that hold a queue: that of SKIPPER, those of our entries in TASKS."""
    aliases = {read()[0].database}
    entries = raw_task_settings()
    for params in entries.values() if isinstance(entries, Mapping) else ():
        if isinstance(params, Mapping) and _is_ours(params.get("BACKEND")):
            options = params.get("OPTIONS")
            alias = options.get("DATABASE") if isinstance(options, Mapping) else None
            if isinstance(alias, str):
                aliases.add(alias)
    return sorted(aliases)


def _is_ours(path: Any) -> bool:
    try:
        return is_our_backend(import_string(str(path)))
    except Exception:  # the check of the setting says so
        return False


def is_our_backend(backend: Any) -> bool:
    return isinstance(backend, type) and bool(getattr(backend, "checks_arguments", False))


def is_queue_name(name: object) -> bool:
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_QUEUE_NAME_LENGTH or "\0" in name:
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def databases() -> dict[str, Any]:
    """The DATABASES setting, by alias."""
    return dict(settings.DATABASES)


def gate_of(config: Config) -> Callable[[], bool]:
    """TASK_PARTITIONING as a question; raises ImproperlyConfigured for a path to nowhere."""
    gate = config.task_partitioning
    if isinstance(gate, bool):
        return lambda: bool(load().task_partitioning)
    try:
        found = import_string(gate)
    except ImportError as error:
        raise ImproperlyConfigured(
            f"SKIPPER['TASK_PARTITIONING'] is {gate!r}, which cannot be imported: {error}"
        ) from error
    if not callable(found):
        raise ImproperlyConfigured(f"SKIPPER['TASK_PARTITIONING'] is {gate!r}, no callable")
    ask: Callable[[], bool] = found
    return ask


def is_debugging() -> bool:
    return bool(settings.DEBUG)


def uses_time_zones() -> bool:
    return bool(settings.USE_TZ)


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting in ("SKIPPER", "TASKS"):
        _read.cache_clear()


setting_changed.connect(_forget, dispatch_uid="skipper_django.conf")


def project_packages() -> set[str]:
    """Top-level packages of the project itself, apps aside."""
    paths = [
        getattr(settings, name, None) or ""
        for name in ("SETTINGS_MODULE", "ROOT_URLCONF", "WSGI_APPLICATION", "ASGI_APPLICATION")
    ]
    return {path.partition(".")[0] for path in paths if isinstance(path, str) and path}


def project_directory() -> str:
    """The directory that holds the settings, or the package that they are in; "" if unknown."""
    top = str(getattr(settings, "SETTINGS_MODULE", "") or "").partition(".")[0]
    module = sys.modules.get(top)
    place = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", [])), "")
    if os.path.basename(place) == "__init__.py":
        place = os.path.dirname(place)
    directory = os.path.dirname(place)
    return "" if os.path.basename(directory) == "site-packages" else directory
