"""Leases read back from their rows, for whoever has no more of them than id and token."""

from collections.abc import Sequence

from .database import Database
from .lease import Lease, lease_of, payload
from .settle import HasToken, fence

BATCH = 1_000


def load(database: Database, held: Sequence[HasToken]) -> list[Lease]:
    """Those that are still held under these tokens, with all that their claim had read."""
    leases = []
    for start in range(0, len(held), BATCH):
        rows = database.rows(
            f"SELECT {payload(database)}, lease_token, last_attempted_at "  # noqa: S608
            f"FROM {database.tasks} WHERE {fence(held[start : start + BATCH])}"
        )
        for *row, token, claimed_at in rows:
            moment = database.dialect.from_db(claimed_at)
            assert moment is not None  # noqa: S101  (a claim writes it)
            leases.append(lease_of(database, row, token, moment))
    return leases
