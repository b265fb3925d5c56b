"""Start the database servers before pytest-django reads the settings (loaded with `-p`).

SKIPPER_TEST_DATABASES      which to test on: names out of sqlite, mariadb, mysql, postgresql
SKIPPER_REQUIRE_DATABASES   1 (or CI=true): one that cannot be had ends the run, else it is skipped
                            (PgBouncer as well: without it only its own tests fail, or are skipped)
SKIPPER_TEST_<NAME>_URL     user:password@host:port of a server to use instead of a private one
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests import servers

NAMES = ("sqlite", *servers.ALIASES)
SQLITE_DIRECTORY = "SKIPPER_TEST_SQLITE_DIRECTORY"

missing: dict[str, str] = {}
"""Why each database that is not tested on is not."""


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config,
) -> Generator[None, object, object]:
    # A wrapper runs before pytest-django's own hook, which loads the settings.
    if not _only_asks(early_config) and not _distributes(early_config):
        _start(early_config)
    return (yield)


def pytest_report_header(config: pytest.Config) -> list[str]:
    if _distributes(config):
        return ["databases: each process has its own; the summary tells what was skipped, and why"]
    tested = ", ".join(name for name in NAMES if name not in missing)
    return [f"databases: {tested}", *(f"no {name}: {reason}" for name, reason in missing.items())]


def _only_asks(config: pytest.Config) -> bool:
    options = config.known_args_namespace
    return any(getattr(options, name, False) for name in ("collectonly", "help", "version"))


def _distributes(config: pytest.Config) -> bool:
    """Is this the process that only hands out tests to others, which have servers of their own?"""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    return not is_worker and bool(getattr(config.known_args_namespace, "numprocesses", 0))


def _start(config: pytest.Config) -> None:
    wanted = _wanted()
    started = servers.start([alias for alias in servers.ALIASES if alias in wanted])
    config.add_cleanup(started.stop)
    if started.missing and is_required():
        started.stop()
        reasons = "; ".join(f"{alias}: {reason}" for alias, reason in started.missing.items())
        raise pytest.UsageError(f"a required database cannot be had: {reasons}")
    missing.update({name: "not in SKIPPER_TEST_DATABASES" for name in NAMES if name not in wanted})
    missing.update(started.missing)
    _export(config, started)


def _wanted() -> set[str]:
    names = os.environ.get("SKIPPER_TEST_DATABASES", "").replace(",", " ").split() or NAMES
    if unknown := set(names) - set(NAMES):
        raise pytest.UsageError(f"SKIPPER_TEST_DATABASES: no such database {sorted(unknown)}")
    return set(names)


def is_required() -> bool:
    return os.environ.get("SKIPPER_REQUIRE_DATABASES") == "1" or os.environ.get("CI") == "true"


def _export(config: pytest.Config, started: servers.Servers) -> None:
    # The settings read these, in this process and in the ones that tests start.
    directory = Path(tempfile.mkdtemp(prefix="skipper-sqlite-"))
    owner = os.getpid()
    os.environ[SQLITE_DIRECTORY] = str(directory)
    config.add_cleanup(lambda: _remove(directory, owner))
    for alias in servers.ALIASES:
        variable = servers.address_variable(alias)
        if alias in started.servers:
            os.environ[variable] = started.servers[alias].address
        else:
            os.environ.pop(variable, None)


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
