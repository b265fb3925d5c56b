"""Prometheus metrics; imported only where the `prometheus` extra is installed and asked for.

`register()` adds the gauges of whole queues to the web process's /metrics; with django_prometheus
in INSTALLED_APPS it is called for you. `view` shows them alone.
"""

from .queues import register, unregister, view

__all__ = ["register", "unregister", "view"]
