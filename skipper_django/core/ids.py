"""Ids for tasks whose caller gave none."""

import os
from datetime import datetime

from .errors import InvalidTaskId

MAX_TASK_ID_LENGTH = 255


def new_task_id(now: datetime) -> str:
    """A UUID of version 7 (RFC 9562): time first, so that the unique index grows at its end."""
    milliseconds = int(now.timestamp() * 1000)
    tail = bytearray(os.urandom(10))
    tail[0] = 0x70 | tail[0] & 0x0F
    tail[2] = 0x80 | tail[2] & 0x3F
    text = milliseconds.to_bytes(6).hex() + tail.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


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
