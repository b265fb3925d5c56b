"""start_worker() with short intervals; the fixtures of the worker's tests, here as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from skipper_django import embed
from skipper_django.embed import Handle
from tests import tasks
from tests.worker.conftest import (  # noqa: F401  (fixtures)
    enqueue,
    fresh,
    short_grace,
    start_worker,
    wait_for_state,
)

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, settings: Settings) -> None:
    """Short intervals, on the database under test; tasks wait for release, whoever gave it last."""
    tasks.release.clear()
    alias = request.getfixturevalue("alias") if "alias" in request.fixturenames else "default"
    settings.SKIPPER = {
        "DATABASE": alias,
        "CLUSTER_HEARTBEAT_INTERVAL": 0.2,
        # Long: nothing here waits for it, and a busy machine must not look like a dead one.
        "CLUSTER_LIVENESS_WINDOW": 60,
    }


@pytest.fixture
def start() -> Iterator[Callable[..., Handle]]:
    """start_worker(); all of them are stopped at the end."""
    started: list[Handle] = []

    def call(**options: Any) -> Handle:
        started.append(embed.start_worker(**options))
        return started[-1]

    yield call
    for handle in started:
        assert handle.stop(5)
