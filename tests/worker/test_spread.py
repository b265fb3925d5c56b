"""Members that were started together do not ask the database together for ever."""

from __future__ import annotations

import pytest

from skipper_django import janitor
from skipper_django.core.config import Config
from skipper_django.janitor import Timer
from skipper_django.store.clock import clock_of
from skipper_django.store.database import Database
from skipper_django.worker.cluster import Cluster
from skipper_django.worker.registration import Applicant

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.case("R39")]


def test_a_timer_runs_at_about_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(janitor, "monotonic", lambda: 100.0)
    timers = [Timer(10.0, lambda: None) for _ in range(50)]

    for timer in timers:
        timer.run()

    due = [timer._due for timer in timers]
    assert 109.0 <= min(due) < 110.0 < max(due) <= 111.0


@pytest.mark.parametrize("alias", ["default"], ids=["sqlite"])
def test_heartbeats_are_early_by_a_little_and_never_late(
    alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    applicant = Applicant("web", False, (), 1)
    cluster = Cluster(
        Database(alias), Config(database=alias), clock_of(alias), applicant, lambda: True
    )
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 50:
            cluster._stop.set()

    monkeypatch.setattr(cluster._wake, "wait", wait)
    monkeypatch.setattr(cluster, "beat", lambda: None)

    cluster._run()

    assert 9.0 <= min(waits) < 9.5 < max(waits) <= 10.0
