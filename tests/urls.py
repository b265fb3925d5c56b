"""URLs of the tests: the admin, and the app's own page once it has one."""

from __future__ import annotations

import importlib.util

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [path("admin/", admin.site.urls)]
if importlib.util.find_spec("skipper_django.urls"):
    urlpatterns.insert(0, path("skipper/admin/", include("skipper_django.urls")))
