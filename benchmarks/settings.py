"""Settings of the project under measurement; its database comes from the environment.

SKIPPER_BENCH_DATABASES   JSON: the DATABASES setting, as `databases.py` writes it
SKIPPER_BENCH_DATABASE    the alias among them that is `default`
SKIPPER_BENCH_SETTINGS    JSON: the SKIPPER setting, where a measurement needs one
"""

from __future__ import annotations

import json
import os
from typing import Any

import django

SETTINGS_VARIABLE = "SKIPPER_BENCH_SETTINGS"

DATABASES: dict[str, dict[str, Any]] = {
    "default": json.loads(os.environ.get("SKIPPER_BENCH_DATABASES", "{}")).get(
        os.environ.get("SKIPPER_BENCH_DATABASE", ""), {}
    )
}
SECRET_KEY = "of no use outside the benchmarks"  # noqa: S105
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    "skipper_django",
    "benchmarks",
]
TASKS: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "skipper_django.backend.SkipperBackend", "QUEUES": []},
}
SKIPPER: dict[str, Any] = json.loads(os.environ.get(SETTINGS_VARIABLE, "{}"))
