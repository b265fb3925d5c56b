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
    BAD_ROW = "bad_row"  # its row was edited into something that no worker can run


class FetchReason(StrEnum):
    """Why a member fetches from the whole queue instead of its own range."""

    GATE_OFF = "gate_off"  # TASK_PARTITIONING is, or answers, False
    GATE_ERROR = "gate_error"  # the TASK_PARTITIONING callable raised
    NOT_REGISTERED = "not_registered"  # CLUSTER_MEMBERSHIP_MANAGER is "single"
    NO_LIVE_MEMBER = "no_live_member"  # the live list is empty
    OWN_ROW_MISSING = "own_row_missing"  # the live list is without this member
    BEYOND_LAST_BUCKET = (
        "beyond_last_bucket"  # more members than buckets, and this is one of the last
    )
    RANGE_ERROR = "range_error"  # computing the range failed


class ClusterReason(StrEnum):
    """Why the members of a cluster do not all fetch from ranges of their own.

    Beside these: the FetchReason that all of them have in common.
    """

    NOT_REGISTERED = "not_registered"  # CLUSTER_MEMBERSHIP_MANAGER is "single"
    NO_LIVE_MEMBER = "no_live_member"
    ALL_DRAINING = "all_draining"  # every live member is about to stop
    SEVERAL_REASONS = "several_reasons"  # all fetch from the whole queue, each for its own reason
    SOME_WHOLE_QUEUE = "some_whole_queue"  # active, but for some members


class FetchMode(StrEnum):
    PARTITIONED = "partitioned"
    WHOLE_QUEUE = "whole_queue"
