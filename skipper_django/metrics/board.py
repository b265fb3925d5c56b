"""Numbers of several processes in memory that they share: each writes its place, one reads all.

The memory is mapped before the processes are forked and has no name, so nothing of it is left
behind whoever is killed, and what a process had counted outlives it. A place is that of a worker's
number, not of its process: a replacement counts on from where the dead one was, so counters only
grow and there are never more places than workers.
"""

import json
import mmap
import os
import threading
from collections.abc import Iterator, Sequence
from math import nan

PLACE_BYTES = 4 << 20  # what is never written costs nothing
WORD = 8

Key = tuple[str, ...]  # the metric's name and the values of its labels

# The header, in words of eight bytes; series follow: length of key, number of values, key, values.
USED, TAKEN, DROPPED, HEADER = 0, 1, 2, 3


class Place:
    """One process's numbers. Values are aligned words: a reader sees the old or the new one."""

    def __init__(self, size: int = PLACE_BYTES) -> None:
        self._memory = mmap.mmap(-1, size)
        self._bytes = memoryview(self._memory)
        self.words = self._bytes.cast("d")
        self.words[USED] = HEADER
        self._index: dict[Key, int] = {}
        self._pid = os.getpid()
        self.lock = threading.Lock()

    # The process whose place it is

    def enter(self) -> None:
        """After a fork, or for another worker here: go on from the numbers that stand here."""
        if self._pid != os.getpid():  # who held it may have stayed behind
            self._pid, self.lock = os.getpid(), threading.Lock()
        with self.lock:
            self._index = {key: start for key, start, _ in self._series()}
        self.words[TAKEN] = 1

    def where(self, key: Key, count: int) -> int | None:
        """The first word of the series' values, zeros at first; None if there is no room left.

        The lock is held.
        """
        start = self._index.get(key)
        if start is None:
            start = self._append(key, count)
            if start is not None:
                self._index[key] = start
        return start

    def _append(self, key: Key, count: int) -> int | None:
        text = json.dumps(key).encode()
        place = int(self.words[USED])
        start = place + 2 + -(-len(text) // WORD)
        if start + count > len(self.words):
            self.words[DROPPED] += 1
            return None
        self.words[place], self.words[place + 1] = len(text), count
        self._bytes[(place + 2) * WORD : (place + 2) * WORD + len(text)] = text
        self.words[USED] = start + count
        return start

    # The supervisor

    def leave(self) -> None:
        """The process has ended: its counters stay, its gauges do not count any more."""
        self.words[TAKEN] = 0

    # The reader

    @property
    def is_taken(self) -> bool:
        return bool(self.words[TAKEN])

    @property
    def dropped(self) -> float:
        return self.words[DROPPED]

    def read(self) -> Iterator[tuple[Key, Sequence[float]]]:
        for key, start, count in self._series():
            yield key, self.words[start : start + count].tolist()

    def _series(self) -> Iterator[tuple[Key, int, int]]:
        place, used = HEADER, int(self.words[USED])
        while place < used:
            length, count = int(self.words[place]), int(self.words[place + 1])
            text = bytes(self._bytes[(place + 2) * WORD : (place + 2) * WORD + length])
            start = place + 2 + -(-length // WORD)
            yield tuple(json.loads(text)), start, count
            place = start + count

    def clear(self, names: set[str]) -> None:
        """Forget the gauges of the process before."""
        for key, start, count in self._series():
            if key[0] in names:
                for word in range(start, start + count):
                    self.words[word] = nan
