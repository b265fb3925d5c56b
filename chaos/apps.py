"""Lets a scenario reach into the workers that it starts."""

from __future__ import annotations

import json
import os

from django.apps import AppConfig


class ChaosConfig(AppConfig):
    name = "chaos"

    def ready(self) -> None:
        from chaos import hooks

        for name, value in json.loads(os.environ.get("CHAOS_HOOKS", "{}")).items():
            getattr(hooks, name)(value)
