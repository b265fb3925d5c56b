"""Prometheus metrics; imported only where the `prometheus` extra is installed and asked for.

`register()` adds to the web process's /metrics the gauges of whole queues and what workers inside
that process count; with django_prometheus in INSTALLED_APPS it is called for you. `view` shows
them alone.
"""

from .web import register, unregister, view

__all__ = ["register", "unregister", "view"]
