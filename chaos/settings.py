"""Settings of the parent, which enqueues and audits, and of the workers it starts.

CHAOS_DATABASE   JSON: the database of a worker; the parent adds its own to `connections`
CHAOS_SKIPPER    JSON: the SKIPPER setting
"""

from __future__ import annotations

import json
import os
from typing import Any

import django

DATABASES: dict[str, dict[str, Any]] = {
    "default": json.loads(os.environ.get("CHAOS_DATABASE", "null"))
    or {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
}
SKIPPER: dict[str, Any] = json.loads(os.environ.get("CHAOS_SKIPPER", "{}"))
SECRET_KEY = "of no use outside the chaos suite"  # noqa: S105
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    "skipper_django",
    "chaos",
]
TASKS: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "skipper_django.backend.SkipperBackend", "QUEUES": []},
}
