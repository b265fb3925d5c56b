"""What is measured of each queue under comparison, ours included, by the same calls."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.contender import Contender, PeerFailed, Workers
from benchmarks.databases import StatementCounter
from benchmarks.effects import Effect, middle_rate
from benchmarks.processes import wait_until

Figures = dict[str, float]

REST_SECONDS = (0.3, 0.8)
PATIENCE_SECONDS = 120.0
PROBE = 300  # tasks whose rate tells how many make a drain
MOST = 40_000


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sizes of one round; each drain is to take about `seconds`."""

    seconds: float = 2.0
    processes: tuple[int, ...] = (1, 2, 4)
    bulk: int = 10_000
    samples: int = 20  # of the pick-up latency
    idle_seconds: float = 10.0
    waiting: int = 100_000  # the backlog, and the deferred tasks
    window_seconds: float = 6.0  # of a drain from a backlog


QUICK = Plan(
    seconds=0.5,
    processes=(1, 2),
    bulk=1_000,
    samples=4,
    idle_seconds=1.0,
    waiting=2_000,
    window_seconds=1.5,
)


def enqueue(contender: Contender, plan: Plan) -> Figures:
    contender.clear()
    contender.call("one", 0)  # opens the connection
    figures = {"enqueue_single": contender.call("singles", plan.seconds / 2)}
    if contender.peer.bulk:
        contender.clear()
        figures["enqueue_bulk"] = contender.call("fill", 0, plan.bulk)
    return figures


def drain(contender: Contender, plan: Plan) -> Figures:
    """The rate of starts over their middle 90 %, once all of them were counted."""
    count = _drain_size(contender, plan)
    figures = {
        f"drain_{processes}": middle_rate(_drained(contender, count, processes))
        for processes in plan.processes
    }
    return {**figures, "drain_tasks": count}


def statements(contender: Contender, plan: Plan) -> Figures:
    """Statements a task in a drain by one process, its start included."""
    if not _countable(contender):
        return {}
    count = _drain_size(contender, plan)
    with _counter(contender) as counter:
        contender.clear()
        contender.call("fill", 0, count)
        before = counter.read()
        with contender.workers(1) as workers:
            wait_until(lambda: workers.reached(count), PATIENCE_SECONDS)
            time.sleep(0.5)  # for what it has yet to store; asking it would be counted, too
            total = counter.read() - before
            _finish(contender, workers, count)
    contender.effects.check(range(count))
    return {"statements_per_task": total / count}


def idle(contender: Contender, plan: Plan) -> Figures:
    """From commit to start at random moments, and what an idle worker costs."""
    contender.clear()
    figures: Figures = {}
    with contender.workers(1) as workers:
        latencies = [_pick_up(contender, workers, number) for number in range(plan.samples + 1)]
        ordered = sorted(latencies[1:])
    for percent in (50, 95, 99):
        at = min(len(ordered) - 1, int(len(ordered) * percent / 100))
        figures[f"pick_up_p{percent}"] = ordered[at] * 1000
    contender.effects.check(range(plan.samples + 1))
    return {**figures, **_idle_cost(contender, plan)}


def _idle_cost(contender: Contender, plan: Plan) -> Figures:
    """A worker that has once been busy and has come to rest."""
    countable = _countable(contender)
    contender.clear()
    with _counter(contender) if countable else _Nothing() as counter:  # noqa: SIM117
        with contender.workers(1) as workers:
            contender.call("one", 0)
            wait_until(lambda: workers.reached(1), PATIENCE_SECONDS)
            time.sleep(1.0)
            begun, cpu, before = time.monotonic(), workers.cpu_seconds(), counter.read()
            time.sleep(plan.idle_seconds)
            passed = time.monotonic() - begun
            cpu, total = workers.cpu_seconds() - cpu, counter.read() - before
    figures = {"idle_cpu": 100 * cpu / passed}
    return {**figures, "idle_statements": total / passed} if countable else figures


def backlog(contender: Contender, plan: Plan) -> Figures:
    """The rate of two processes in front of many waiting tasks, over a window."""
    if not contender.peer.backlog:
        return {}
    contender.clear()
    contender.call("fill", 0, plan.waiting)
    return {"drain_backlog": _window(contender, plan.waiting, plan)}


def deferred(contender: Contender, plan: Plan) -> Figures:
    """The rate of two processes behind many tasks that are due later, over a window."""
    if not contender.peer.deferring:
        return {}
    contender.clear()
    contender.call("defer", plan.waiting)
    due = max(PROBE, plan.bulk)
    contender.call("fill", 0, due)
    return {"drain_deferred": _window(contender, due, plan)}


PARTS: dict[str, Callable[[Contender, Plan], Figures]] = {
    part.__name__: part for part in (enqueue, drain, statements, idle, backlog, deferred)
}


def _drain_size(contender: Contender, plan: Plan) -> int:
    """How many tasks take about `seconds`, by a first short drain."""
    if contender.drain_size is None:
        probed = middle_rate(_drained(contender, PROBE, 1))
        contender.drain_size = max(PROBE, min(MOST, int(probed * plan.seconds)))
    return contender.drain_size


def _drained(contender: Contender, count: int, processes: int) -> list[Effect]:
    contender.clear()
    contender.call("fill", 0, count)
    with contender.workers(processes) as workers:
        _finish(contender, workers, count)
    return contender.effects.check(range(count))


def _finish(contender: Contender, workers: Workers, count: int) -> None:
    """All tasks were called, and the queue knows it; PeerFailed if that takes too long."""
    try:
        wait_until(lambda: workers.reached(count), PATIENCE_SECONDS)
        wait_until(lambda: contender.call("left") == 0, PATIENCE_SECONDS)
    except TimeoutError:
        done, left = len(contender.effects), contender.call("left")
        raise PeerFailed(f"{done} of {count} called, {left} left after a long time") from None


def _window(contender: Contender, count: int, plan: Plan) -> float:
    with contender.workers(2) as workers:
        wait_until(lambda: workers.reached(1), PATIENCE_SECONDS)
        end = time.monotonic() + plan.window_seconds
        wait_until(lambda: workers.reached(count) or time.monotonic() > end, PATIENCE_SECONDS)
    effects = contender.effects.check_no_double()
    within = [effect for effect in effects if effect.started <= end]
    return middle_rate(within)


def _pick_up(contender: Contender, workers: Workers, number: int) -> float:
    time.sleep(random.uniform(*REST_SECONDS))
    committed: float = contender.call("one", number)
    wait_until(lambda: workers.reached(number + 1), PATIENCE_SECONDS)
    return max(0.0, contender.effects.read()[-1].started - committed)


def _countable(contender: Contender) -> bool:
    """Whether its statements can be counted: on servers, and below Django on SQLite."""
    target = contender.place.target
    return target is not None and (target.server is not None or contender.peer.uses_django)


def _counter(contender: Contender) -> StatementCounter:
    assert contender.place.target is not None
    return StatementCounter(contender.place.target)


class _Nothing:
    """Counts nothing, where nothing can be counted."""

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def read(self) -> int:
        return 0
