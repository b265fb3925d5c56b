"""Clocks that are wrong, clocks that jump, sessions in other time zones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.bed import Bed, now
from chaos.databases import SERVERS

HOUR = 3600


@pytest.mark.parametrize("hours", [1, pytest.param(-1, marks=pytest.mark.long)])
@pytest.mark.fault("host clock of one worker wrong by {hours} h", "no effect")
def test_host_clock(bed: Bed, hours: int) -> None:
    bed.pair(wall_clock=hours * HOUR)
    start = now()

    with bed.load():
        bed.pause(3.0)

    bed.wait_until_done()
    bed.audit(bed.effects.longest_pause(start, now()))


@pytest.mark.parametrize("hours", [1, pytest.param(-1, marks=pytest.mark.long)])
@pytest.mark.fault(
    "database clock stepped by {hours} h under load",
    "leases may end early, and then are fenced; ready tasks go on",
)
def test_database_clock(bed: Bed, tmp_path: Path, hours: int) -> None:
    clock = tmp_path / "clock"
    clock.write_text("0")
    for _ in range(2):
        bed.worker(database_clock=str(clock))
    bed.wait_for_members(2)

    with bed.load():
        bed.wait_for_begun(50)
        clock.write_text(str(hours * HOUR))
        stepped = now()
        bed.pause(4.0)
    end = now()

    bed.wait_until_done()
    bed.audit(bed.effects.longest_pause(stepped, end), may_double=16 if hours > 0 else 0)


ZONES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    name: (
        {"init_command": "SET time_zone = '-11:00'"},
        {"init_command": "SET time_zone = '+13:00'"},
    )
    for name in ("mariadb", "mysql")
} | {
    "postgresql": (
        {"options": "-c timezone=Pacific/Pago_Pago"},
        {"options": "-c timezone=Pacific/Tongatapu"},
    )
}


@pytest.mark.only(*SERVERS)
@pytest.mark.fault("sessions of two workers 24 hours of time zone apart", "no effect")
def test_session_time_zones(bed: Bed) -> None:
    west, east = ZONES[bed.alias]
    # Under the entry's own zone Django leaves that of the session alone.
    zones = ("Pacific/Pago_Pago", "Pacific/Tongatapu")
    for options, zone in zip((west, east), zones, strict=True):
        bed.worker(entry={**bed.database.django(**options), "TIME_ZONE": zone})
    bed.wait_for_members(2)
    start = now()

    with bed.load():
        bed.pause(3.0)

    bed.wait_until_done()
    bed.audit(bed.effects.longest_pause(start, now()))
