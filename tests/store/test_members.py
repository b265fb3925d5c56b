"""Rows of the cluster: one row a name, owned by one incarnation."""

from __future__ import annotations

import pytest

from skipper_django.core.tokens import new_incarnation
from skipper_django.store import members
from skipper_django.store.database import Database
from tests.store.support import MINUTE, NOW, side_by_side

pytestmark = pytest.mark.django_db(transaction=True)


def new_member(
    member_id: str = "host-1", tenant: str = "default", incarnation: int | None = None
) -> members.NewMember:
    return members.NewMember(
        tenant=tenant,
        member_id=member_id,
        incarnation=incarnation or new_incarnation(),
        host="host",
        host_key="key",
        pid=1,
        process_started="1",
        queues=("default", "mail"),
        concurrency=1,
        version="0",
    )


def test_a_member_that_joins_is_found_with_all_it_said(database: Database) -> None:
    member = new_member()

    assert members.add(database, member, NOW)

    row = members.find(database, "default", "host-1")
    assert row is not None
    assert (row.incarnation, row.heartbeat_at) == (member.incarnation, NOW)
    assert row.queues == {"default", "mail"}
    assert members.all_of(database, "default") == [row]


def test_a_name_that_is_taken_is_not_shared(database: Database) -> None:
    first = new_member()
    members.add(database, first, NOW)

    assert not members.add(database, new_member(), NOW)

    row = members.find(database, "default", "host-1")
    assert row is not None
    assert row.incarnation == first.incarnation


@pytest.mark.parametrize("other", ["host-1 ", "HOST-1", "host\u20101", "\U0001f680"])
def test_names_are_kept_apart_exactly(database: Database, other: str) -> None:
    assert members.add(database, new_member(), NOW)
    assert members.add(database, new_member(other), NOW)
    assert members.add(database, new_member(tenant="other"), NOW)

    assert {row.member_id for row in members.all_of(database, "default")} == {"host-1", other}


def test_of_those_that_join_at_once_under_one_name_one_has_it(database: Database) -> None:
    answers = side_by_side(*[lambda: members.add(Database(database.alias), new_member(), NOW)] * 4)

    assert sorted(answers) == [False, False, False, True]


def test_only_the_incarnation_that_owns_a_row_beats_and_leaves(database: Database) -> None:
    mine, other = new_member(), new_member()
    members.add(database, mine, NOW)

    assert not members.beat(database, "default", "host-1", other.incarnation, {}, NOW + MINUTE)
    members.leave(database, "default", "host-1", other.incarnation)
    assert not members.mark_dead(database, "default", "host-1", other.incarnation)
    assert members.beat(
        database, "default", "host-1", mine.incarnation, {"running": 3}, NOW + MINUTE
    )

    row = members.find(database, "default", "host-1")
    assert row is not None
    assert (row.state.name, row.heartbeat_at) == ("ACTIVE", NOW + MINUTE)
    members.leave(database, "default", "host-1", mine.incarnation)
    assert members.find(database, "default", "host-1") is None


def test_of_those_that_see_a_death_one_tells_and_nobody_of_one_that_has_left(
    database: Database,
) -> None:
    dead, left = new_member(), new_member("host-2")
    members.add(database, dead, NOW)
    members.add(database, left, NOW)
    members.leave(database, "default", "host-2", left.incarnation)

    mark = [
        lambda: members.mark_dead(Database(database.alias), "default", "host-1", dead.incarnation)
    ]
    answers = side_by_side(*mark * 4)

    assert sorted(answers) == [False, False, False, True]
    assert not members.mark_dead(database, "default", "host-2", left.incarnation)


def test_a_dead_incarnation_is_taken_over_once(database: Database) -> None:
    dead = new_member()
    members.add(database, dead, NOW)

    answers = side_by_side(
        *[
            lambda: members.take_over(
                Database(database.alias), new_member(), dead.incarnation, NOW + MINUTE
            )
        ]
        * 4
    )

    assert sorted(answers) == [False, False, False, True]


def test_only_the_long_dead_of_the_tenant_are_pruned(database: Database) -> None:
    members.add(database, new_member("old"), NOW - members.KEEP_DEAD - MINUTE)
    members.add(database, new_member("old", "other"), NOW - members.KEEP_DEAD - MINUTE)
    members.add(database, new_member("recent"), NOW - members.KEEP_DEAD)

    assert members.prune(database, "default", NOW) == 1
    assert [row.member_id for row in members.all_of(database, "default")] == ["recent"]
    assert len(members.all_of(database, "other")) == 1
