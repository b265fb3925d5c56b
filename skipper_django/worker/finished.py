"""An attempt that has come to its end, on its way from a slot to the loop."""

from collections.abc import Callable
from dataclasses import dataclass

from ..core.outcome import Outcome
from ..store.lease import Lease


@dataclass(frozen=True, slots=True)
class Finished:
    """An attempt that has its outcome. `stuck`: its thread runs on and cannot be used again."""

    lease: Lease
    outcome: Outcome
    seconds: float
    stuck: bool = False


Report = Callable[[Finished], None]
