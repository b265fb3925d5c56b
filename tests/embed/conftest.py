"""The fixtures of the worker's tests, here as well."""

from tests.worker.conftest import (
    enqueue,
    fresh,
    short_grace,
    start_worker,
    wait_for_state,
)

__all__ = ["enqueue", "fresh", "short_grace", "start_worker", "wait_for_state"]
