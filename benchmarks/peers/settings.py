"""Django settings of a peer's processes: its own apps and backend, on the database named."""

from __future__ import annotations

import os
from typing import Any

import django

from benchmarks.peers import load
from benchmarks.peers.base import PEER_VARIABLE
from benchmarks.peers.django_peer import DjangoPeer

_class = load(os.environ[PEER_VARIABLE])
assert issubclass(_class, DjangoPeer)
_peer = _class()

DATABASES: dict[str, dict[str, Any]] = _peer.django_databases()
SECRET_KEY = "of no use outside the benchmarks"  # noqa: S105
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    *_peer.apps,
    _peer.tasks_app,
]
TASKS: dict[str, dict[str, Any]] = {"default": _peer.backend()}
# Every task's start and end at level INFO is no part of a queue's work. The level is the handler's:
# that of the root is not asked for what comes up from "django", which Django sets to INFO.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler", "level": "WARNING"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
}
globals().update(_peer.settings())
