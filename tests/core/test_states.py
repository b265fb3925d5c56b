"""Stored numbers and codes: they never change meaning."""

from __future__ import annotations

import pytest

from skipper_django.core.reasons import FailReason
from skipper_django.core.states import TaskState
from skipper_django.models import Task


def test_the_stored_numbers_of_the_states_never_change() -> None:
    assert {state.name: state.value for state in TaskState} == {
        "SCHEDULED": 0,
        "READY": 1,
        "RUNNING": 2,
        "SUCCESSFUL": 3,
        "FAILED": 4,
        "CANCELLED": 5,
    }


@pytest.mark.parametrize("state", TaskState)
def test_final_states_sort_behind_the_others(state: TaskState) -> None:
    assert state.is_final == (state.name in {"SUCCESSFUL", "FAILED", "CANCELLED"})
    assert state.is_final == (state >= 3)


def test_the_model_names_every_state() -> None:
    assert {choice.name: choice.value for choice in Task.State} == {
        state.name: state.value for state in TaskState
    }


def test_the_stored_codes_of_the_reasons_never_change_and_fit_their_column() -> None:
    assert {reason.value for reason in FailReason} == {
        "exception", "timeout", "worker_lost", "unknown_task", "bad_arguments", "bad_result",
        "bad_backoff",
        "bad_row",
    }  # fmt: skip
    limit = Task._meta.get_field("reason").max_length
    assert limit is not None
    assert max(map(len, FailReason)) <= limit
