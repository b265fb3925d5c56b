"""One worker behind a bad link, another straight at the server."""

from __future__ import annotations

import pytest

from chaos.bed import Bed, now
from chaos.databases import SERVERS
from chaos.link import Link
from tests.waiting import wait_until

pytestmark = pytest.mark.only(*SERVERS)

REQUESTS = {"claim": b"SET status = 2", "outcome": b"lease_token = -lease_token"}


@pytest.mark.long
@pytest.mark.fault("every packet of one worker delayed by up to 50 ms", "slower, and nothing else")
def test_delay(bed: Bed, link: Link) -> None:
    link.delay = 0.05
    bed.pair(entry=bed.database.django(link.port))
    start = now()

    with bed.load():
        bed.pause(4.0)

    bed.wait_until_done()
    bed.audit(bed.effects.longest_pause(start, now()))


@pytest.mark.fault("all connections of one worker cut every 0.3 s", "it reconnects; nothing twice")
def test_cuts(bed: Bed, link: Link) -> None:
    victim, _ = bed.pair(entry=bed.database.django(link.port), skipper={"LEASE_DURATION": 20})
    start = now()

    with bed.load():
        for _ in range(6 if bed.short else 50):
            bed.pause(0.3)
            link.cut()
    end = now()

    bed.wait_until_done()
    assert victim.is_running
    bed.audit(bed.effects.longest_pause(start, end))


@pytest.mark.fault(
    "link of one worker silent beyond lease and window, then alive",
    "the other runs its tasks; late results refused; it comes back",
)
def test_silence(bed: Bed, link: Link) -> None:
    victim, _ = bed.pair(entry=bed.database.django(link.port), host="far away")
    bed.enqueue(16, 1.0)
    bed.wait_for_begun(8)

    link.silence()
    silent = now()
    held = bed.held_by("victim")
    bed.wait_until_done()
    recovery = bed.effects.recovery(silent, held)
    bed.pause(max(0.0, silent + bed.limit + 1 - now()))
    link.speak()
    bed.enqueue(40)

    bed.wait_for_members(2)
    bed.wait_until_done()
    assert victim.is_running
    bed.audit(recovery, may_double=len(held))


@pytest.mark.only("mariadb", "mysql")
@pytest.mark.fault(
    "connections of one worker silent for ever, with a read_timeout of 4 s",
    "it reconnects, before its leases end",
)
def test_forgotten_connections(bed: Bed, link: Link) -> None:
    entry = bed.database.django(link.port, read_timeout=4)
    victim, _ = bed.pair(entry=entry, host="far away")
    bed.enqueue(16, 1.0)
    bed.wait_for_begun(8)

    link.forget()
    silent = now()
    held = bed.held_by("victim")
    victim.wait_for_log("database is back: can claim and settle tasks")
    recovery = now() - silent
    bed.enqueue(40)

    bed.wait_until_done()
    # They may have ended all the same where the machine is slow.
    bed.audit(recovery, may_double=len(held))


@pytest.mark.parametrize("what", REQUESTS)
@pytest.mark.fault("{what} committed, its reply lost in a cut", "found out after the reconnect")
def test_lost_reply(bed: Bed, link: Link, what: str) -> None:
    bed.pair(entry=bed.database.django(link.port), skipper={"LEASE_DURATION": 20})
    link.lose_reply_to(REQUESTS[what])

    bed.enqueue(40)
    wait_until(lambda: link.has_lost_reply)
    lost = now()

    bed.wait_until_done()
    bed.audit(now() - lost)
