"""SIGTERM at any moment, from before the first heartbeat to the last settle."""

from __future__ import annotations

import pytest

from chaos.bed import FINAL, Bed, State, now
from skipper_django.models import Member, Task

TIMES = 50  # on each of four databases
LIMIT = 5.0


@pytest.mark.fault(
    "SIGTERM at a random moment", "ends within its limit, leaves nothing RUNNING, counts no attempt"
)
def test_sigterm(bed: Bed) -> None:
    rows = Task.objects.using(bed.alias)
    slowest = 0.0
    for _ in range(10 if bed.short else TIMES):
        # Long enough for some to run and some to wait at any moment of the first 2 s.
        bed.enqueue(20, 0.2)
        worker = bed.worker("--concurrency", "2", "--shutdown-timeout", f"{LIMIT:g}")
        bed.pause(bed.rng.uniform(0.0, 1.5))

        worker.terminate()
        asked = now()
        status = worker.wait(LIMIT + 10)

        slowest = max(slowest, now() - asked)
        # Before Python has come to the handler there is nothing to hand back.
        assert status in (0, -15)
        assert slowest < LIMIT
        assert not rows.filter(status=State.RUNNING).exists()
        assert not Member.objects.using(bed.alias).exists()
    open_rows = rows.exclude(status__in=FINAL)
    assert not open_rows.filter(attempts__gt=0).exists()

    bed.worker("--drain", "--concurrency", "50").wait(120)
    bed.audit(slowest, note=f"{len(bed.workers) - 1} times, the slowest end measured")
