"""What ends the loop's rest: attempts that have finished, and wake-ups."""

from collections.abc import Callable
from queue import Empty, SimpleQueue

from ..core.clock import monotonic
from ..core.hint import ANYWHERE, Hint
from .finished import Finished

LOOK_EVERY_SECONDS = 0.1
MAX_WAITING = 10_000


class Arrivals:
    """Filled by any thread or signal handler, emptied by the loop."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Finished | Hint] = SimpleQueue()
        # Asked during a rest whether something was committed, where that costs next to nothing.
        self.saw_commit: Callable[[], bool] | None = None

    def put(self, finished: Finished) -> None:
        self._queue.put(finished)

    def ring(self, hint: Hint = ANYWHERE) -> None:
        """End the present or next rest; `hint`: where something may have come."""
        if self._queue.qsize() < MAX_WAITING:  # while the loop hangs, they would be ever more
            self._queue.put(hint)

    def take(self, seconds: float) -> tuple[list[Finished], list[Hint]]:
        """What has finished, waiting for the first up to `seconds`; and the hints."""
        finished: list[Finished] = []
        hints: list[Hint] = []
        try:
            arrival = self._first(seconds)
            while True:
                if isinstance(arrival, Hint):
                    hints.append(arrival)
                else:
                    finished.append(arrival)
                arrival = self._queue.get_nowait()
        except Empty:
            return finished, hints

    def _first(self, seconds: float) -> Finished | Hint:
        if seconds <= 0:
            return self._queue.get_nowait()
        end = monotonic() + seconds
        while self.saw_commit is not None and end - monotonic() > LOOK_EVERY_SECONDS:
            try:
                return self._queue.get(timeout=LOOK_EVERY_SECONDS)
            except Empty:
                if self.saw_commit():
                    raise
        return self._queue.get(timeout=max(0.0, end - monotonic()))
