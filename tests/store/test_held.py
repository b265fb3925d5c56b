"""Leases read back by id and token."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from skipper_django.core.outcome import Released, Succeeded
from skipper_django.store import held
from skipper_django.store.claim import claim
from skipper_django.store.database import Database
from skipper_django.store.settle import settle
from tests.store.support import NOW, claimant, leases

pytestmark = pytest.mark.django_db(transaction=True)


def test_they_are_those_of_the_claim(database: Database) -> None:
    first = leases(database, 2)
    second = leases(database, 1, NOW + timedelta(seconds=5), "other")

    loaded = held.load(database, [*first, *second])

    assert sorted(loaded, key=lambda lease: lease.id) == [*first, *second]


def test_what_has_been_lost_or_settled_is_not_among_them(database: Database) -> None:
    kept, lost, finished = leases(database, 3)
    settle(database, [(finished, Succeeded("1")), (lost, Released())], NOW)
    (again,) = claim(database, claimant("other"), 10, NOW)
    assert again.id == lost.id

    assert held.load(database, [kept, lost, finished]) == [kept]
    # A token of the batch is not enough: it must be that of the task.
    assert held.load(database, [kept, replace(lost, token=kept.token)]) == [kept]


def test_many_are_read_in_bounded_statements(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "BATCH", 2)
    taken = leases(database, 5)

    assert sorted(lease.id for lease in held.load(database, taken)) == [lease.id for lease in taken]
    assert held.load(database, []) == []
