"""Options, the databases, and the table at the end."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import django
import pytest

os.environ["DJANGO_SETTINGS_MODULE"] = "chaos.settings"
django.setup()

from django.core.management import call_command  # noqa: E402

from benchmarks import machine  # noqa: E402
from chaos import report  # noqa: E402
from chaos.bed import Bed  # noqa: E402
from chaos.databases import NAMES, SERVERS, Database  # noqa: E402
from chaos.link import Link  # noqa: E402
from tests.guards import Unavailable  # noqa: E402

rows: list[report.Row] = []
versions: dict[str, str] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaos")
    group.addoption("--short", action="store_true", help="each fault once, on one database")
    group.addoption("--database", action="append", choices=NAMES, help="only on this one")
    group.addoption("--seed", type=int, default=secrets.randbelow(10**6), help="of all chances")


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.getoption('--seed')}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A scenario runs on each database on which its fault can happen."""
    if "database" in metafunc.fixturenames:
        only = metafunc.definition.get_closest_marker("only")
        chosen = metafunc.config.getoption("--database") or NAMES
        names = [name for name in (only.args if only else NAMES) if name in chosen]
        metafunc.parametrize("database", names, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The short form: each scenario on one database, taken in turn."""
    if not config.getoption("--short"):
        return
    scenarios: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not item.get_closest_marker("long"):
            name = item.nodeid.replace(_database_of(item), "")
            scenarios.setdefault(name, []).append(item)
    kept = {found[index % len(found)] for index, found in enumerate(scenarios.values())}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _database_of(item: pytest.Item) -> str:
    return str(item.callspec.params["database"])  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def database(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Database]:
    try:
        database = Database(request.param, tmp_path_factory.mktemp(request.param))
    except Unavailable as error:
        if os.environ.get("SKIPPER_REQUIRE_DATABASES") == "1":
            raise
        pytest.skip(f"no {request.param}: {error}")
    call_command("migrate", database=database.name, verbosity=0)
    versions[database.name] = database.version()
    yield database
    database.close()


@pytest.fixture
def bed(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> Iterator[Bed]:
    seed = f"{request.config.getoption('--seed')}/{request.node.name}"
    bed = Bed(database, tmp_path, Random(seed), request.config.getoption("--short"))
    yield bed
    bed.close()
    marker = request.node.get_closest_marker("fault")
    if bed.audited is not None and marker is not None:
        params = request.node.callspec.params
        bed.audited.scenario = request.node.nodeid
        bed.audited.fault, bed.audited.promise = (text.format(**params) for text in marker.args)
        rows.append(bed.audited)


@pytest.fixture
def link(bed: Bed) -> Iterator[Link]:
    """Between one worker and the server; the rest of the cluster goes straight to it."""
    assert bed.alias in SERVERS
    link = Link("127.0.0.1", bed.database.port, bed.rng)
    yield link
    link.speak()
    link.down()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("--short"):
        report.LAST = report.LAST.with_name("short.json")  # the pages show the full form
    for name, version in versions.items():
        report.save(name, _run_on(name, version, terminalreporter, config))
    if versions:
        terminalreporter.write_line("")
        terminalreporter.write_line(report.render(report.load(list(versions))))


def _run_on(name: str, version: str, reporter: Any, config: pytest.Config) -> report.Run:
    """What this run saw on a database; a part (`-k`) replaces that part of the run before."""
    form = "short" if config.getoption("--short") else "full"
    if part := config.getoption("keyword"):
        form = f"part of the {form} form ({part})"
    facts = machine.describe()
    circumstances = f"{form}, seed {config.getoption('--seed')}, {facts['date']}"
    on = f"{facts['processor']}; {facts['system']}; {facts['software']}"
    bad = [*reporter.getreports("failed"), *reporter.getreports("error")]
    failed = [found.nodeid for found in bad if f"[{name}" in found.nodeid]
    passed = [row for row in rows if row.database == name]
    run = report.Run(version, on, [circumstances], failed, passed)
    if not config.getoption("keyword"):
        return run
    ran = {*failed, *(row.scenario for row in passed)}
    before = report.last(name)
    return run.replacing(before, ran) if before else run
