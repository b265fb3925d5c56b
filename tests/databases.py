"""More databases than the settings name, for as long as a test needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections


@contextmanager
def sqlite_database(alias: str, path: str) -> Iterator[str]:
    """A SQLite file under an alias of its own."""
    with _registered(alias, {**connections.settings["default"], "NAME": path}):
        yield alias


@contextmanager
def server_database(server: str, alias: str, suffix: str) -> Iterator[str]:
    """A database of its own on the server of another alias; `suffix` ends CREATE DATABASE."""
    with connections[server].cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {alias}")
        cursor.execute(f"CREATE DATABASE {alias} {suffix}")
    try:
        with _registered(alias, {**connections.settings[server], "NAME": alias}):
            yield alias
    finally:
        with connections[server].cursor() as cursor:
            cursor.execute(f"DROP DATABASE {alias}")


@contextmanager
def _registered(alias: str, values: dict[str, Any]) -> Iterator[None]:
    connections.settings[alias] = values
    try:
        yield
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]
