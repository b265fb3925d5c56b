"""Many members with nothing to do (R39): what they ask of the database, and how soon they begin."""

from __future__ import annotations

from collections import Counter

import pytest

from chaos.bed import Bed, now

MEMBERS = 50
# Statements a second and member, as docs/performance.md has them.
BUDGET = {"postgresql": 2.0, "mariadb": 15.0, "mysql": 15.0, "sqlite": 10.0}
VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "LISTEN")
DEFAULTS = {
    "LEASE_DURATION": 60,
    "CLUSTER_LIVENESS_WINDOW": 60,
    "CLUSTER_HEARTBEAT_INTERVAL": 10,
    "STEAL_AFTER": 5,
}


@pytest.mark.long
@pytest.mark.fault(
    f"{MEMBERS} idle members that were started together",
    "statements within their budget and not in step; the next task is begun at once",
)
def test_many_idle_members(bed: Bed) -> None:
    arguments = ("--processes", str(MEMBERS), "--concurrency", "1")
    bed.worker(*arguments, skipper=DEFAULTS, note_statements=True)
    bed.wait_for_members(MEMBERS, 60)
    bed.pause(12.0)  # until they have come to their longest rest
    start = now()
    bed.pause(20.0)
    end = now()

    numbers = bed.enqueue(1)
    added = now()
    bed.wait_until_done()

    moments = [effect.at for effect in bed.effects.read(*VERBS) if start <= effect.at < end]
    mean, busiest = len(moments) / (end - start), max(Counter(map(int, moments)).values())
    recovery = bed.effects.recovery(end, numbers) - (added - end)
    bed.audit(max(0.0, recovery), note=f"{mean / MEMBERS:.1f} statements a second each")
    assert mean / MEMBERS <= BUDGET[bed.alias]
    assert busiest <= 4 * mean, "they are in step"
    assert recovery <= 1.0
