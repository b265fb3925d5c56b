"""Tasks that harm the process they run in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from chaos import tasks
from chaos.bed import Bed, now
from skipper_django.models import Task
from tests.waiting import wait_until

KILLERS = {
    "segfaults": tasks.segfault,
    "exits the process": tasks.exit_process,
    "is killed for memory": tasks.die_for_memory,
}
FAILING = {
    "ignores its timeout": (tasks.ignore_timeout, "timeout"),
    "returns what is no JSON": (tasks.return_object, "bad_result"),
    "returns 2 MB": (tasks.return_huge, "bad_result"),
}
DIRTY = {
    "forks, and the child returns": tasks.fork,
    "leaves a transaction open": tasks.leave_transaction_open,
    "changes session settings": tasks.change_session,
    "breaks its connection": tasks.break_connection,
    "closes all connections": tasks.close_all,
    "writes 20 MB to stderr": tasks.fill_stderr,
}


def mostly_long(poisons: Iterable[str]) -> list[Any]:
    """Only the first of its kind is in the short form."""
    first, *others = poisons
    return [first, *(pytest.param(other, marks=pytest.mark.long) for other in others)]


@pytest.mark.parametrize("what", mostly_long(KILLERS))
@pytest.mark.fault("a task that {what}", "worker_lost after three; neighbours run")
def test_killers(bed: Bed, what: str) -> None:
    bed.worker("--concurrency", "2")
    bed.worker("--concurrency", "2")
    bed.wait_for_members(2)
    before = bed.enqueue(20, 0.05)
    (poison,) = bed.enqueue(1, task=KILLERS[what])
    bed.enqueue(20, 0.05)
    start = now()

    bed.wait_until_done()
    ended = now()
    assert bed.effects.calls()[poison] == 3
    # Each of three deaths takes what ran beside it, or had ended and was not stored yet.
    bed.audit(ended - start, may_double=12, failed={poison: "worker_lost"})
    assert before <= bed.effects.done()


@pytest.mark.parametrize("what", mostly_long(FAILING))
@pytest.mark.fault("a task that {what}", "it alone fails, with its reason; neighbours run")
def test_failing(bed: Bed, what: str) -> None:
    task, reason = FAILING[what]
    bed.worker("--concurrency", "2", "--shutdown-timeout", "5")
    bed.wait_for_members(1)
    start = now()
    (poison,) = bed.enqueue(1, task=task)
    others = bed.enqueue(20, 0.05)

    bed.wait_until_done()
    assert bed.effects.calls()[poison] == 1
    bed.audit(bed.effects.recovery(start, others), failed={poison: reason})


@pytest.mark.parametrize("what", mostly_long(DIRTY))
@pytest.mark.fault("a task that {what}", "the process lives on; the next in its thread run")
def test_dirty(bed: Bed, what: str) -> None:
    worker = bed.worker("--concurrency", "1")
    bed.wait_for_members(1)
    processes = worker.children
    start = now()
    poisons = bed.enqueue(3, task=DIRTY[what])
    others = bed.enqueue(20, task=tasks.query)

    bed.wait_until_done()
    assert worker.children == processes, "the process lives on, alone"
    wait_until(lambda: poisons <= bed.effects.done())
    bed.audit(bed.effects.recovery(start, others))


@pytest.mark.fault(
    "a task that keeps the interpreter beyond its timeout", "it alone fails, with its reason"
)
def test_interpreter_kept_beyond_the_timeout(bed: Bed) -> None:
    bed.worker("--concurrency", "1")
    bed.wait_for_members(1)
    start = now()
    (poison,) = bed.enqueue(1, 60.0, task=tasks.keep_interpreter_beyond_timeout)
    others = bed.enqueue(20, 0.05)

    bed.wait_until_done()
    assert bed.effects.calls()[poison] == 1
    bed.audit(bed.effects.recovery(start, others), failed={poison: "timeout"})


@pytest.mark.long
@pytest.mark.fault(
    "a task that keeps the interpreter for twice the lease and the window",
    "its stand-in keeps lease and member alive: nothing twice",
)
def test_interpreter_kept(bed: Bed) -> None:
    keeper, _ = bed.pair()
    bed.enqueue(4, 2 * bed.limit, task=tasks.keep_interpreter)
    start = now()
    bed.wait_for_begun(1)
    others = bed.enqueue(40)

    bed.wait_until_done(120)
    assert not Task.objects.using(bed.alias).filter(lost_leases__gt=0).exists()
    assert keeper.is_running
    bed.audit(bed.effects.recovery(start, others))
