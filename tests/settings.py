"""Settings of the tests; they load without any server, too (mypy reads them)."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import django

from tests import servers

DATABASE_NAME = "test_skipper"
SQLITE_FILE = (
    Path(os.environ.get("SKIPPER_TEST_SQLITE_DIRECTORY", tempfile.gettempdir())) / DATABASE_NAME
)

DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        # A file, not memory: threads and child processes share it.
        "NAME": str(SQLITE_FILE),
        "TEST": {"NAME": str(SQLITE_FILE)},
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
    },
}
for alias in servers.ALIASES:
    if server := servers.named_server(alias):
        DATABASES[alias] = server.django_database(DATABASE_NAME)
        DATABASES[alias] |= json.loads(os.environ.get("SKIPPER_TEST_DATABASE", "{}"))

SECRET_KEY = "of no use outside the tests"
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "tests.urls"
STATIC_URL = "/static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    "skipper_django",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "tests.browser.csp.strict_csp",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
# The default hasher is slow on purpose.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

TASKS: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "skipper_django.backend.SkipperBackend", "QUEUES": []},
}
# Child processes of a test may be given other settings.
SKIPPER: dict[str, Any] = json.loads(os.environ.get("SKIPPER_TEST_SETTINGS", "{}"))
