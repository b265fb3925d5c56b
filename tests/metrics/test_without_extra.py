"""Without the `prometheus` extra nothing of it is imported, and everything else works."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from skipper_django.store.database import Database
from tests.store.support import row, save

pytestmark = pytest.mark.django_db(transaction=True)

BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("prometheus_client", "django_prometheus"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""
SETUP = """
import sys
import django
from django.core.management import CommandError, call_command
django.setup()
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"},
    )


def test_a_worker_runs_tasks() -> None:
    task = save(Database("default"), row())[0]

    done = run(f"{BLOCKER}{SETUP}call_command('skipper_worker', '--drain')")

    assert done.returncode == 0, done.stderr
    task.refresh_from_db()
    assert task.status == task.State.SUCCESSFUL


def test_an_embedded_worker_runs_tasks() -> None:
    task = save(Database("default"), row())[0]

    done = run(
        f"{BLOCKER}{SETUP}"
        "from skipper_django.embed import start_worker\n"
        "from skipper_django.models import Task\n"
        "from tests.waiting import wait_until\n"
        "handle = start_worker()\n"
        "wait_until(lambda: Task.objects.filter(status=Task.State.SUCCESSFUL).exists())\n"
        "assert handle.stop()\n"
    )

    assert done.returncode == 0, done.stderr
    task.refresh_from_db()
    assert task.status == task.State.SUCCESSFUL


def test_the_option_says_what_to_install() -> None:
    done = run(f"{BLOCKER}{SETUP}call_command('skipper_worker', '--metrics-port', '0')")

    assert done.returncode == 1
    assert "CommandError: --metrics-port needs the extra: pip install" in done.stderr
    assert "skipper-django[prometheus]" in done.stderr


def test_where_it_is_installed_nothing_is_imported_unless_asked_for() -> None:
    done = run(
        f"{SETUP}call_command('skipper_worker', '--drain')\n"
        "loaded = [name for name in sys.modules if 'prometheus' in name or '.metrics' in name]\n"
        "assert not loaded, loaded\n"
    )

    assert done.returncode == 0, done.stderr
