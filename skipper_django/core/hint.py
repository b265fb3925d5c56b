"""The wake-up that follows a commit: which idle workers may find something to do.

A hint and never a fact: it may be lost, late, doubled or wrong, and costs then a poll interval or
an empty poll. What is to be done stands in the database only.
"""

import struct
from typing import NamedTuple

ANY = -1
MAX_ID_BYTES = 255
_FORMAT = struct.Struct("!qhB")


class Hint(NamedTuple):
    """Tasks were added in this lane and bucket; ANY is any. `scheduled`: they are due later.

    `task_id`: of the only one, where there is only one; else empty.
    """

    lane: int = ANY
    bucket: int = ANY
    scheduled: bool = False
    task_id: str = ""

    def merged(self, other: "Hint") -> "Hint":
        """The narrowest hint that covers both."""
        return Hint(
            self.lane if self.lane == other.lane else ANY,
            self.bucket if self.bucket == other.bucket else ANY,
            self.scheduled or other.scheduled,
            self.task_id if self.task_id == other.task_id else "",
        )

    def pack(self) -> bytes:
        task_id = self.task_id.encode()
        fixed = _FORMAT.pack(self.lane, self.bucket, self.scheduled)
        return fixed + (task_id if len(task_id) <= MAX_ID_BYTES else b"")


MAX_MESSAGE_BYTES = _FORMAT.size + MAX_ID_BYTES
ANYWHERE = Hint()


def unpack(message: bytes) -> Hint:
    """The hint in a message; what is none means that something has happened somewhere."""
    try:
        lane, bucket, scheduled = _FORMAT.unpack_from(message)
        task_id = message[_FORMAT.size :].decode()
    except (struct.error, UnicodeDecodeError):
        return Hint(scheduled=True)
    if "\0" in task_id:  # which no task has, and PostgreSQL could not be asked for
        return Hint(scheduled=True)
    return Hint(lane, bucket, bool(scheduled), task_id)
