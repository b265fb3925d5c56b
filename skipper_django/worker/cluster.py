"""Membership: join before anything is fetched, beat, know the own share, leave.

The rows are the only thing that members share. Each reads them once an interval and computes the
same ranges from the same list; a view that is out of date costs a lost race, never a task.
"""

import logging
import random
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from math import inf
from typing import Any

from ..core.buckets import ALL_BUCKETS, BucketRange, Share
from ..core.clock import Clock, monotonic
from ..core.config import Config
from ..core.errors import MemberNameTaken
from ..core.membership import EMPTY_VIEW, MemberState, View
from ..core.reasons import FetchMode, FetchReason
from ..core.tokens import new_incarnation
from ..store import members
from ..store.database import Database
from .fetch import Counters, Division, Fetch
from .neighbours import Neighbours
from .outage import Outage
from .registration import Applicant, Registration

logger = logging.getLogger("skipper_django.cluster")

PRUNE_EVERY_SECONDS = 60.0


class Cluster:
    """This member's place in the cluster of its tenant."""

    failure: MemberNameTaken | None = None

    def __init__(
        self,
        database: Database,
        config: Config,
        clock: Clock,
        applicant: Applicant,
        gate: Callable[[], bool],
    ) -> None:
        self.tenant = config.tenant
        self.member_id = applicant.name
        self.incarnation = new_incarnation()
        self.counters = Counters()
        self.view = EMPTY_VIEW
        self.leases_in_doubt = threading.Event()
        self.taken_over: int | None = None
        self.running: Callable[[], int] = lambda: 0
        self.on_change: Callable[[], None] = lambda: None  # other members: other ranges
        self._database = database
        self._config = config
        self._clock = clock
        self._applicant = applicant
        self._gate = gate
        self._registers = config.cluster_membership_manager == "database"
        self._state = MemberState.ACTIVE
        self._fetch = Fetch((), None if self._registers else FetchReason.NOT_REGISTERED)
        self._has_fetched = False
        self._division = Division()
        self.beaten_for: Callable[[], float] = lambda: -inf  # by a stand-in, on our behalf
        self._beaten_at, self._steady_since, self._pruned_at = -inf, -inf, monotonic()
        self._neighbours = Neighbours(database, config.tenant, applicant.name)
        # Others wait a window for it after an outage: it must not sleep through that.
        self._outage = Outage(
            database, applicant.name, "send heartbeats", config.cluster_heartbeat_interval
        )
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="skipper-heartbeat", daemon=True)

    def join(self) -> None:
        """Register by a first heartbeat; raises MemberNameTaken for a chosen name in use."""
        if not self._registers:
            self._database.telemetry.started(self.member_id, self._applicant.concurrency)
            return
        started = monotonic()
        self._register()
        self._database.telemetry.beaten(monotonic() - started)
        self._look(started)
        self._thread.start()

    def drain(self) -> None:
        """Give up the range at once; the leases still hold."""
        self._state = MemberState.DRAINING
        if self._registers:
            with self._outage.survived():
                self.beat()

    def leave(self) -> None:
        self._stop.set()
        self._wake.set()
        if not self._registers:
            return
        self._thread.join(timeout=5)
        with self._outage.survived():
            members.leave(self._database, self._config.tenant, self.member_id, self.incarnation)

    def is_trusted(self) -> bool:
        """Has it beaten within its own liveness window? Else others may count it as dead."""
        if not self._registers:
            return True
        beaten_at = max(self._beaten_at, self.beaten_for())
        return monotonic() - beaten_at < self._config.cluster_liveness_window

    def holds_leases(self) -> bool:
        """Is it certain that nobody has counted this member as dead and taken its leases?"""
        return self.is_trusted() and not self.leases_in_doubt.is_set()

    def fetch(self, queues: Mapping[int, str]) -> Fetch:
        """What may be fetched now of these queues (lane to name); asked before every fetch."""
        fetch = self._decide(queues)
        if (fetch.mode, fetch.reason) != (self._fetch.mode, self._fetch.reason):
            why = f" ({fetch.reason})" if fetch.reason else ""
            logger.info(
                "member %s fetches %s%s", self.member_id, fetch.mode, why, extra=self._extra()
            )
            self._wake.set()
        if not self._has_fetched:
            self._has_fetched = True
            self._wake.set()  # the row tells at once what this member fetches from
        self._fetch = fetch
        if fetch.mode is FetchMode.PARTITIONED:
            self.counters.partitioned_fetches += 1
        else:
            self.counters.whole_queue_fetches += 1
        self._database.telemetry.fetched(fetch.mode, fetch.reason, fetch.main_range)
        return fetch

    def fetches(self, lane: int, bucket: int) -> bool:
        """Is it in what was fetched from last?"""
        return any(lane in share.lanes and bucket in share.buckets for share in self._fetch.shares)

    def _decide(self, queues: Mapping[int, str]) -> Fetch:
        whole = (Share(tuple(queues), ALL_BUCKETS),)
        if not self._registers:
            return Fetch(whole, FetchReason.NOT_REGISTERED)
        try:
            if not self._gate():
                return Fetch(whole, FetchReason.GATE_OFF)
        except Exception:
            logger.warning("TASK_PARTITIONING raised", exc_info=True, extra=self._extra())
            return Fetch(whole, FetchReason.GATE_ERROR)
        try:
            return self._divide(queues)
        except Exception:
            logger.warning("the range cannot be computed", exc_info=True, extra=self._extra())
            return Fetch(whole, FetchReason.RANGE_ERROR)

    def _divide(self, queues: Mapping[int, str]) -> Fetch:
        return self._division.of(self.view, self.member_id, queues)

    def shares(self, queues: Mapping[int, str]) -> tuple[Share, ...]:
        """This member's part of the upkeep: its ranges, or everything where it has none."""
        if self._registers:
            try:
                return self._divide(queues).shares
            except Exception:
                logger.debug("the range cannot be computed", exc_info=True)
        return (Share(tuple(queues), ALL_BUCKETS),)

    def dead_incarnations(self) -> tuple[int, ...]:
        """Members known to be dead, as long as a lease of theirs may still run.

        After an outage every heartbeat is old: whoever is back first must not take the others for
        dead before they have had a window's time to beat.
        """
        now, window = self._clock.now(), self._config.cluster_liveness_window
        steady = monotonic() - self._steady_since > window
        lately = now - timedelta(seconds=window + self._config.lease_duration)
        rows = self._neighbours.dead(self.view, lately, now, window)
        dead = [row.incarnation for row in rows if steady or row.state is MemberState.DEAD]
        return tuple(dead if self.taken_over is None else [*dead, self.taken_over])

    def beat(self) -> None:
        """One heartbeat and one look at the others."""
        started, alive = self._tell()
        if monotonic() - started > self._config.cluster_heartbeat_interval:
            started, alive = self._tell()  # a task kept the interpreter: that was an old moment
        if alive and not self.is_trusted():
            # Silent for its whole window: whoever saw it dead may take leases of this incarnation
            # back, even later, so that it must not claim under it again.
            members.leave(self._database, self.tenant, self.member_id, self.incarnation)
            alive = False
        if not alive:
            self._rejoin()
        self._look(started)

    def _tell(self) -> tuple[float, bool]:
        started, report = monotonic(), self._report()
        alive = members.beat(
            self._database, self.tenant, self.member_id, self.incarnation, report, self._clock.now()
        )
        self._database.telemetry.beaten(monotonic() - started)
        return started, alive

    def _look(self, started: float) -> None:
        now = self._clock.now()
        before = monotonic()
        rows = members.all_of(self._database, self._config.tenant)
        seconds = monotonic() - before
        checked = [self._neighbours.checked(row, self.incarnation) for row in rows]
        divided_among = self.view.divided_among
        self.view = View.of(checked, now, self._config.cluster_liveness_window)
        if started - self._beaten_at > 2 * self._config.cluster_heartbeat_interval:
            self._steady_since = started
        self._beaten_at = started
        if self.view.divided_among != divided_among:
            self.on_change()
        has_range = self.incarnation in {incarnation for incarnation, _ in self.view.divided_among}
        self._database.telemetry.viewed(len(self.view.live), has_range, seconds)
        first = self.view.live[0].member_id if self.view.live else ""
        if first == self.member_id and started - self._pruned_at > PRUNE_EVERY_SECONDS:
            self._pruned_at = started
            members.prune(self._database, self._config.tenant, now)

    def _report(self) -> dict[str, Any]:
        fetch, counters = self._fetch, self.counters
        buckets = fetch.main_range if self._state is MemberState.ACTIVE else BucketRange(0, 0)
        return {
            "state": self._state.value,
            "fetch_mode": fetch.mode.value,
            "reason": (fetch.reason or ""),
            "range_start": buckets.start,
            "range_stop": buckets.stop,
            "running": self.running(),
            "claimed": counters.claimed,
            "stolen": counters.stolen,
            "lost_races": counters.lost_races,
            "partitioned_fetches": counters.partitioned_fetches,
            "whole_queue_fetches": counters.whole_queue_fetches,
        }

    def _run(self) -> None:
        while not self._stop.is_set():
            # Never late, and not all at once where many were started together.
            early = random.uniform(0.9, 1.0)  # noqa: S311
            self._wake.wait(self._config.cluster_heartbeat_interval * early)
            self._wake.clear()
            if self._stop.is_set():
                break
            try:
                with self._outage.survived():
                    self.beat()
            except MemberNameTaken as error:
                self.failure = error
                break
            except Exception:
                # Without heartbeats this member would be dead, and nobody would know why.
                logger.exception("the heartbeat failed and is tried again", extra=self._extra())
            if self._outage.is_on:
                self._outage.pause(self._stop)
                self._wake.set()
        self._database.close()

    def _register(self, former: str = "") -> None:
        registration = Registration(
            self._database, self._config, self._clock, self._applicant, self.incarnation
        )
        self.member_id = registration.register(former)
        if registration.taken_over is not None:
            self.taken_over = registration.taken_over
        self._database.telemetry.started(self.member_id, self._applicant.concurrency)

    def _rejoin(self) -> None:
        logger.warning(
            "member %s was silent for its whole window, or its row is gone or taken over: "
            "its unstarted tasks are handed back",
            self.member_id,
            extra=self._extra(),
        )
        self.incarnation = new_incarnation()
        self.leases_in_doubt.set()
        self._register(self.member_id)
        self._wake.set()  # the new row tells at once what it has done, and whether it drains
        logger.warning("member %s has joined again", self.member_id, extra=self._extra())

    def _extra(self) -> dict[str, object]:
        return {"member_id": self.member_id}
