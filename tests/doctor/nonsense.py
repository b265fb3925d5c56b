"""Rows edited into nonsense, as somebody with a database client would."""

from __future__ import annotations

from typing import Any

from django.db import DatabaseError, connections, transaction

from skipper_django.models import Task

SCHEDULED, READY, RUNNING, SUCCESSFUL, FAILED = 0, 1, 2, 3, 4
DEEP = "[" * 100_000 + "]" * 100_000

# What somebody wrote, and what becomes of the row: an action, and a reason if it is parked.
REPAIRED: dict[str, dict[str, Any]] = {
    "wrong lane": {"lane": 5},
    "wrong bucket": {"bucket": 1_500},
    "negative bucket": {"bucket": -1},
    "wrong slot": {"slot": 99},
    "all of its place": {"lane": -1, "bucket": -2, "slot": -3, "ord": 7},
    "wrong ord": {"ord": 9},
    "huge priority": {"priority": 30_000},
    "least priority": {"priority": -32_768},
    "negative attempts": {"attempts": -3},
    "more losses than attempts": {"attempts": 1, "lost_leases": 2},
    "negative losses": {"lost_leases": -1},
    "reason without failure": {"reason": "because"},
    "errors of a waiting task": {"errors": "not JSON"},
    "errors of another shape": {"errors": '[1, {"attempt": 1}]'},
    "errors too deep": {"errors": DEEP},
    "finished at, not finished": {"finished_at": "2026-01-01 00:00:00.000000"},
    "lease without running": {"lease_expires_at": "2026-01-01 00:00:00.000000"},
    "enqueued in the future": {"enqueued_at": "2400-01-01 00:00:00.000000"},
    "finished never": {"status": SUCCESSFUL, "finished_at": None},
    "failed never": {"status": FAILED, "reason": "exception", "finished_at": None},
    "finished in the future": {
        "status": SUCCESSFUL,
        "finished_at": "2400-01-01 00:00:00.000000",
    },
    "running without a token": {
        "status": RUNNING,
        "lease_expires_at": "2400-01-01 00:00:00.000000",
    },
    "a lease of centuries": {
        "status": RUNNING,
        "lease_token": 77,
        "lease_expires_at": "2400-01-01 00:00:00.000000",
    },
    "running without a lease": {"status": RUNNING, "lease_token": 77},
    "no moments": {"enqueued_at": "infinity", "started_at": "-infinity"},
    "ready at no moment": {"run_after": "infinity"},
    "a day that never was": {"enqueued_at": "2026-02-30 00:00:00.000000"},
    "another notation": {"run_after": "2026-01-01T00:00:00Z"},  # sorts wrongly where it is text
    "bytes for text": {"reason": b"\xff\xfe"},
}
PARKED: dict[str, tuple[str, dict[str, Any]]] = {
    "bad arguments": ("bad_arguments", {"args": "[1", "kwargs": "nonsense"}),
    "empty arguments": ("bad_arguments", {"args": "", "kwargs": ""}),
    "arguments of another shape": ("bad_arguments", {"args": '{"a": 1}'}),
    "arguments too deep": ("bad_arguments", {"args": DEEP}),
    "unknown status": ("bad_row", {"status": 99}),
    "negative status": ("bad_row", {"status": -1}),
    "a word for a status": ("bad_row", {"status": "nonsense"}),
    "scheduled for no moment": (
        "bad_row",
        {"status": SCHEDULED, "ord": 0, "run_after": "infinity"},
    ),
    "bytes for arguments": ("bad_arguments", {"args": b"\xff[1]"}),
    "unknown reason": ("bad_row", {"status": FAILED, "reason": "because"}),
    "failed without a reason": ("bad_row", {"status": FAILED}),
    "bad result": ("bad_result", {"status": SUCCESSFUL, "result": "{"}),
    "several at once": (
        "bad_row",
        {"status": 77, "lane": 1, "bucket": 2_000, "args": "?", "errors": "?", "priority": 9_999},
    ),
}


def write(alias: str, pk: int, **values: Any) -> str:
    """Edit a row; why the database refuses, or "" if it does not."""
    odd = [v for v in values.values() if isinstance(v, bytes) or str(v).endswith("Z")]
    if odd and connections[alias].vendor != "sqlite":
        return "what it means is clear to this database"
    table = connections[alias].ops.quote_name(Task._meta.db_table)
    setters = ", ".join(f"{name} = %s" for name in values)
    check = "PRAGMA ignore_check_constraints = {}"
    is_sqlite = connections[alias].vendor == "sqlite"
    try:
        with transaction.atomic(alias), connections[alias].cursor() as cursor:
            if is_sqlite:
                cursor.execute(check.format("ON"))
            cursor.execute(
                f"UPDATE {table} SET {setters} WHERE id = %s",  # noqa: S608
                [*values.values(), pk],
            )
    except DatabaseError as error:
        return str(error)
    finally:
        if is_sqlite:
            with connections[alias].cursor() as cursor:
                cursor.execute(check.format("OFF"))
    return ""
