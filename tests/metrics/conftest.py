"""Fixtures of the worker's tests; nothing here runs without the `prometheus` extra."""

from __future__ import annotations

from importlib.util import find_spec

from tests.embed.conftest import start  # noqa: F401  (a fixture)
from tests.worker.conftest import (  # noqa: F401  (fixtures)
    enqueue,
    fresh,
    pid_of,
    short_lease,
    start_worker,
    wait_for_state,
    worker_process,
)

# test_without_extra.py runs all the same.
if find_spec("prometheus_client") is None:
    collect_ignore = [
        f"test_{name}.py"
        for name in (
            *("board", "recorder", "exporter", "worker_port", "queues", "plans", "documents"),
            "embedded",
        )
    ]
