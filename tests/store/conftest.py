"""The queue's database under test."""

from __future__ import annotations

import pytest

from skipper_django.store.database import Database


@pytest.fixture
def database(alias: str, transactional_db: None) -> Database:
    """The store's door to the database under test; its tables are emptied after the test."""
    return Database(alias)
