"""The fixtures of the worker's tests, here as well."""

from tests.worker.conftest import enqueue, wait_for_state, worker_process
from tests.worker.conftest import fresh as fresh

__all__ = ["enqueue", "fresh", "wait_for_state", "worker_process"]
