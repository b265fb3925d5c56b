"""Ids for tasks whose caller gave none."""

import os
from collections.abc import Iterator
from datetime import datetime

from .errors import InvalidTaskId

MAX_TASK_ID_LENGTH = 255


def new_task_ids(now: datetime, count: int) -> Iterator[str]:
    """UUIDs of version 7 (RFC 9562): time first, so that the unique index grows at its end."""
    time = int(now.timestamp() * 1000).to_bytes(6).hex()
    start = f"{time[:8]}-{time[8:]}-7"
    digits = os.urandom(10 * count).hex()
    for at in range(0, 20 * count, 20):
        tail = digits[at : at + 20]
        variant = "89ab"[int(tail[0], 16) & 3]
        yield f"{start}{tail[1:4]}-{variant}{tail[4:7]}-{tail[7:19]}"


def check_task_id(task_id: object) -> None:
    """Raise InvalidTaskId for what cannot be stored and found again exactly on every database."""
    if not isinstance(task_id, str):
        raise InvalidTaskId(f"task_id is {type(task_id).__name__}; give a str")
    if not 1 <= len(task_id) <= MAX_TASK_ID_LENGTH:
        raise InvalidTaskId(
            f"task_id has {len(task_id)} characters; give 1 to {MAX_TASK_ID_LENGTH}"
        )
    try:
        task_id.encode()
    except UnicodeEncodeError as error:
        raise InvalidTaskId(
            f"task_id {task_id!r} contains a lone surrogate; use text that UTF-8 can encode"
        ) from error
    if "\0" in task_id:
        raise InvalidTaskId(f"task_id {task_id!r} contains a NUL character; remove it")
