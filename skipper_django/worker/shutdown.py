"""From signals to a request that the loop sees: first drain, then hurry."""

import signal
import threading
from collections.abc import Callable
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Shutdown:
    """Asked once: stop claiming and finish. Asked twice: give everything back now."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self.forced = threading.Event()
        self.wake: Callable[[], None] = lambda: None

    def request(self) -> None:
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
