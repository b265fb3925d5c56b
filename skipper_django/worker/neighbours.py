"""Which other members are dead: for certain, where their process has gone from this host."""

import logging
from dataclasses import replace
from datetime import datetime

from ..core.membership import MemberRow, MemberState, View
from ..store import members
from ..store.database import Database
from .process import is_certainly_dead

logger = logging.getLogger("skipper_django.cluster")


class Neighbours:
    """What a member knows of the others."""

    def __init__(self, database: Database, tenant: str, member_id: str) -> None:
        self._database = database
        self._tenant = tenant
        self._extra = {"member_id": member_id}

    def checked(self, row: MemberRow, own_incarnation: int) -> MemberRow:
        """The row, marked dead if its process has certainly gone from this host."""
        if (
            row.state is MemberState.DEAD
            or row.incarnation == own_incarnation
            or not is_certainly_dead(row.host_key, row.pid, row.process_started)
        ):
            return row
        if members.mark_dead(self._database, self._tenant, row.member_id, row.incarnation):
            # Else it has left in good order since its row was read, or is known to be dead.
            told = "member %s is dead: its process is gone"
            logger.warning(told, row.member_id, extra=self._extra)
        return replace(row, state=MemberState.DEAD)

    def dead(self, view: View, lately: datetime, now: datetime, window: float) -> list[MemberRow]:
        """The dead of the view that beat lately, asked anew: one may only have been stopped."""
        if not any(row.heartbeat_at > lately for row in view.dead):
            return []
        view = View.of(members.all_of(self._database, self._tenant), now, window)
        return [row for row in view.dead if row.heartbeat_at > lately]
