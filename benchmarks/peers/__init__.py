"""The queues that are compared: one small file for each peer, and `ours.py`."""

from __future__ import annotations

import importlib

from benchmarks.peers.base import Peer

# Name to class, in the order of the tables; one package may stand here in two settings.
PEERS = {
    "django-tasks-db": "benchmarks.peers.django_tasks_db:DjangoTasksDb",
    "dj-queue": "benchmarks.peers.dj_queue:DjQueue",
    "steady-queue": "benchmarks.peers.steady_queue:SteadyQueue",
    "django-ox": "benchmarks.peers.django_ox:DjangoOx",
    "threadmill": "benchmarks.peers.threadmill:Threadmill",
    "procrastinate": "benchmarks.peers.procrastinate:Procrastinate",
    "pgqueuer": "benchmarks.peers.pgqueuer:PgQueuer",
    "pgqueuer-100": "benchmarks.peers.pgqueuer:PgQueuerInHundreds",
    "huey": "benchmarks.peers.huey:Huey",
}
OURS = "skipper_django"


def load(name: str) -> type[Peer]:
    """The class of a peer, or ours; neither needs its library before it is used."""
    place = "benchmarks.peers.ours:Ours" if name == OURS else PEERS[name]
    module, _, attribute = place.partition(":")
    loaded: type[Peer] = getattr(importlib.import_module(module), attribute)
    return loaded
