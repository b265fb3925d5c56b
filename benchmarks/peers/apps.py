"""Counts the statements of a peer's worker on SQLite, as for ours."""

from __future__ import annotations

from benchmarks.apps import BenchmarksConfig


class PeersConfig(BenchmarksConfig):
    name = "benchmarks.peers"
    label = "peers"
