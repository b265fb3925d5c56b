"""The command line of skipper_worker: every value is checked before anything starts."""

import argparse
from typing import Any

from ..backend import MAX_QUEUE_NAME_LENGTH
from ..core.config import read_config
from .arguments import add_database


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_work(parser.add_argument)
    _add_member(parser.add_argument)
    _add_operation(parser.add_argument)


def _add_work(add: Any) -> None:
    add(
        "--queue",
        action="append",
        type=_queue,
        default=[],
        metavar="NAME",
        help="serve this queue only; may be repeated (default: all queues of the tenant)",
    )
    add(
        "--concurrency",
        type=_count,
        default=4,
        metavar="N",
        help="tasks at once in each process: threads, and async tasks (default: 4)",
    )
    add(
        "--processes",
        type=_count,
        default=1,
        metavar="N",
        help="worker processes, each replaced when it dies (default: 1)",
    )
    add("--drain", action="store_true", help="stop when no task is ready")


def _add_member(add: Any) -> None:
    add("--tenant", type=str, help="serve this tenant (default: SKIPPER['TENANT'])")
    add_database(add)
    add(
        "--member-name",
        type=_member_name,
        metavar="NAME",
        help="name of this worker (default: SKIPPER['CLUSTER_MEMBER_NAME'] or the host)",
    )


def _add_operation(add: Any) -> None:
    add(
        "--shutdown-timeout",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long running tasks may take to finish after SIGTERM (default: 30)",
    )
    add("--metrics-port", type=_port, metavar="PORT",
        help="serve Prometheus metrics of all processes here; 0: any free port")  # fmt: skip
    add("--metrics-address", default="127.0.0.1", metavar="ADDRESS",
        help="the address that --metrics-port is bound to (default: 127.0.0.1)")  # fmt: skip
    add("--reload", action="store_true",
        help="start again when code changes; one process, for development")  # fmt: skip


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10000")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0")
    return seconds


def _member_name(text: str) -> str:
    problem = next(iter(read_config({"CLUSTER_MEMBER_NAME": text})[1]), None)
    if problem is not None:
        raise argparse.ArgumentTypeError(str(problem).partition(" is ")[2])
    return text


def _queue(text: str) -> str:
    if not 1 <= len(text) <= MAX_QUEUE_NAME_LENGTH:
        raise argparse.ArgumentTypeError(
            f"a queue name has 1 to {MAX_QUEUE_NAME_LENGTH} characters, not {len(text)}"
        )
    return text
