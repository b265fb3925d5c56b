"""A script without a guard: to import it is to run it."""

from __future__ import annotations

import os

os.environ["SKIPPER_TEST_FORGED"] = "the script was run"


def main() -> None:
    os.environ["SKIPPER_TEST_FORGED"] = "main() was called"
