"""Find a name and put a row under it: the first, synchronous heartbeat."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from ..core.clock import Clock
from ..core.config import Config
from ..core.errors import MemberNameTaken
from ..core.membership import is_live
from ..store import members
from ..store.database import Database
from ..store.members import NewMember
from .process import is_certainly_dead, this_process

MAX_SUFFIX = 10_000


@dataclass(frozen=True, slots=True)
class Applicant:
    """Who wants to join. `named`: the name was chosen, so that no other will do."""

    name: str
    named: bool
    queues: tuple[str, ...]
    concurrency: int


class Registration:
    """One process's attempt to become a member. `taken_over`: the dead incarnation it replaced."""

    def __init__(
        self,
        database: Database,
        config: Config,
        clock: Clock,
        applicant: Applicant,
        incarnation: int,
    ) -> None:
        self.taken_over: int | None = None
        self._database = database
        self._config = config
        self._clock = clock
        self._applicant = applicant
        self._incarnation = incarnation

    def register(self, former: str = "") -> str:
        """The name under which the row now stands.

        A chosen name, or the first free one of `web`, `web-2`, `web-3` and so on. Raises
        MemberNameTaken, naming the holder, for a chosen name that a live member has.

        `former`: the name of a member that joins again. It comes first: after an outage all names
        look free, and who took another one's would take its running tasks for those of a dead.
        """
        if former and self._try(former):
            return former
        for suffix in range(1, MAX_SUFFIX):
            name = self._applicant.name if suffix == 1 else f"{self._applicant.name}-{suffix}"
            if self._try(name):
                return name
        raise MemberNameTaken(f"{MAX_SUFFIX} members are named after {self._applicant.name!r}")

    def _try(self, name: str) -> bool:
        now = self._clock.now()
        member = self._new_member(name)
        if members.add(self._database, member, now):
            return True
        row = members.find(self._database, self._config.tenant, name)
        if row is None:  # gone between the two statements
            return members.add(self._database, member, now)
        alive = is_live(row, now, self._config.cluster_liveness_window)
        dead = not alive or is_certainly_dead(row.host_key, row.pid, row.process_started)
        if dead and members.take_over(self._database, member, row.incarnation, now):
            self.taken_over = row.incarnation
            return True
        if self._applicant.named:
            holder = members.describe(self._database, self._config.tenant, name)
            raise MemberNameTaken(
                f"member name {name!r} is in use by {holder}; give each worker a name of its own "
                "(--member-name or SKIPPER['CLUSTER_MEMBER_NAME']), or stop the other one"
            )
        return False

    def _new_member(self, name: str) -> NewMember:
        process = this_process()
        return NewMember(
            tenant=self._config.tenant,
            member_id=name,
            incarnation=self._incarnation,
            host=process.host,
            host_key=process.host_key,
            pid=process.pid,
            process_started=process.started,
            queues=self._applicant.queues,
            concurrency=self._applicant.concurrency,
            version=_version(),
        )


def _version() -> str:
    try:
        return version("skipper-django")[:32]
    except PackageNotFoundError:
        return ""
