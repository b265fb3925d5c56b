"""Own one private server with durable defaults, and do to it what stdin says: kill, stop, start.

    python -m chaos.guard ALIAS [SERVER_OPTION ...]

One JSON line for the start and for each command. As with tests/server_guard.py, the server ends
with the pipe.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.server_guard import PrivateServer, Unavailable, say, server_class, start_on_free_port
from tests.waiting import wait_until


def kill(server: PrivateServer) -> None:
    """SIGKILL for the server and every process of it, as if the machine had lost its power."""
    pid_file = server.directory / "pid"
    pid = server.process.pid if server.process else int(pid_file.read_text())
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for victim in [pid, *map(int, children)]:
        os.kill(victim, signal.SIGKILL)
    if server.process:
        server.process.wait()
    wait_until(lambda: not any(map(_is_there, [pid, *map(int, children)])))


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def main() -> None:
    alias, *options = sys.argv[1:]
    directory = Path(tempfile.mkdtemp(prefix=f"skipper-chaos-{alias}-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server: PrivateServer | None = None
    try:
        server = server_class(alias)(directory, options, durable=True)
        server.initialise()
        port = start_on_free_port(server)
        say(port=port)
        for line in sys.stdin:
            match line.strip():
                case "kill":
                    kill(server)
                case "stop":
                    server.stop()
                case "start":
                    server.start(port)
            say(done=line.strip())
    except (Unavailable, OSError) as error:
        say(error=str(error))
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
