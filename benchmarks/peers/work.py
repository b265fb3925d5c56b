"""A worker process of a peer whose workers are started from Python: `Peer.work`."""

from __future__ import annotations

from benchmarks.peers.base import play

if __name__ == "__main__":
    play().work()
