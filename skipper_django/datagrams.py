"""Wake-ups between the processes of one host and user: datagrams on Unix sockets in a directory.

No port, no server, nobody who must be there first. A worker binds a socket that bears the name of
its channel; who has added tasks writes to all of that name. Nothing here ever raises or waits.
"""

import errno
import logging
import os
import secrets
import socket
import stat
import tempfile
import time
from collections.abc import Callable

from .core.hint import MAX_MESSAGE_BYTES, Hint, unpack

logger = logging.getLogger("skipper_django.wake_up")

SETTLED_NANOSECONDS = 2_000_000_000
# Behind these the receiver is gone, and its socket a leftover of a crash.
_GONE = {errno.ECONNREFUSED, errno.ENOENT, errno.ENOTSOCK, errno.EPROTOTYPE}


def directory_of(setting: bool | str) -> str | None:
    """The directory of the sockets, made if need be; None where there can be no wake-ups.

    `setting`: that of WAKE_UP. By default it belongs to the user alone, so that nobody else can
    put anything in the way.
    """
    if setting is True and hasattr(socket, "AF_UNIX"):
        try:
            os.mkdir(_private_path(), 0o700)
        except FileExistsError:
            pass
        except OSError:
            return None
    return known_directory_of(setting)


def known_directory_of(setting: bool | str) -> str | None:
    """The same, but None while nobody has made it: nobody listens there either."""
    if not setting or not hasattr(socket, "AF_UNIX"):
        return None
    if isinstance(setting, str):
        return setting if os.path.isdir(setting) else None
    path = _private_path()
    return path if _is_private(path) else None


def _private_path() -> str:
    return os.path.join(tempfile.gettempdir(), f"skipper-{os.geteuid()}")


def _is_private(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return is_ours and not found.st_mode & 0o077


_known: dict[tuple[str, str], tuple[int, list[str]]] = {}


class Inbox:
    """One worker's socket, a source of hints. Raises OSError where none can be bound."""

    def __init__(self, directory: str, channel: str) -> None:
        self.path = os.path.join(directory, f"{channel}.{os.getpid()}.{secrets.token_hex(4)}")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.bind(self.path)
            os.chmod(self.path, 0o660)  # a directory that was chosen may be a group's
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> list[Hint]:
        """All that has come."""
        hints = []
        while True:
            try:
                hints.append(unpack(self._socket.recv(MAX_MESSAGE_BYTES)))
            except BlockingIOError:
                return hints

    def close(self) -> None:
        self._socket.close()
        try:
            os.unlink(self.path)
        except OSError:
            logger.debug("a socket could not be removed", exc_info=True)


def send(directory: str, channel: str, hint: Hint) -> None:
    """Tell the channel's workers on this host, but not those in this process."""
    own = os.path.join(directory, f"{channel}.{os.getpid()}.")
    try:
        paths = [path for path in _sockets(directory, channel) if not path.startswith(own)]
    except OSError:
        return
    if not paths:
        return
    message = hint.pack()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for path in paths:
            _write(sender.sendto, message, path)


def _sockets(directory: str, channel: str) -> list[str]:
    """Paths, as long as nothing has come or gone in the directory: an enqueue asks each time."""
    changed = os.stat(directory).st_mtime_ns
    key = (directory, channel)
    known_at, paths = _known.get(key, (0, []))
    if known_at != changed:
        names = os.listdir(directory)
        paths = [os.path.join(directory, name) for name in names if name.startswith(f"{channel}.")]
        # Two changes in one tick of the file system's clock have the same time.
        if abs(time.time_ns() - changed) > SETTLED_NANOSECONDS:
            _known[key] = (changed, paths)
    return paths


def _write(sendto: Callable[[bytes, str], int], message: bytes, path: str) -> None:
    try:
        sendto(message, path)
    except BlockingIOError:
        pass  # so many are waiting there that it will wake up anyhow
    except OSError as error:
        if error.errno in _GONE:
            try:
                os.unlink(path)
            except OSError:
                logger.debug("a socket that was left behind cannot be removed", exc_info=True)
