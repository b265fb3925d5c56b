"""Records that nobody would hear are not made; whatever somebody hears is."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils.log import AdminEmailHandler, RequireDebugTrue

from skipper_django.unheard import FRAMEWORK, silence_unheard


@pytest.fixture
def logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The framework's, under a root of its own instead of pytest's."""
    logger = logging.getLogger(FRAMEWORK[0])
    root = logging.Logger("root", logging.INFO)
    monkeypatch.setattr(logger, "parent", root)
    level, handlers = logger.level, list(logger.handlers)
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def handler(level: int = logging.NOTSET, *filters: logging.Filter) -> logging.Handler:
    made = logging.StreamHandler()
    made.setLevel(level)
    for one in filters:
        made.addFilter(one)
    return made


def only_with_debug() -> logging.Handler:
    made = handler(logging.INFO)
    made.addFilter(RequireDebugTrue())
    return made


@pytest.mark.parametrize(
    ("debug", "handlers", "heard"),
    [
        (False, [only_with_debug], logging.CRITICAL),
        (False, [only_with_debug, lambda: handler(logging.ERROR)], logging.ERROR),
        (True, [only_with_debug], logging.INFO),
        (False, [handler], logging.INFO),
        (False, [lambda: handler(logging.WARNING)], logging.WARNING),
        (False, [], logging.WARNING),  # Python's last resort
    ],
    ids=["django's console", "and its mail", "with DEBUG", "all", "warnings", "none"],
)
def test_what_is_heard_decides(
    logger: logging.Logger, settings: Any, debug: bool, handlers: list[Any], heard: int
) -> None:
    settings.DEBUG = debug
    assert logger.parent is not None
    for make in handlers:
        logger.parent.addHandler(make())

    silence_unheard()

    assert logger.getEffectiveLevel() == heard


def test_a_level_that_the_project_has_chosen_is_not_lowered(logger: logging.Logger) -> None:
    logger.setLevel(logging.ERROR)
    logger.addHandler(AdminEmailHandler())
    logger.addHandler(handler())

    silence_unheard()

    assert logger.level == logging.ERROR


def test_who_listens_without_a_handler_hears_all(
    logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tracked(self: logging.Logger, record: logging.LogRecord) -> None:
        """As error trackers do it."""

    monkeypatch.setattr(logging.Logger, "callHandlers", tracked)

    silence_unheard()

    assert logger.getEffectiveLevel() == logging.INFO
