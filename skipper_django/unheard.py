"""Log records of the Tasks framework that nobody would hear are not made.

It makes two a task, whatever the project logs. With Django's own LOGGING and DEBUG off no handler
lets them through, and making them takes longer than a short task does.
"""

import logging
from collections.abc import Iterator

from django.utils.log import RequireDebugTrue

from . import conf

FRAMEWORK = ("django.tasks", "django_tasks")


def silence_unheard() -> None:
    """Raise the level of the framework's loggers to the lowest one that some handler lets through.

    For a process of ours only: handlers that are added later hear no less than that level.
    """
    if logging.Logger.callHandlers.__module__ != "logging":
        return  # somebody listens without a handler, as error trackers do
    for name in FRAMEWORK:
        logger = logging.getLogger(name)
        heard = min(_heard_levels(logger), default=logging.CRITICAL)
        if heard > logger.getEffectiveLevel():
            logger.setLevel(heard)


def _heard_levels(logger: logging.Logger) -> Iterator[int]:
    if not logger.hasHandlers() and logging.lastResort is not None:
        yield logging.lastResort.level
    place: logging.Logger | None = logger
    while place is not None:
        for handler in place.handlers:
            if conf.is_debugging() or not _wants_debug(handler):
                yield handler.level
        place = place.parent if place.propagate else None


def _wants_debug(handler: logging.Handler) -> bool:
    return any(isinstance(filter, RequireDebugTrue) for filter in handler.filters)
