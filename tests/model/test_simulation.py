"""Whole workers, interleaved at every statement, as a seed has it.

SKIPPER_SEED    the one seed to run, as a failure prints it
SKIPPER_SEEDS   how many seeds to run; `make chaos` asks for many more
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from tests.model.model import Violation
from tests.model.simulation import Simulation
from tests.model.twins import TWINS

pytestmark = pytest.mark.django_db(transaction=True)

FAULTS = 15
# Twins that one of the first seeds brings out.
CAUGHT = (
    "settle_without_token",
    "settle_hides_what_is_lost",
    "start_whatever_waits",
    "come_back_as_if_nothing_was",
    "reclaim_and_forget_attempts",
)


def test_without_faults_every_task_ends_exactly_once(alias: str) -> None:
    for seed in seeds():
        simulate(alias, seed, faults=0).model.must_have_run_once()


def test_with_faults_nothing_is_lost_and_no_promise_broken(alias: str) -> None:
    for seed in seeds():
        simulate(alias, seed, FAULTS)


def test_a_seed_tells_the_same_story_again(alias: str) -> None:
    first, second = (simulate(alias, 7, FAULTS, tasks=6).trace for _ in range(2))

    assert first == second


@pytest.mark.django_db(transaction=True, databases=["default"])
@pytest.mark.parametrize("name", CAUGHT)
def test_the_simulation_catches(name: str) -> None:
    with TWINS[name].broken(), pytest.raises(Violation):
        run_seeds(20)


def run_seeds(count: int) -> None:
    for seed in range(count):
        Simulation("default", seed, FAULTS).run()


def seeds() -> Iterator[int]:
    """Others in each run; pytest-randomly's `-p` gives them again, too."""
    if "SKIPPER_SEED" in os.environ:
        yield int(os.environ["SKIPPER_SEED"])
        return
    for _ in range(int(os.environ.get("SKIPPER_SEEDS", "2"))):
        yield random.getrandbits(32)


def simulate(alias: str, seed: int, faults: int, tasks: int = 15) -> Simulation:
    simulation = Simulation(alias, seed, faults, tasks)
    try:
        simulation.run()
    except BaseException as error:
        again = f"SKIPPER_SEED={seed} python -m pytest tests/model/test_simulation.py"
        error.add_note("\n".join([*simulation.trace[-40:], f"again, on {alias}: {again}"]))
        raise
    return simulation
