"""A link of bad quality between a worker and its server."""

from __future__ import annotations

import socket
import threading
from random import Random

from tests.proxy import Proxy


class Link(Proxy):
    """Delays what passes by up to `delay` seconds; while it is silent nothing passes at all."""

    def __init__(self, host: str, port: int, rng: Random) -> None:
        self.delay = 0.0
        self._rng = rng
        self._speaks = threading.Event()
        self._speaks.set()
        self._forgotten: set[socket.socket] = set()
        super().__init__(host, port)

    def silence(self) -> None:
        """Lose every packet, and tell nobody: connections stay open, and new ones are made."""
        self._speaks.clear()

    def speak(self) -> None:
        """What was sent meanwhile arrives, late, as TCP sends it again."""
        self._speaks.set()

    def forget(self) -> None:
        """Be silent for ever on the connections there are, as a firewall that lost its table."""
        with self._lock:
            self._forgotten |= self._pairs

    def forward(self, source: socket.socket, sink: socket.socket, data: bytes) -> None:
        if self.delay:
            threading.Event().wait(self._rng.uniform(0, self.delay))
        self._speaks.wait()
        if source in self._forgotten:
            return
        super().forward(source, sink, data)
