"""Own one private PgBouncer in front of a PostgreSQL server, and do what stdin says: down, up.

    python -m tests.pooler_guard USER:PASSWORD@HOST:PORT POOL_SIZE

One JSON line for the start and for each command; it ends with the pipe, as tests/server_guard.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.server_guard import (
    PrivateServer,
    Unavailable,
    find_program,
    say,
    start_on_free_port,
)
from tests.servers import Server

# The sessions of the server take turns, so that whoever relies on one of them is found out.
INI = """
[databases]
* = host={host} port={server_port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {directory}/users
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 400
server_round_robin = 1
"""


class PgBouncer(PrivateServer):
    ready = r"process up"
    relaxed = ()
    stop_signal = signal.SIGKILL  # it has nothing to lose, and waits for its clients otherwise

    # PgBouncer refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None

    def __init__(self, directory: Path, behind: Server, pool_size: int) -> None:
        super().__init__(directory, [], durable=False)
        self._behind = behind
        self._pool_size = pool_size

    def initialise(self) -> None:
        if self.user:
            shutil.chown(self.directory, self.user)
        users = f'"{self._behind.user}" "{self._behind.password}"\n'
        (self.directory / "users").write_text(users)

    def command(self, port: int) -> Sequence[str]:
        ini = self.directory / "pgbouncer.ini"
        ini.write_text(
            INI.format(
                host=self._behind.host,
                server_port=self._behind.port,
                port=port,
                directory=self.directory,
                pool_size=self._pool_size,
            )
        )
        return [find_program("pgbouncer"), str(ini)]


def main() -> None:
    behind, pool_size = Server.parse("postgresql", sys.argv[1]), int(sys.argv[2])
    directory = Path(tempfile.mkdtemp(prefix="skipper-pgbouncer-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    pooler = PgBouncer(directory, behind, pool_size)
    try:
        pooler.initialise()
        port = start_on_free_port(pooler)
        say(port=port)
        for line in sys.stdin:
            if line.strip() == "down":
                pooler.stop()
            else:
                pooler.start(port)
            say(done=line.strip())
    except (Unavailable, OSError, subprocess.SubprocessError) as error:
        say(error=str(error))
    finally:
        pooler.stop()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
