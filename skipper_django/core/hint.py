"""The wake-up that follows a commit: which idle workers may find something to do.

A hint and never a fact: it may be lost, late, doubled or wrong, and costs then a poll interval or
an empty poll. What is to be done stands in the database only.
"""

import struct
from typing import NamedTuple

ANY = -1
_FORMAT = struct.Struct("!qhB")


class Hint(NamedTuple):
    """Tasks were added in this lane and bucket; ANY is any. `scheduled`: they are due later."""

    lane: int = ANY
    bucket: int = ANY
    scheduled: bool = False

    def merged(self, other: "Hint") -> "Hint":
        """The narrowest hint that covers both."""
        return Hint(
            self.lane if self.lane == other.lane else ANY,
            self.bucket if self.bucket == other.bucket else ANY,
            self.scheduled or other.scheduled,
        )

    def pack(self) -> bytes:
        return _FORMAT.pack(*self)


ANYWHERE = Hint()


def unpack(message: bytes) -> Hint:
    """The hint in a message; what is none means that something has happened somewhere."""
    try:
        lane, bucket, scheduled = _FORMAT.unpack(message)
    except struct.error:
        return Hint(scheduled=True)
    return Hint(lane, bucket, bool(scheduled))
