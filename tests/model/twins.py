"""The code with one promise broken each: the machine must catch every one of them.

Some are found by search within seconds. The others need a rare order of events, which is told here
as a story; on the code as it is each story ends well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from skipper_django.store import members, settle, upkeep
from skipper_django.store.database import Database
from skipper_django.store.lease import Lease
from skipper_django.store.upkeep import ORD_WHEN_READY
from skipper_django.worker.cluster import Cluster
from skipper_django.worker.leases import LeaseKeeper
from tests.model.machine import QueueMachine

STORE, WORKER = "skipper_django.store", "skipper_django.worker"


@dataclass(frozen=True)
class Twin:
    """What is broken, the complaint that must come, and the story that brings it out."""

    broken: Callable[[], AbstractContextManager[Any]]
    complaint: str
    story: Callable[[QueueMachine], None] | None = None


def rewritten(statement: str, text: str, instead: str = "") -> Any:
    """Statements that hold the first text are written otherwise."""

    def patch() -> AbstractContextManager[Any]:
        execute, rows = Database.execute, Database.rows

        def broken(sql: str) -> str:
            return sql.replace(text, instead) if statement in sql else sql

        return mock.patch.multiple(
            Database,
            execute=lambda self, sql, params=None: execute(self, broken(sql), params),
            rows=lambda self, sql, params=None: rows(self, broken(sql), params),
        )

    return patch


def replaced(target: str, function: Callable[..., Any]) -> Any:
    return lambda: mock.patch(target, function)


# Broken functions

_settle, _prune, _renew_once = settle.settle, upkeep.prune, LeaseKeeper.renew_once


def fenced_by_id(leases: Sequence[Lease]) -> str:
    return f"id IN ({', '.join(str(lease.id) for lease in leases)})"


def fenced_by_batch(leases: Sequence[Lease]) -> str:
    tokens = ", ".join(str(lease.token) for lease in leases)
    return f"{fenced_by_id(leases)} AND lease_token IN ({tokens})"


def settle_and_forget(*args: Any) -> list[Any]:
    _settle(*args)
    return []


def prune_failed_early(database: Any, tenant: str, after: int, cutoff: Any, failed: Any) -> Any:
    return _prune(database, tenant, after, cutoff, cutoff)


def renew_and_trust_all(keeper: LeaseKeeper) -> None:
    held = keeper._custody.snapshot()
    _renew_once(keeper)
    for lease in held:
        lease.trusted_until = float("inf")


def beat_after_silence(cluster: Cluster) -> None:
    started, now = cluster._clock.monotonic(), cluster._clock.now()
    who = cluster.tenant, cluster.member_id, cluster.incarnation
    members.beat(cluster._database, *who, cluster._report(), now)
    cluster._look(started)


# Stories. Ann is there with two tasks; she takes Bob's tasks for hers until her next heartbeat.


def stale_choice(machine: QueueMachine) -> None:
    machine.begin(30.0)
    machine.enqueue(6, None, 5)
    machine.do("ann", "choose_all")
    machine.join("bob")
    machine.do("bob", "claim")
    machine.do("ann", "take")


def late_outcome(machine: QueueMachine) -> None:
    machine.begin(30.0)
    machine.enqueue(6, None, 5)
    machine.do("ann", "claim_all", "start")
    machine.advance(31.0)
    machine.join("bob")
    machine.do("bob", "reclaim", "claim_all", "start")
    machine.do("ann", "finish", "settle")


def claimed_again_by_itself(machine: QueueMachine) -> None:
    machine.begin(30.0)
    machine.do("ann", "claim", "start", "finish")
    machine.advance(31.0)
    machine.enqueue(1, None, 5)
    machine.do("ann", "reclaim", "claim", "start", "finish", "settle")


def promoted_meanwhile(others: str) -> Callable[[QueueMachine], None]:
    def story(machine: QueueMachine) -> None:
        machine.begin(30.0)
        machine.enqueue(6, 8.0, 5)
        machine.join("bob")
        machine.advance(8.0)
        meanwhile = ["promote", others]
        machine.meanwhile(0, "promote_what_is_due", number=0, other=0, others=meanwhile)

    return story


def failed_long_ago(machine: QueueMachine) -> None:
    machine.begin(30.0)
    machine.do("ann", "claim", "start", "fail_running", "settle")
    machine.advance(301.0)
    machine.do("ann", "prune")


def enqueued_long_ago(machine: QueueMachine) -> None:
    machine.begin(30.0)
    machine.advance(301.0)
    machine.do("ann", "beat", "hand_back", "claim", "start", "finish", "settle", "prune")


def waited_too_long(machine: QueueMachine) -> None:
    machine.begin(30.0)
    machine.do("ann", "claim")
    machine.advance(31.0)
    machine.do("ann", "start")


def lost_while_waiting(machine: QueueMachine) -> None:
    machine.begin(30.0)
    machine.enqueue(6, None, 5)
    machine.do("ann", "claim_all")
    machine.advance(31.0)
    machine.join("bob")
    machine.do("bob", "reclaim")
    machine.do("ann", "renew", "start")


def silent_and_back(machine: QueueMachine) -> None:
    machine.begin(100.0)
    machine.do("ann", "claim")
    machine.join("bob")
    machine.advance(61.0)
    machine.do("bob", "beat")
    machine.do("ann", "beat", "start")


def silent(machine: QueueMachine) -> None:
    machine.begin(100.0)
    machine.do("ann", "claim")
    machine.advance(61.0)
    machine.do("ann", "start")


def dies(machine: QueueMachine) -> None:
    machine.begin(30.0)
    machine.do("ann", "claim")
    del machine.members["ann"]


PROMOTE = f"status = 1, {ORD_WHEN_READY} WHERE"
TWINS = {
    "take_what_is_not_ready": Twin(
        rewritten("SET status = 2", " AND status + 0 = 1"), "one live token", stale_choice
    ),
    "settle_without_token": Twin(
        replaced(f"{STORE}.settle.fence", fenced_by_id), "claimed again", late_outcome
    ),
    "settle_by_tokens_of_the_batch": Twin(
        replaced(f"{STORE}.settle.fence", fenced_by_batch), "another", claimed_again_by_itself
    ),
    "settle_hides_what_is_lost": Twin(
        replaced(f"{STORE}.settle.settle", settle_and_forget), "dropped", late_outcome
    ),
    "promote_what_is_final": Twin(
        rewritten(PROMOTE, "status + 0 = 0 AND"), "final is final", promoted_meanwhile("live")
    ),
    "promote_too_early": Twin(
        rewritten(PROMOTE, "COALESCE(run_after, run_after) <= %s", "%s IS NOT NULL"),
        "promotes",
        promoted_meanwhile("fail_all"),
    ),
    "prune_failed_ones_early": Twin(
        replaced(f"{STORE}.upkeep.prune", prune_failed_early), "not by retention", failed_long_ago
    ),
    "prune_by_age": Twin(
        rewritten("status IN (3, 5)", "AND finished_at", "AND enqueued_at"),
        "not by retention",
        enqueued_long_ago,
    ),
    "start_whatever_waits": Twin(
        replaced(f"{WORKER}.execute.Executor.may_start", lambda self, lease: True),
        "fenced",
        waited_too_long,
    ),
    "renew_and_trust_what_is_lost": Twin(
        replaced(f"{WORKER}.leases.LeaseKeeper.renew_once", renew_and_trust_all),
        "fenced",
        lost_while_waiting,
    ),
    "come_back_as_if_nothing_was": Twin(
        replaced(f"{WORKER}.cluster.Cluster.beat", beat_after_silence), "fenced", silent_and_back
    ),
    "trust_the_lease_alone": Twin(
        replaced(f"{WORKER}.cluster.Cluster.holds_leases", lambda self: True), "fenced", silent
    ),
    "reclaim_before_expiry": Twin(
        replaced(f"{STORE}.upkeep._run_out", lambda dead: "lease_expires_at <> %s"),
        "one live token",
    ),
    "settle_and_keep_the_lease": Twin(
        rewritten("= -lease_token", "= -lease_token", "= lease_token"), "keeps the lease"
    ),
    "claim_without_counting": Twin(rewritten("attempts + 1", " + 1"), "attempts only grow"),
    "reclaim_and_forget_attempts": Twin(
        rewritten("lost_leases + 1", "ELSE lost_leases END", "ELSE lost_leases END, attempts = 0"),
        "attempts only grow",
    ),
    "never_reclaim": Twin(replaced(f"{STORE}.upkeep.expired", lambda *args: []), "unseen", dies),
    "never_promote": Twin(replaced(f"{STORE}.upkeep.promote", lambda *args: 0), "unseen"),
    "dead_members_keep_their_range": Twin(
        replaced("skipper_django.core.membership.is_live", lambda row, now, window: True), "unseen"
    ),
    "always_trust_oneself": Twin(
        replaced(f"{WORKER}.cluster.Cluster.is_trusted", lambda self: True), "fenced"
    ),
}
