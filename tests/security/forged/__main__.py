"""What `python -m` runs."""

from __future__ import annotations

import os

from skipper_django import task

os.environ["SKIPPER_TEST_FORGED"] = "__main__ was run"


@task
def run() -> None:
    pass
