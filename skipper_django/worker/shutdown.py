"""From signals to a request that the loop sees: first drain, then hurry."""

import signal
from collections.abc import Callable
from threading import Event
from types import FrameType

from ..core.clock import monotonic

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOK_EVERY_SECONDS = 0.05


class Flag:
    """An event that a signal handler may set.

    threading.Event will not do: a second signal that comes while the first one's handler holds
    the event's lock would wait for that lock for ever.
    """

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def wait(self, seconds: float) -> bool:
        deadline = monotonic() + seconds
        while not self._is_set and (left := deadline - monotonic()) > 0:
            Event().wait(min(left, LOOK_EVERY_SECONDS))
        return self._is_set


class Shutdown:
    """Asked once: stop claiming and finish. Asked twice: give everything back now."""

    def __init__(self) -> None:
        self.requested = Flag()
        self.forced = Flag()
        self.wake: Callable[[], None] = lambda: None

    def request(self) -> None:
        """Everything here may be interrupted by itself."""
        if self.requested.is_set():
            self.forced.set()
        self.requested.set()
        self.wake()

    def listen(self) -> None:
        """Let SIGTERM and SIGINT request it; main thread only.

        The handler only sets flags: nothing is half done when it returns.
        """

        def handler(number: int, frame: FrameType | None) -> None:
            self.request()

        for number in SIGNALS:
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
