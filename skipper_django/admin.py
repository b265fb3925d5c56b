"""Tasks in the admin, to look at; nothing can be changed here."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from . import conf
from .cluster_admin import MemberAdmin
from .models import Member, Task
from .results import as_project_time
from .task_data import TaskData
from .task_list import BoundedPaginator, NewestFirst, QueueFilter, StatusFilter

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Task]
else:
    _ModelAdmin = admin.ModelAdmin

admin.site.register(Member, MemberAdmin)

BIG_COLUMNS = ("args", "kwargs", "result", "errors", "worker_ids")


@admin.register(Task)
class TaskAdmin(_ModelAdmin):
    class Media:
        css = {"all": ("skipper_django/tasks.css",)}

    list_display = (
        "task_id",
        "status",
        "name",
        "queue_name",
        "priority",
        "attempts",
        "due",
        "ended",
    )
    list_filter = (StatusFilter, QueueFilter)
    sortable_by = ()
    search_fields = ("task_id__exact",)
    search_help_text = _("A whole task id")
    ordering = ("-id",)
    show_full_result_count = False
    list_per_page = 50

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[NewestFirst]:
        return NewestFirst

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        response: HttpResponse = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None) or {}
        if "cl" in context and context["cl"].paginator.is_cut_off:
            text = _("{count} of many; a filter or an id leads to the others")
            context["subtitle"] = text.format(count=context["cl"].result_count)
        return response

    def get_paginator(
        self, request: HttpRequest, queryset: Any, per_page: int, *args: Any, **kwargs: Any
    ) -> BoundedPaginator:
        of_status = StatusFilter.parameter_name in request.GET
        return BoundedPaginator(queryset, per_page, of_status)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        # Django allows any of the model's own columns: who may not see the arguments could still
        # find them out, letter by letter, from which rows ?args__startswith=... leaves.
        return lookup in (StatusFilter.parameter_name, QueueFilter.parameter_name)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Task]:
        rows = Task.objects.using(conf.load().database)
        if str(getattr(request.resolver_match, "url_name", "")).endswith("_changelist"):
            return rows.defer(*BIG_COLUMNS)
        return rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Task], search_term: str
    ) -> tuple[QuerySet[Task], bool]:
        # An id may hold spaces, at which Django would cut it into words.
        return (queryset.filter(task_id=search_term) if search_term else queryset), False

    def get_fieldsets(self, request: HttpRequest, obj: Task | None = None) -> Any:
        sees = may_see_data(request)
        return (
            (None, {"fields": ("task_id", "name", "status", "reason", "queue_name", "tenant")}),
            (_("Call"), {"fields": ("arguments" if sees else "unseen", "priority")}),
            (_("Times"), {"fields": ("enqueued", "due", "first_started", "last_started", "ended")}),
            (_("Attempts"), {"fields": ("attempts", "lost_leases", "workers", "lease_until")}),
            (_("Outcome"), {"fields": ("returned", "failures") if sees else ("unseen_outcome",)}),
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Task | None = None) -> Any:
        return [name for __, options in self.get_fieldsets(request) for name in options["fields"]]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Task | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Task | None = None) -> bool:
        return False

    @admin.display(description=_("arguments"))
    def unseen(self, task: Task) -> Any:
        return _("Only for users with the permission to view the data of tasks.")

    @admin.display(description=_("result and errors"))
    def unseen_outcome(self, task: Task) -> Any:
        return self.unseen(task)

    @admin.display(description=_("arguments"))
    def arguments(self, task: Task) -> SafeString:
        args, kwargs = TaskData(task).arguments()
        return _pre(f"args = {args}\nkwargs = {kwargs}")

    @admin.display(description=_("enqueued at"))
    def enqueued(self, task: Task) -> SafeString | str:
        return _moment(task.enqueued_at)

    @admin.display(description=_("run after"), ordering="run_after")
    def due(self, task: Task) -> SafeString | str:
        return _moment(task.run_after)

    @admin.display(description=_("started at"))
    def first_started(self, task: Task) -> SafeString | str:
        return _moment(task.started_at)

    @admin.display(description=_("last attempted at"))
    def last_started(self, task: Task) -> SafeString | str:
        return _moment(task.last_attempted_at)

    @admin.display(description=_("finished at"), ordering="finished_at")
    def ended(self, task: Task) -> SafeString | str:
        return _moment(task.finished_at)

    @admin.display(description=_("lease expires at"))
    def lease_until(self, task: Task) -> SafeString | str:
        return _moment(task.lease_expires_at)

    @admin.display(description=_("workers, one an attempt"))
    def workers(self, task: Task) -> SafeString | str:
        return _pre(task.worker_ids.rstrip("\n")) if task.worker_ids else "-"

    @admin.display(description=_("result"))
    def returned(self, task: Task) -> SafeString | str:
        return _pre(TaskData(task).result()) if task.result is not None else "-"

    @admin.display(description=_("errors"))
    def failures(self, task: Task) -> SafeString | str:
        texts = TaskData(task).errors()
        return _pre("\n".join(texts)) if texts else "-"


def _moment(moment: datetime | None) -> SafeString | str:
    """To the millisecond and in the zone of the page: Django's own format stops at the minute."""
    if moment is None:
        return "-"
    local = timezone.localtime(moment) if conf.uses_time_zones() else as_project_time(moment)
    text = f"{local:%Y-%m-%d %H:%M:%S.%f}"[:-3]
    return format_html('<span class="skipper-moment">{}</span>', text)


def may_see_data(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)
    return user is not None and bool(user.has_perm("skipper_django.view_task_data"))


def _pre(text: str) -> SafeString:
    return format_html('<pre class="skipper-text">{}</pre>', text)
