"""Settings of the example project: SQLite in a file beside them, everything else as it comes.

For a machine of your own only: the secret key is public and the demo login has a known password.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import django

HERE = Path(__file__).resolve().parent

DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("EXAMPLE_DATABASE", HERE / "db.sqlite3"),
        "OPTIONS": {
            # Several processes write: wait for each other, take the write lock at the beginning of
            # a transaction, and let readers go on meanwhile.
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    # The Tasks framework is part of Django from 6.0 on; before that it is an app.
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    "skipper_django",
    "example_project.library",
]

TASKS: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "skipper_django.backend.SkipperBackend", "QUEUES": []},
}

# The framework logs every step of every task, which under DEBUG goes to the terminal.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "loggers": {"django.tasks": {"level": "WARNING"}, "django_tasks": {"level": "WARNING"}},
}

SECRET_KEY = "of no use outside the example"  # noqa: S105
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]
USE_TZ = True
TIME_ZONE = "UTC"
ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"
ASGI_APPLICATION = "example_project.asgi.application"
STATIC_URL = "static/"

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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
