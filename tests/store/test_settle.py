"""Storing outcomes: in batches, once, and never past the fence."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test.utils import CaptureQueriesContext

from skipper_django.core.buckets import ALL_BUCKETS
from skipper_django.core.outcome import Failed, Outcome, Released, Retry, Succeeded, describe_error
from skipper_django.core.reasons import FailReason
from skipper_django.core.states import TaskState
from skipper_django.models import Task
from skipper_django.store.claim import claim
from skipper_django.store.database import Database
from skipper_django.store.lease import Lease
from skipper_django.store.settle import settle
from skipper_django.store.upkeep import expired, promote, reclaim, renew
from tests.store.support import (
    LANE,
    MINUTE,
    NOW,
    Running,
    all_rows,
    await_blocked,
    claimant,
    default_connection,
    leases,
    read,
    row,
    save,
    states,
)

pytestmark = pytest.mark.django_db(transaction=True)

LATER = NOW + 10 * MINUTE
ERRORS: list[dict[str, Any]] = [{"attempt": 1, "message": "\U0001f680 'no' \\ %s"}]
OUTCOMES: dict[str, Outcome] = {
    "succeeded": Succeeded("[1]"),
    "succeeded with nothing": Succeeded(None),
    "retry": Retry(30, ERRORS),
    "failed": Failed(FailReason.EXCEPTION, ERRORS),
    "released": Released(),
}
any_outcome = pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=list(OUTCOMES))


def columns(database: Database, lease: Lease) -> dict[str, Any]:
    return dict(Task.objects.using(database.alias).values().get(id=lease.id))


def lose(database: Database, lease: Lease) -> None:
    """The lease runs out and is taken back."""
    lost = expired(database, [LANE], ALL_BUCKETS, LATER)
    assert lease.id in [task.id for task in lost]
    reclaim(database, lost, LATER)


def test_a_success_is_stored_with_its_result(database: Database) -> None:
    (lease,) = leases(database)

    lost = settle(database, [(lease, Succeeded('{"a":"\U0001f680"}'))], LATER)

    stored = read(database, lease.task_id)
    assert lost == []
    assert (stored.status, stored.ord) == (TaskState.SUCCESSFUL, 0)
    assert (stored.result, stored.finished_at) == ('{"a":"\U0001f680"}', LATER)
    assert (stored.attempts, stored.worker_ids, stored.started_at) == (1, "member\n", NOW)
    assert stored.lease_expires_at is None


def test_a_failure_is_stored_with_its_reason_and_errors(database: Database) -> None:
    (lease,) = leases(database)

    settle(database, [(lease, Failed(FailReason.TIMEOUT, ERRORS))], LATER)

    stored = read(database, lease.task_id)
    assert (stored.status, stored.reason, stored.finished_at) == (
        TaskState.FAILED, "timeout", LATER,
    )  # fmt: skip
    assert json.loads(stored.errors or "") == ERRORS
    assert stored.result is None


def test_a_retry_waits_as_scheduled_and_keeps_its_errors(database: Database) -> None:
    (lease,) = leases(database)

    settle(database, [(lease, Retry(30.25, ERRORS))], LATER)

    stored = read(database, lease.task_id)
    assert (stored.status, stored.ord, stored.finished_at) == (TaskState.SCHEDULED, 0, None)
    assert stored.run_after == LATER + timedelta(seconds=30.25)
    assert json.loads(stored.errors or "") == ERRORS
    assert stored.attempts == 1


def test_unstarted_work_that_is_released_is_as_if_it_had_never_been_claimed(
    database: Database,
) -> None:
    save(database, row("mine", priority=7, run_after=NOW - MINUTE))
    before = dict(Task.objects.using(database.alias).values().get(task_id="mine"))
    (lease,) = claim(database, claimant(), 1, NOW)

    settle(database, [(lease, Released())], LATER)

    after = columns(database, lease)
    # The worker list may be empty instead of NULL, the token is the old one's negative.
    assert after.pop("worker_ids") in (None, "")
    assert after.pop("lease_token") == -lease.token
    del before["worker_ids"], before["lease_token"]
    assert after == before


def test_a_later_attempt_that_is_released_keeps_the_earlier_ones(database: Database) -> None:
    save(
        database,
        row("mine", attempts=2, started_at=NOW - MINUTE, worker_ids="a\nb\u2028c\x0b\x85d\n"),
    )
    (lease,) = claim(database, claimant("e\u2028\x1cf"), 1, NOW)

    settle(database, [(lease, Released())], LATER)

    stored = read(database, "mine")
    assert (stored.status, stored.attempts, stored.started_at) == (
        TaskState.READY, 2, NOW - MINUTE,
    )  # fmt: skip
    assert stored.worker_ids == "a\nb\u2028c\x0b\x85d\n"


def test_a_released_task_is_claimed_again_at_its_old_place(database: Database) -> None:
    save(database, row("first", priority=9), row("second"))
    (lease,) = claim(database, claimant(), 1, NOW)

    settle(database, [(lease, Released())], LATER)

    assert [lease.task_id for lease in claim(database, claimant(), 2, NOW)] == ["first", "second"]


def test_a_mixed_batch_stores_each_outcome_with_its_own_task(database: Database) -> None:
    held = leases(database, 40)
    outcomes: list[Outcome] = []
    for number in range(8):
        outcomes += [
            Succeeded(f'"{number}"'),
            Succeeded(None),
            Retry(number, [{"attempt": number}]),
            Failed(list(FailReason)[number % 7], [{"attempt": -number}]),
            Released(),
        ]

    lost = settle(database, list(zip(held, outcomes, strict=True)), LATER)

    assert lost == []
    for lease, outcome in zip(held, outcomes, strict=True):
        stored = read(database, lease.task_id)
        match outcome:
            case Succeeded(result):
                assert (stored.status, stored.result) == (TaskState.SUCCESSFUL, result)
            case Retry(delay, errors):
                assert stored.status == TaskState.SCHEDULED
                assert stored.run_after == LATER + timedelta(seconds=delay)
                assert json.loads(stored.errors or "") == errors
            case Failed(reason, errors):
                assert (stored.status, stored.reason) == (TaskState.FAILED, reason.value)
                assert json.loads(stored.errors or "") == errors
            case Released():
                assert (stored.status, stored.attempts) == (TaskState.READY, 0)


def test_a_batch_of_one_kind_is_one_statement_and_of_all_kinds_four(database: Database) -> None:
    one_kind = [(lease, Succeeded("1")) for lease in leases(database, 100)]
    four_kinds = list(zip(leases(database, 5), OUTCOMES.values(), strict=True))

    with CaptureQueriesContext(database.connection) as few:
        settle(database, one_kind, LATER)
    with CaptureQueriesContext(database.connection) as more:
        settle(database, four_kinds, LATER)

    assert (len(few), len(more)) == (1, 4)


def test_no_outcomes_are_no_statement(database: Database) -> None:
    with CaptureQueriesContext(database.connection) as queries:
        assert settle(database, [], LATER) == []

    assert len(queries) == 0


def test_large_results_are_stored_in_statements_below_the_packet_limit(database: Database) -> None:
    result = json.dumps("\U0001f680" * 250_000, ensure_ascii=False)
    held = leases(database, 24)

    lost = settle(database, [(lease, Succeeded(result)) for lease in held], LATER)

    assert lost == []
    assert states(database) == [TaskState.SUCCESSFUL] * 24
    assert {task.result for task in all_rows(database)} == {result}


def test_a_thousand_outcomes_are_stored_at_once(database: Database) -> None:
    held = leases(database, 1_000)
    outcomes = [Failed(FailReason.EXCEPTION, [{"attempt": lease.id}]) for lease in held]

    assert settle(database, list(zip(held, outcomes, strict=True)), LATER) == []
    assert set(states(database)) == {TaskState.FAILED}


def test_an_error_with_everything_awkward_in_it_is_stored(database: Database) -> None:
    (lease,) = leases(database)
    errors = [describe_error(ValueError("a\0b\ud800 \U0001f680 %s ' \\" + "x" * 50_000), 1)]

    settle(database, [(lease, Failed(FailReason.EXCEPTION, errors))], LATER)

    assert json.loads(read(database, lease.task_id).errors or "") == errors


@any_outcome
def test_a_repeated_settle_changes_nothing_and_counts_as_stored(
    database: Database, outcome: Outcome
) -> None:
    (lease,) = leases(database)
    settle(database, [(lease, outcome)], LATER)
    stored = columns(database, lease)

    lost = settle(database, [(lease, outcome)], LATER + MINUTE)

    assert lost == []
    assert columns(database, lease) == stored


@pytest.mark.parametrize("name", [name for name in OUTCOMES if name != "released"])
def test_an_outcome_is_lost_where_another_one_ended_the_lease(
    database: Database, name: str
) -> None:
    """A stand-in has handed the task back: whoever ran it all the same must hear of it."""
    outcome = OUTCOMES[name]
    lease, other = leases(database, 2)
    settle(database, [(lease, Released())], LATER)
    before = columns(database, lease)

    lost = settle(database, [(lease, outcome), (other, outcome)], LATER)

    assert lost == [(lease, outcome)]
    assert columns(database, lease) == before


@any_outcome
def test_a_lease_that_was_taken_back_stores_nothing(database: Database, outcome: Outcome) -> None:
    (lease,) = leases(database)
    lose(database, lease)
    before = columns(database, lease)

    lost = settle(database, [(lease, outcome)], LATER)

    assert lost == [(lease, outcome)]
    assert columns(database, lease) == before


@any_outcome
def test_a_task_that_was_claimed_again_is_not_touched(database: Database, outcome: Outcome) -> None:
    (lease,) = leases(database)
    lose(database, lease)
    (again,) = claim(database, claimant("other"), 1, LATER)
    before = columns(database, lease)

    assert settle(database, [(lease, outcome)], LATER) == [(lease, outcome)]
    assert columns(database, lease) == before
    assert renew(database, [lease], LATER, 60).lost == [lease]
    assert columns(database, lease) == before
    assert settle(database, [(again, outcome)], LATER) == []


@any_outcome
def test_a_batch_does_not_touch_what_the_same_member_has_claimed_again(
    database: Database, outcome: Outcome
) -> None:
    (stale,) = leases(database)
    lose(database, stale)
    save(database, row())
    held = claim(database, claimant(), 2, LATER)
    again, fresh = sorted(held, key=lambda lease: lease.id)
    before = columns(database, again)
    assert again.id == stale.id

    lost = settle(database, [(stale, outcome), (fresh, outcome)], LATER)

    assert lost == [(stale, outcome)]
    assert columns(database, again) == before
    assert columns(database, fresh)["status"] != TaskState.RUNNING


@any_outcome
def test_an_old_and_a_new_lease_of_one_task_in_one_batch_are_told_apart(
    database: Database, outcome: Outcome
) -> None:
    (stale,) = leases(database)
    lose(database, stale)
    (held,) = claim(database, claimant(), 1, LATER)

    for batch in ([(stale, outcome), (held, outcome)], [(held, outcome), (stale, outcome)]):
        assert settle(database, batch, LATER) == [(stale, outcome)]

    assert columns(database, held)["status"] != TaskState.RUNNING


def test_a_lost_lease_among_held_ones_loses_only_itself(database: Database) -> None:
    held = leases(database, 5)
    Task.objects.using(database.alias).filter(id=held[2].id).update(lease_token=4711)

    lost = settle(database, [(lease, Succeeded(None)) for lease in held], LATER)

    assert [lease for lease, _ in lost] == [held[2]]
    assert states(database).count(TaskState.SUCCESSFUL) == 4


def test_a_task_that_is_deleted_meanwhile_is_a_lost_lease(database: Database) -> None:
    (lease,) = leases(database)
    Task.objects.using(database.alias).all().delete()

    assert settle(database, [(lease, Succeeded(None))], LATER) == [(lease, Succeeded(None))]
    assert renew(database, [lease], LATER, 60).lost == [lease]


def test_an_invented_token_opens_nothing(database: Database) -> None:
    (lease,) = leases(database)
    for token in (lease.token + 1, lease.token - 1, 1):
        forged = dataclasses.replace(lease, token=token)

        assert settle(database, [(forged, Succeeded("1"))], LATER) == [(forged, Succeeded("1"))]
        assert read(database, lease.task_id).status == TaskState.RUNNING


def test_outcome_and_effect_of_one_transaction_go_together(database: Database) -> None:
    (lease,) = leases(database)
    with transaction.atomic(database.alias):
        settle(database, [(lease, Succeeded(None))], LATER)
        transaction.set_rollback(True, using=database.alias)

    assert states(database) == [TaskState.RUNNING]
    assert settle(database, [(lease, Succeeded(None))], LATER) == []


def test_a_settle_waits_for_a_reclaim_under_way_and_loses(database: Database) -> None:
    (lease,) = leases(database)
    with transaction.atomic(database.alias):
        lose(database, lease)
        late = Running(lambda: settle(Database(database.alias), [(lease, Succeeded(None))], LATER))
        await_blocked(database, late)

    assert late.result() == [(lease, Succeeded(None))]
    assert states(database) == [TaskState.READY]


def test_a_reclaim_waits_for_a_settle_under_way_and_loses(database: Database) -> None:
    (lease,) = leases(database)
    lost = expired(database, [LANE], ALL_BUCKETS, LATER)
    with transaction.atomic(database.alias):
        settle(database, [(lease, Succeeded(None))], LATER)
        late = Running(lambda: reclaim(Database(database.alias), lost, LATER))
        await_blocked(database, late)

    assert late.result() == 0
    assert states(database) == [TaskState.SUCCESSFUL]


def test_renewal_pushes_the_expiry_forward(database: Database) -> None:
    held = leases(database, 3)

    lost = renew(database, held, NOW + MINUTE, 45).lost

    assert lost == []
    assert {task.lease_expires_at for task in all_rows(database)} == {
        NOW + MINUTE + timedelta(seconds=45)
    }


def test_renewal_never_takes_time_away(database: Database) -> None:
    """One that a held interpreter kept from the driver comes after those of the stand-in."""
    held = leases(database, 3)
    renew(database, held, LATER, 60)

    assert renew(database, held, NOW, 60).lost == []
    assert {task.lease_expires_at for task in all_rows(database)} == {LATER + timedelta(seconds=60)}


def test_renewal_is_one_statement_also_for_the_same_moment(database: Database) -> None:
    held = leases(database, 3)
    renew(database, held, NOW, 45)

    with CaptureQueriesContext(database.connection) as queries:
        lost = renew(database, held, NOW, 45).lost

    # MySQL reports rows matched, not rows changed: else a repeated renewal would look lost.
    assert (lost, len(queries)) == ([], 1)


def test_a_lease_that_has_run_out_but_was_not_taken_back_can_be_renewed(
    database: Database,
) -> None:
    (lease,) = leases(database)

    assert renew(database, [lease], LATER, 60).lost == []
    assert expired(database, [LANE], ALL_BUCKETS, LATER) == []


@any_outcome
def test_a_settled_lease_cannot_be_renewed_and_is_not_lost(
    database: Database, outcome: Outcome
) -> None:
    """The keeper renews what the loop may be settling: nobody must be told of a lost lease."""
    lease, other = leases(database, 2)
    settle(database, [(lease, outcome)], LATER)
    before = columns(database, lease)

    assert renew(database, [lease, other], LATER, 60) == ([], [lease])
    assert columns(database, lease) == before
    assert columns(database, other)["lease_expires_at"] == LATER + timedelta(seconds=60)


def test_the_renewal_tells_an_old_lease_from_a_new_one_of_the_same_task(
    database: Database,
) -> None:
    (stale,) = leases(database)
    lose(database, stale)
    (held,) = claim(database, claimant(), 1, LATER)
    (other,) = leases(database, now=LATER)

    assert renew(database, [stale, held, other], LATER, 60).lost == [stale]
    assert renew(database, [stale, other], LATER + MINUTE, 60).lost == [stale]
    assert columns(database, held)["lease_expires_at"] == LATER + timedelta(seconds=60)


def test_nothing_to_renew_is_no_statement(database: Database) -> None:
    with CaptureQueriesContext(database.connection) as queries:
        assert renew(database, [], NOW, 60).lost == []

    assert len(queries) == 0


def test_a_retry_is_settled_only_once_more_after_its_next_attempt_began(
    database: Database,
) -> None:
    (first,) = leases(database)
    settle(database, [(first, Retry(0, ERRORS))], NOW)
    assert promote(database, [LANE], ALL_BUCKETS, NOW) == 1
    (second,) = claim(database, claimant(), 1, NOW)

    lost = settle(database, [(first, Retry(0, ERRORS))], NOW)

    assert lost == [(first, Retry(0, ERRORS))]
    assert settle(database, [(second, Succeeded(None))], NOW) == []
    assert read(database, second.task_id).attempts == 2


@any_outcome
def test_outcomes_are_stored_with_parameters_bound_by_the_server(
    database: Database, outcome: Outcome
) -> None:
    if database.connection.vendor != "postgresql":
        pytest.skip("an option of PostgreSQL")
    (lease,) = leases(database)

    with default_connection(database.alias, {"server_side_binding": True}) as bound:
        assert renew(bound, [lease], LATER, 60).lost == []
        assert settle(bound, [(lease, outcome)], LATER) == []
