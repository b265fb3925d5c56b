"""Workers that are killed, and workers that are stopped for too long."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from chaos.bed import Bed, now
from skipper_django.models import Member
from tests.waiting import wait_until

CONCURRENCY = 4


@pytest.mark.fault("SIGKILL, idle worker", "its range is served by the other")
def test_sigkill_idle(bed: Bed) -> None:
    victim, _ = bed.pair()

    victim.kill()
    killed = now()
    bed.enqueue(40)

    bed.wait_until_done()
    bed.audit(bed.effects.recovery(killed))


@pytest.mark.parametrize("point", ["claiming", "claimed", "settling"])
@pytest.mark.fault("SIGKILL, {point}", "what it held runs again; nothing that had not begun twice")
def test_sigkill_at_a_point(bed: Bed, tmp_path: Path, point: str) -> None:
    halted = tmp_path / "halted"
    victim, _ = bed.pair(halt={"point": point, "file": str(halted)})
    bed.enqueue(40)
    wait_until(halted.exists, 20, f"the worker is {point}")
    held = bed.held_by("victim")
    assert bool(held) == (point != "claiming")

    victim.kill()
    killed = now()

    bed.wait_until_done()
    bed.audit(
        bed.effects.recovery(killed, held or None),
        may_double=len(held) if point == "settling" else 0,
    )


@pytest.mark.parametrize("where", ["same", "another"])
@pytest.mark.fault("SIGKILL, running, seen from {where} host", "what it ran runs again")
def test_sigkill_running(bed: Bed, where: str) -> None:
    victim, _ = bed.pair(**({"host": "far away"} if where == "another" else {}))
    bed.enqueue(4 * CONCURRENCY, 1.0)
    bed.wait_for_begun(2 * CONCURRENCY)
    pids = victim.children
    held = bed.held_by("victim")

    victim.kill()
    killed = now()
    held |= bed.effects.unfinished(pids)  # what it took between the two

    bed.wait_until_done()
    recovery = bed.effects.recovery(killed, held)
    assert recovery < 3 * bed.limit
    bed.audit(recovery, may_double=len(held))


@pytest.mark.fault("SIGKILL of one of three every 2 s", "the others go on; longest pause measured")
def test_sigkill_again_and_again(bed: Bed) -> None:
    running = [bed.worker() for _ in range(3)]
    bed.wait_for_members(3)
    start = now()

    kills = 2 if bed.short else 10
    with bed.load():
        for _ in range(kills):
            bed.pause(2.0)
            victim = running.pop(bed.rng.randrange(3))
            victim.kill()
            running.append(bed.worker())
    end = now()

    bed.wait_until_done()
    pause = bed.effects.longest_pause(start, end)
    assert pause < 2.0
    bed.audit(pause, may_double=kills * CONCURRENCY)


@pytest.mark.parametrize("row", [pytest.param("kept", marks=pytest.mark.long), "purged"])
@pytest.mark.fault(
    "SIGSTOP beyond lease and window, its row {row}",
    "late result refused; it starts nothing before it has beaten again",
)
def test_sigstop(bed: Bed, row: str) -> None:
    victim, _ = bed.pair(note_beats=True)
    bed.enqueue(4 * CONCURRENCY, 1.0)
    bed.wait_for_begun(2 * CONCURRENCY)

    pid, _ = victim.children  # not its stand-in, which must not help a stopped one
    os.kill(pid, signal.SIGSTOP)
    stopped = now()
    held = bed.held_by("victim")
    bed.wait_until_done()
    recovery = bed.effects.recovery(stopped, held)
    if row == "purged":
        Member.objects.using(bed.alias).filter(member_id="victim").delete()
    bed.pause(max(0.0, stopped + bed.limit + 1 - now()))
    continued = now()
    os.kill(pid, signal.SIGCONT)
    bed.enqueue(40, 0.1)

    victim.wait_for_log("lost its lease; its outcome will be discarded")
    if row == "purged":
        victim.wait_for_log("member victim has joined again")
    bed.wait_until_done()
    beats = [beat.at for beat in bed.effects.read("beat") if beat.at > continued]
    begun = [e.at for e in bed.effects.read("begun") if e.pid == pid and e.at > continued]
    assert all(moment > beats[0] for moment in begun)
    bed.audit(recovery, may_double=len(held))
