"""A task queue in your Django project's own database, run by a cluster of equal workers."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.backoff import exponential, fixed
    from .core.errors import SkipperError
    from .enqueue import enqueue_many
    from .registry import SkipperTask, task

__all__ = ["SkipperError", "SkipperTask", "enqueue_many", "exponential", "fixed", "task"]

_HOMES = {
    "SkipperError": "core.errors",
    "SkipperTask": "registry",
    "enqueue_many": "enqueue",
    "exponential": "core.backoff",
    "fixed": "core.backoff",
    "task": "registry",
}


def __getattr__(name: str) -> Any:
    # Lazily, so that the package can be imported before settings exist.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
