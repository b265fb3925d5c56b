"""The real store against the model, and the model against code that breaks the promise.

SKIPPER_MODEL_EXAMPLES   how many runs of the machine; `make chaos` asks for many more
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import QueueMachine
from tests.model.model import Violation
from tests.model.twins import TWINS

EXAMPLES = int(os.environ.get("SKIPPER_MODEL_EXAMPLES", "60"))
SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)


@pytest.mark.django_db(transaction=True)
def test_the_store_keeps_its_promise(alias: str) -> None:
    run_state_machine_as_test(QueueMachine.on(alias), settings=SETTINGS)


@pytest.mark.django_db(transaction=True, databases=["default"])
@pytest.mark.parametrize("name", TWINS)
def test_the_machine_catches(name: str) -> None:
    twin = TWINS[name]
    with twin.broken(), pytest.raises(Violation, match=twin.complaint):
        search("default") if twin.story is None else tell("default", twin.story)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", [name for name, twin in TWINS.items() if twin.story])
def test_the_story_ends_well(alias: str, name: str) -> None:
    story = TWINS[name].story
    assert story is not None
    tell(alias, story)


def search(alias: str) -> None:
    runs = settings(
        SETTINGS, max_examples=1000, derandomize=True, database=None, phases=(Phase.generate,)
    )
    run_state_machine_as_test(QueueMachine.on(alias), settings=runs)


def tell(alias: str, story: Callable[[QueueMachine], None]) -> None:
    machine = QueueMachine.on(alias)()
    try:
        story(machine)
    finally:
        machine.teardown()
