"""The /metrics of the web process: gauges of whole queues, and what its own workers count."""

from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from .embedded import EmbeddedCollector
from .queues import QueueCollector

_collectors = (QueueCollector(), EmbeddedCollector())
_registered = False


def register() -> None:
    """Add them to the registry that django-prometheus's /metrics shows; once."""
    global _registered
    if not _registered:
        for collector in _collectors:
            REGISTRY.register(collector)
        _registered = True


def unregister() -> None:
    """Take them out again."""
    global _registered
    if _registered:
        for collector in _collectors:
            REGISTRY.unregister(collector)
        _registered = False


def view(request: HttpRequest) -> HttpResponse:
    """These alone, for projects whose /metrics shows PROMETHEUS_MULTIPROC_DIR only."""
    registry = CollectorRegistry()
    for collector in _collectors:
        registry.register(collector)
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
