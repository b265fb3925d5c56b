"""The list of tasks in the admin: what keeps it quick over millions of rows."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from . import conf
from .core.states import TaskState
from .models import Task
from .store.database import Database
from .store.read import QueueInUse, queues_in_use

if TYPE_CHECKING:
    _Paginator = Paginator[Task]
else:
    _Paginator = Paginator

MAX_COUNTED = 30_000
# One seek each. Beyond it the filter of queues is incomplete.
MAX_QUEUES = 50


INDEX_ORDER = ("lane", "status", "slot", "ord", "run_after", "pk")


class BoundedPaginator(_Paginator):
    """Counts up to 30,000 rows, which are its pages; a filter leads to the others.

    The newest come first, but of a status that more tasks have those that the index has first: to
    find the newest of them would mean to read them all.
    """

    def __init__(self, rows: QuerySet[Any], per_page: int, of_status: bool = False) -> None:
        super().__init__(rows, per_page)
        if of_status and self.is_cut_off:
            self.object_list = rows.order_by(*INDEX_ORDER)

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by().values("pk")[:MAX_COUNTED].count())

    @property
    def is_cut_off(self) -> bool:
        return self.count >= MAX_COUNTED


class NewestFirst(ChangeList):
    """By primary key, always: any other order would sort the whole table."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return ["-pk"]


class StatusFilter(admin.SimpleListFilter):
    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        return [(str(value), label) for value, label in Task.State.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in {str(state.value) for state in TaskState}:
            return queryset
        queues = _queues(request)
        if len(queues) < MAX_QUEUES:
            # The hot index begins with the lane.
            queryset = queryset.filter(lane__in=[queue.lane for queue in queues])
        return queryset.filter(status=int(self.value() or 0))


class QueueFilter(admin.SimpleListFilter):
    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        tenant = conf.load().tenant
        return [
            (str(queue.lane), queue.name + (f" ({queue.tenant})" if queue.tenant != tenant else ""))
            for queue in _queues(request)
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        lanes = {str(queue.lane): queue.lane for queue in _queues(request)}
        lane = lanes.get(str(self.value()))
        return queryset if lane is None else queryset.filter(lane=lane)


def _queues(request: HttpRequest) -> list[QueueInUse]:
    """Asked once a request."""
    found: list[QueueInUse] | None = getattr(request, "_skipper_queues", None)
    if found is None:
        found = queues_in_use(Database(conf.load().database), MAX_QUEUES)
        request._skipper_queues = found  # type: ignore[attr-defined]
    return found
