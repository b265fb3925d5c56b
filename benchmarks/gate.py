"""TASK_PARTITIONING of members that wait for the start shot: a worker asks it before each fetch."""

from __future__ import annotations

import os
import time
from pathlib import Path

START_VARIABLE = "SKIPPER_BENCH_START"
PAUSE_SECONDS = 0.002

_has_started = False


def ranges() -> bool:
    _wait_for_start()
    return True


def whole_queue() -> bool:
    _wait_for_start()
    return False


def _wait_for_start() -> None:
    global _has_started
    start = Path(os.environ[START_VARIABLE])
    while not _has_started:
        _has_started = start.exists()
        if not _has_started:
            time.sleep(PAUSE_SECONDS)
