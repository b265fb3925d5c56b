"""An error that will not pass by itself ends neither the upkeep nor the heartbeat of a worker."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.db import DataError

from skipper_django.core.states import TaskState
from skipper_django.models import Task
from skipper_django.store import members, upkeep
from tests import tasks
from tests.factories import add_task
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_upkeep_and_heartbeat_go_on_after_an_unexpected_error(
    alias: str,
    start_worker: Any,
    wait_for_state: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain_promote, plain_look = upkeep.promote, members.all_of
    failures = {"promote": 0, "look": 0}

    def promote(*args: Any) -> int:
        failures["promote"] += 1
        if failures["promote"] <= 2:
            raise DataError("a row of nonsense")
        return plain_promote(*args)

    def look(*args: Any) -> Any:
        failures["look"] += 1
        if failures["look"] == 2:
            raise DataError("a member of nonsense")
        return plain_look(*args)

    monkeypatch.setattr(upkeep, "promote", promote)
    monkeypatch.setattr(members, "all_of", look)
    worker = start_worker(settings={"cluster_heartbeat_interval": 0.1})

    due = add_task(alias, "default", TaskState.SCHEDULED, name=tasks.noop.module_path)
    wait_for_state(due, Task.State.SUCCESSFUL)
    wait_until(lambda: failures["look"] > 4)

    worker.stop()
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert sorted(errors) == [
        "the heartbeat failed and is tried again",
        "upkeep failed and is tried again",
    ]
