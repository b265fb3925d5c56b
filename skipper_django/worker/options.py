"""What a worker is told when it starts, and what its process answers when it ends."""

from dataclasses import dataclass

from .pulse import Pulse

EXIT_DONE, EXIT_FORCED, EXIT_RECYCLE, EXIT_REFUSED = 0, 1, 75, 78


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What the command line says. No queues: all of the tenant's."""

    member_name: str
    named: bool = True  # chosen: a clash is refused; else the next free suffix is taken
    queues: tuple[str, ...] = ()
    concurrency: int = 4
    drain: bool = False  # stop when nothing is ready
    shutdown_timeout: float = 30.0
    supervisor_pid: int | None = None  # stop when this process is gone
    pulse: Pulse | None = None  # beat here, for a stand-in
