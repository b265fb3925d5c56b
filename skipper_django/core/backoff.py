"""How long a failed task waits for its next attempt."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from .errors import BadBackoff
from .text import shown

# (exception, task_result) -> seconds until the next attempt, or None to stop.
BackoffCallable = Callable[[BaseException, Any], float | None]
Backoff = float | Sequence[float] | BackoffCallable

MAX_DELAY_SECONDS = 366 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same delay before every attempt."""

    seconds: float

    def __call__(self, exception: BaseException, task_result: Any) -> float:
        return self.seconds


@dataclass(frozen=True, slots=True)
class Exponential:
    """`first`, then `factor` times more before each further attempt, never above `cap` seconds.

    `jitter` is the share of the delay that is drawn at random: 0 is exact, 1 spreads the attempts
    evenly over the whole delay.
    """

    first: float = 5.0
    factor: float = 2.0
    cap: float = 3600.0
    jitter: float = 0.25

    def __call__(self, exception: BaseException, task_result: Any) -> float:
        return self.delay(len(task_result.errors), random.random())  # noqa: S311

    def delay(self, attempt: int, chance: float) -> float:
        """Seconds after the given attempt, counted from 1; `chance` is drawn from [0, 1)."""
        try:
            delay = min(self.cap, self.first * float(self.factor) ** (attempt - 1))
        except OverflowError:  # long past any cap
            delay = self.cap if self.first else 0.0
        return delay * (1 - self.jitter * chance)


def fixed(seconds: float) -> Fixed:
    check_delay(seconds)
    return Fixed(seconds)


def exponential(
    first: float = 5.0, *, factor: float = 2.0, cap: float = 3600.0, jitter: float = 0.25
) -> Exponential:
    check_delay(first)
    check_delay(cap)
    if not _is_number(factor) or factor < 1:
        raise BadBackoff(f"factor is {shown(factor)}; give a number of at least 1")
    if not _is_number(jitter) or not 0 <= jitter <= 1:
        raise BadBackoff(f"jitter is {shown(jitter)}; give a share between 0 and 1")
    return Exponential(first, factor, cap, jitter)


def check_backoff(backoff: object) -> None:
    """Raise BadBackoff for what cannot be a backoff, at the moment of the decoration."""
    if callable(backoff):
        return
    if isinstance(backoff, (list, tuple)):
        if not backoff:
            raise BadBackoff("backoff is an empty list; give at least one delay in seconds")
        for delay in backoff:
            check_delay(delay)
        return
    check_delay(backoff)


def check_delay(delay: object) -> None:
    if isinstance(delay, bool) or not isinstance(delay, (int, float)):
        raise BadBackoff(
            f"backoff of type {type(delay).__name__}: give seconds, a list of seconds, or a "
            "callable (exception, task_result) -> seconds or None"
        )
    if not 0 <= delay <= MAX_DELAY_SECONDS:  # not so for NaN either
        raise BadBackoff(f"backoff of {shown(delay)} seconds; give 0 to {MAX_DELAY_SECONDS:.0f}")


def _is_number(value: object) -> bool:
    """Is it a finite number that a float can hold?"""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
    except OverflowError:
        return False


def delay_before_retry(
    backoff: Backoff, attempt: int, exception: BaseException, task_result: Any
) -> float | None:
    """Seconds until the attempt after `attempt` (from 1), or None where the backoff says stop.

    A list gives one delay per attempt, the last one again and again. Raises BadBackoff when a
    callable raises or answers something that is no delay.
    """
    if callable(backoff):
        try:
            delay = backoff(exception, task_result)
        except Exception as error:
            raise BadBackoff(f"backoff callable raised {shown(error)}") from error
    elif isinstance(backoff, Sequence):
        delay = backoff[min(attempt, len(backoff)) - 1]
    else:
        delay = backoff
    if delay is not None:
        check_delay(delay)
    return delay
