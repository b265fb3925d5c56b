"""Closed lists of the codes that stand beside every task that ended badly."""

from enum import StrEnum


class FailReason(StrEnum):
    """Why a task is FAILED. The codes are stored, logged, counted and shown."""

    EXCEPTION = "exception"  # the last permitted attempt raised
    TIMEOUT = "timeout"  # the last permitted attempt ran longer than its timeout
    WORKER_LOST = "worker_lost"  # its workers died while running it
    UNKNOWN_TASK = "unknown_task"  # its code cannot be imported by this worker
    BAD_ARGUMENTS = "bad_arguments"  # its stored arguments cannot be decoded
    BAD_RESULT = "bad_result"  # what it returned is not JSON, too large, or refused by the database
    BAD_BACKOFF = "bad_backoff"  # its backoff callable raised or answered nonsense
