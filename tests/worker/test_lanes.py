"""When a worker looks for queues that are new."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from skipper_django.core.config import Config
from skipper_django.store.database import Database
from skipper_django.worker import lanes, upkeep
from skipper_django.worker.lanes import Lanes
from skipper_django.worker.upkeep import UpkeepThread
from tests.store.support import row, save

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(lanes, "monotonic", lambda: now[0])
    return now


def test_a_look_that_is_wanted_is_told_of_until_it_is_taken(alias: str, now: list[float]) -> None:
    found = Lanes(Database(alias), "default", ())
    found.refresh()
    assert not found.is_told

    found.look_again()
    found.refresh()
    assert found.is_told, "it looked just before"

    now[0] += lanes.LOOK_AGAIN_AFTER_SECONDS
    found.refresh()
    assert not found.is_told


def test_who_names_the_queues_looks_for_no_other(alias: str, now: list[float]) -> None:
    named = Lanes(Database(alias), "default", ("mail",))
    assert not named.look_again()
    named.refresh()
    assert not named.is_told


@pytest.mark.parametrize("is_woken", [False, True])
def test_a_new_queue_is_told_of_once(alias: str, now: list[float], is_woken: bool) -> None:
    database = Database(alias)
    found = Lanes(database, "default", ())
    found.is_woken = is_woken
    found.on_new = mock.Mock()
    found.refresh()
    save(database, row(queue_name="never seen"))

    now[0] += lanes.LOOK_EVERY_SECONDS
    found.refresh()
    assert found.on_new.call_count == (not is_woken)
    now[0] += lanes.LOOK_RARELY_SECONDS
    found.refresh()
    now[0] += lanes.LOOK_RARELY_SECONDS
    found.refresh()

    assert found.on_new.call_count == 1
    assert "never seen" in found.current().values()


def test_a_long_prune_rests_for_longer(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It walks through all rows that are kept longer than those that it deletes."""
    now = [100.0]
    monkeypatch.setattr(upkeep, "monotonic", lambda: now[0])
    database, config = Database(alias), Config(database=alias, retention=600.0)
    rests: list[float] = []

    def prune_for(seconds: float) -> list[float]:
        rests.clear()

        def prune(stop: Any) -> None:
            now[0] += seconds

        janitor = mock.Mock(prune=prune)
        thread = UpkeepThread(database, janitor, mock.Mock(), mock.Mock(), config, lambda: None)
        monkeypatch.setattr(thread._pruning, "rest", rests.append)
        thread._prune()
        return rests

    assert prune_for(1.0) == [], "once a minute"
    assert prune_for(6.0) == [300.0]
