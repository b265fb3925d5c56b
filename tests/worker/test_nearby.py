"""Where an idle worker looks first, and that it then looks everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from skipper_django.core.buckets import BucketRange, Share, bucket_of, slot_of
from skipper_django.core.hint import ANYWHERE, Hint
from skipper_django.models import Task
from skipper_django.store import claim
from skipper_django.store.dialects.postgresql import PostgreSQL
from skipper_django.worker import alarm as alarms
from skipper_django.worker import arrivals, nearby, pace
from skipper_django.worker.nearby import Nearby
from tests import tasks
from tests.waiting import wait_until

MINE = Share((1, 2), BucketRange(10, 500))
OTHERS = Share((3,), BucketRange(0, 40))
SHARES = (MINE, OTHERS)


def narrowed(*hints: Hint, is_idle: bool = True) -> tuple[Share, ...]:
    nearby = Nearby("default")
    nearby.heard(hints)
    return claimed_from(nearby, is_idle)


def claimed_from(nearby: Nearby, is_idle: bool = True) -> tuple[Share, ...]:
    return nearby.narrowed(SHARES, nearby.is_called({1, 2, 3}, is_idle))


@pytest.mark.parametrize(
    ("hint", "where"),
    [
        (Hint(1, 100), Share((1,), BucketRange(96, 112))),
        (Hint(2, 11), Share((2,), BucketRange(10, 16))),
        (Hint(1, 499), Share((1,), BucketRange(496, 500))),
        (Hint(3, 39), Share((3,), BucketRange(32, 40))),
    ],
)
def test_a_hint_narrows_the_claim_to_its_slot(hint: Hint, where: Share) -> None:
    assert narrowed(hint) == (where,)
    assert narrowed(hint, hint) == (where,)


@pytest.mark.parametrize("hint", [Hint(1, 9), Hint(1, 500), Hint(3, 40)])
def test_what_is_not_ours_is_not_looked_for(hint: Hint) -> None:
    assert narrowed(hint) == ()


def test_a_queue_that_is_not_known_yet_is_looked_for() -> None:
    assert narrowed(Hint(4, 100)) == SHARES


def test_a_notification_of_the_same_task_says_nothing_new() -> None:
    told, noticed = Hint(1, 100, False, "a"), Hint(task_id="a")
    (near,) = narrowed(told)
    assert narrowed(told, noticed) == narrowed(noticed, told) == (near,)
    assert narrowed(told, Hint(task_id="b")) == narrowed(told, ANYWHERE) == SHARES


def test_it_looks_everywhere_where_the_hint_is_not_all_there_is_to_know() -> None:
    assert narrowed() == SHARES
    assert narrowed(ANYWHERE) == SHARES
    assert narrowed(Hint(1, 100), ANYWHERE) == narrowed(ANYWHERE, Hint(1, 100)) == SHARES
    assert narrowed(Hint(1, 100), Hint(1, 101)) == SHARES
    assert narrowed(Hint(1, 100), Hint(2, 100)) == SHARES
    assert narrowed(Hint(1, 100), is_idle=False) == SHARES


def test_every_second_claim_looks_everywhere_however_many_hints_come() -> None:
    nearby = Nearby("default")
    seen = []
    for _ in range(4):
        nearby.heard([Hint(1, 100)])
        seen.append(claimed_from(nearby) == SHARES)
        assert nearby.is_near is not seen[-1]
    assert seen == [False, True, False, True]
    assert claimed_from(nearby) == SHARES, "a hint is used up"


def test_a_claim_that_has_left_something_is_followed_by_one_everywhere() -> None:
    nearby = Nearby("default")
    nearby.heard([Hint(1, 100)])
    nearby.has_left = True
    assert claimed_from(nearby) == SHARES
    nearby.heard([Hint(1, 100)])
    assert claimed_from(nearby) != SHARES, "and that is all"


def test_hints_do_not_pile_up_while_the_loop_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "MAX_WAITING", 3)
    waiting = arrivals.Arrivals()
    for bucket in range(10):
        waiting.ring(Hint(1, bucket))

    assert waiting.take(0) == ([], [Hint(1, 0), Hint(1, 1), Hint(1, 2)])


@pytest.mark.django_db(transaction=True)
def test_a_task_whose_hint_is_lost_is_found_behind_another(
    alias: str, start_worker: Any, enqueue: Any, wait_for_state: Any, monkeypatch: Any
) -> None:
    chosen: list[set[int]] = []
    heads = claim._heads

    def noted(database: Any, parts: Any, per_part: int, limit: int) -> Any:
        chosen.append({part.slot for part in parts})
        return heads(database, parts, per_part, limit)

    monkeypatch.setattr(claim, "_heads", noted)
    for name in ("FIRST_POLL_SECONDS", "LONGEST_POLL_SECONDS", "LONGEST_REST_SECONDS"):
        monkeypatch.setattr(pace, name, 60.0)
    monkeypatch.setattr(alarms.Alarm, "saw_commit", lambda alarm: False)
    monkeypatch.setattr(alarms.Alarm, "heed", lambda alarm, hint: None)
    worker = start_worker().worker
    wait_until(lambda: worker._pace.is_idle, what="it rests")
    monkeypatch.setattr(pace, "FIRST_POLL_SECONDS", 0.005)
    assert not chosen

    lost = enqueue(tasks.noop)
    told = enqueue(tasks.noop)
    worker._arrivals.ring(Hint(told.lane, bucket_of(told.task_id)))

    for row in (told, lost):
        wait_for_state(row, Task.State.SUCCESSFUL)
    assert chosen[0] == {slot_of(bucket_of(told.task_id))}


@pytest.mark.django_db(transaction=True)
def test_a_task_that_is_told_is_taken_without_a_question(
    alias: str, start_worker: Any, enqueue: Any, wait_for_state: Any, monkeypatch: Any
) -> None:
    asked: list[str] = []

    def note(name: str) -> None:
        real = getattr(nearby, name)

        def noted(*args: Any) -> Any:
            asked.append(name)
            return real(*args)

        monkeypatch.setattr(nearby, name, noted)

    note("choose")
    note("take_named")
    monkeypatch.setattr(PostgreSQL, "notifies", False)  # it says less, and may come first
    for name in ("FIRST_POLL_SECONDS", "LONGEST_POLL_SECONDS", "LONGEST_REST_SECONDS"):
        monkeypatch.setattr(pace, name, 60.0)
    monkeypatch.setattr(alarms.Alarm, "saw_commit", lambda alarm: False)
    worker = start_worker().worker
    wait_until(lambda: worker._pace.is_idle, what="it rests")
    asked.clear()

    row = enqueue(tasks.noop)

    wait_for_state(row, Task.State.SUCCESSFUL)
    assert asked[0] == "take_named"
    assert Task.objects.using(alias).get().attempts == 1
