"""Lease tokens: random, and telling which incarnation of a member took the lease.

The upper 31 bits are the incarnation, the lower 32 are new with each claim. So the leases of a
member that is known to be dead can be found without a column of their own.
"""

import secrets

TOKEN_BITS = 32
INCARNATION_BITS = 30


def new_incarnation() -> int:
    """Random, never 0: which start of a process a row, or a lease, belongs to."""
    return secrets.randbits(INCARNATION_BITS) | 1 << INCARNATION_BITS


def new_token(incarnation: int) -> int:
    return incarnation << TOKEN_BITS | secrets.randbits(TOKEN_BITS)


def incarnation_of(token: int) -> int:
    """Who took the lease of this token; no incarnation of a token that is spent or forged."""
    return token >> TOKEN_BITS


def tokens_of(incarnation: int) -> tuple[int, int]:
    """First and last token that this incarnation can have."""
    first = incarnation << TOKEN_BITS
    return first, first + (1 << TOKEN_BITS) - 1
