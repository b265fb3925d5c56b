"""Settings of a project that names its tables otherwise; tests run it in processes of its own."""

from __future__ import annotations

import os

from tests.settings import *  # noqa: F403

SKIPPER = {"TABLE_PREFIX": "fifteen_letters"}
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("OTHER_PREFIX_DATABASE", ":memory:"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"},
    }
}
