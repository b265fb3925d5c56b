"""Members whose process has certainly gone from this host are dead before their window ends."""

import logging
from dataclasses import replace

from ..core.membership import MemberRow, MemberState
from ..store import members
from ..store.database import Database
from .process import is_certainly_dead

logger = logging.getLogger("skipper_django.cluster")


class Neighbours:
    """What a member knows of the processes of its own host."""

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
