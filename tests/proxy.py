"""A link between a worker and its database server that a test can cut."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Forwards loopback connections to a server, while it is up."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._pairs: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._doomed: bytes | None = None
        self._victim: socket.socket | None = None
        self.port = 0
        self.up()

    def up(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(64)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def down(self) -> None:
        """Refuse new connections and cut those there are."""
        with self._lock:
            listener, self._listener = self._listener, None
        assert listener is not None
        # shutdown() wakes the thread in accept(); close() alone would leave it there.
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        self.cut()

    def cut(self) -> None:
        """Break the connections there are."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for end in pairs:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def lose_reply_to(self, request: bytes) -> None:
        """The next request that contains this reaches the server; its reply is lost in a cut."""
        self._doomed = request

    @property
    def has_lost_reply(self) -> bool:
        return self._doomed is None and self._victim is None

    def forward(self, source: socket.socket, sink: socket.socket, data: bytes) -> None:
        """Pass on what one end has sent; an OSError breaks the connection."""
        if self._doomed is not None and self._doomed in data:
            self._doomed, self._victim = None, sink
        elif source is self._victim:
            self._victim = None
            raise ConnectionResetError("the reply is lost")
        sink.sendall(data)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()
                continue
            with self._lock:
                is_up = self._listener is listener
                if is_up:
                    self._pairs |= {near, far}
            if not is_up:  # it went down while this connection was being made
                near.close()
                far.close()
                return
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.forward(source, sink, data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            owned = {source, sink} & self._pairs
            self._pairs -= owned
        for end in owned:
            end.close()
