"""What ends the loop's rest: attempts that have finished, and wake-ups."""

from collections.abc import Callable
from queue import Empty, SimpleQueue

from ..core.clock import monotonic
from .slots import Finished

LOOK_EVERY_SECONDS = 0.05


class Arrivals:
    """Filled by any thread or signal handler, emptied by the loop."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Finished | None] = SimpleQueue()
        self._is_rung = False
        # Asked during a rest whether something was committed, where that costs next to nothing.
        self.saw_commit: Callable[[], bool] | None = None

    def put(self, finished: Finished) -> None:
        self._queue.put(finished)

    def ring(self) -> None:
        """End the present or next rest. Many in a row are one."""
        if not self._is_rung:
            self._is_rung = True
            self._queue.put(None)

    def take(self, seconds: float) -> tuple[list[Finished], bool]:
        """What has finished, waiting for the first up to `seconds`; was the bell rung, too?"""
        finished: list[Finished] = []
        rung = False
        try:
            arrival = self._first(seconds)
            while True:
                if arrival is None:
                    self._is_rung = False
                    rung = True
                else:
                    finished.append(arrival)
                arrival = self._queue.get_nowait()
        except Empty:
            return finished, rung

    def _first(self, seconds: float) -> Finished | None:
        if seconds <= 0:
            return self._queue.get_nowait()
        end = monotonic() + seconds
        while self.saw_commit is not None and end - monotonic() > LOOK_EVERY_SECONDS:
            try:
                return self._queue.get(timeout=LOOK_EVERY_SECONDS)
            except Empty:
                if self.saw_commit():
                    return None
        return self._queue.get(timeout=max(0.0, end - monotonic()))
