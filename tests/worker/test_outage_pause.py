"""How long an outage lets its thread sleep between two tries, and what it says of it."""

from __future__ import annotations

import logging

import pytest
from django.db import InterfaceError

from skipper_django.store.database import Database
from skipper_django.worker.outage import LONGEST_PAUSE_SECONDS, Outage
from skipper_django.worker.shutdown import Flag

AWAY = "database unavailable while trying to beat, trying again: the database is away"
BACK = "database is back: can beat again"


class Stop(Flag):
    """Notes how long it was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return False


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("chosen", "longest"), [(1.0, 1.0), (60.0, LONGEST_PAUSE_SECONDS)], ids=["chosen", "bounded"]
)
def test_pauses_grow_up_to_a_limit(chosen: float, longest: float) -> None:
    outage, stop = Outage(Database("default"), "web", "beat", chosen), Stop()

    for _ in range(12):
        with outage.survived():
            raise InterfaceError("the database is away")
        outage.pause(stop)

    assert max(stop.waited) <= longest
    assert max(stop.waited[-6:]) >= longest / 2
    assert stop.waited[0] <= 0.2


@pytest.mark.django_db(transaction=True)
def test_what_asks_nothing_does_not_pass_for_the_end_of_an_outage(
    alias: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    database = Database(alias)
    outage = Outage(database, "web", "beat")
    for _ in range(2):
        with outage.survived():
            raise InterfaceError("the database is away")
        with outage.survived():
            pass
    assert [record.getMessage() for record in caplog.records] == [AWAY]

    with outage.survived():
        database.rows("SELECT 1")

    assert [record.getMessage() for record in caplog.records] == [AWAY, BACK]
