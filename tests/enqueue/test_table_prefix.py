"""TABLE_PREFIX names every table, index and constraint, and the migrations stay clean."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import call_command

from tests.contract.test_settings import python

SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.enqueue.other_prefix"}
PROGRAM = """
import django
django.setup()
from django.core.management import call_command
from django.db import connection
from skipper_django import enqueue_many
from skipper_django.testing import run_ready
from tests.contract import tasks
call_command("makemigrations", "skipper_django", check=True, dry_run=True, verbosity=0)
call_command("migrate", verbosity=0)
call_command("check", databases=["default"], fail_level="WARNING")
result = tasks.other.using(task_id="own").enqueue("kept")
enqueue_many([(tasks.other, [1]), (tasks.other, [2])])
assert run_ready() == 3
result.refresh()
assert result.return_value == "kept"
print(*connection.introspection.table_names(), sep=",")
"""


def test_another_prefix_works_from_migrate_to_result(tmp_path: Path) -> None:
    path = str(tmp_path / "other.sqlite3")

    tables = python(PROGRAM, **SETTINGS, OTHER_PREFIX_DATABASE=path).splitlines()[-1].split(",")

    assert "fifteen_lettersscheduler_tasks" in tables
    assert not [name for name in tables if name.startswith("skipper_")]


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", "skipper_django", check=True, dry_run=True, verbosity=0)
