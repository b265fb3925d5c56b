"""What an attempt led to, as a value; nothing is stored here."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from traceback import format_exception
from types import TracebackType
from typing import Any

from .errors import TaskTimeout
from .reasons import FailReason
from .redaction import redacted

PACKAGE = f"{Path(__file__).parents[1]}/"
MAX_MESSAGE_CHARACTERS = 1_000
MAX_TRACEBACK_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: str | None  # JSON; None for None


@dataclass(frozen=True, slots=True)
class Retry:
    delay: float  # seconds until the task is due again
    errors: list[dict[str, Any]]  # one entry for each attempt that failed, the newest last


@dataclass(frozen=True, slots=True)
class Failed:
    reason: FailReason
    errors: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Released:
    """Given back: never started, or cut off by a shutdown. The attempt does not count."""


Outcome = Succeeded | Retry | Failed | Released


def describe_error(
    error: BaseException, attempt: int, secrets: Collection[str] = ()
) -> dict[str, Any]:
    """The error as it is stored with the task: class, message, traceback, number of the attempt.

    Without the texts in `secrets`, wherever they stand in it.
    """
    kind = type(error)

    def hidden(text: str) -> str:
        return redacted(text, secrets) if secrets else text

    return {
        "attempt": attempt,
        "exception_class_path": shorten(
            storable(f"{kind.__module__}.{kind.__qualname__}"), MAX_MESSAGE_CHARACTERS
        ),
        "message": shorten(storable(hidden(_message_of(error))), MAX_MESSAGE_CHARACTERS),
        "traceback": shorten(storable(hidden(_traceback_of(error))), MAX_TRACEBACK_CHARACTERS),
    }


def reason_of(error: BaseException) -> FailReason:
    return FailReason.TIMEOUT if isinstance(error, TaskTimeout) else FailReason.EXCEPTION


def storable(text: str) -> str:
    """The text without what some database refuses: lone surrogates, NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def shorten(text: str, limit: int) -> str:
    """Head and tail of a long text: a traceback names its cause at the end."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__name__} whose text cannot be made>"


def _traceback_of(error: BaseException) -> str:
    try:
        return "".join(format_exception(type(error), error, _from_user_code(error.__traceback__)))
    except Exception:
        return f"<traceback of {type(error).__name__} that cannot be made>"


def _from_user_code(traceback: TracebackType | None) -> TracebackType | None:
    """Without the frames of this package that stand before the task's own."""
    while (
        traceback is not None
        and traceback.tb_next is not None
        and traceback.tb_frame.f_code.co_filename.startswith(PACKAGE)
    ):
        traceback = traceback.tb_next
    return traceback


def load_errors(text: str | None) -> list[dict[str, Any]]:
    """The stored errors; what somebody edited into nonsense counts as none."""
    try:
        errors = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return (
        [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
    )
