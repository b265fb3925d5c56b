"""The Cluster page: the list of members in the admin, to look at."""

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import Error
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from . import conf, words
from .cluster_bar import Bar, bars, colours
from .core.config import Config
from .core.reasons import ClusterReason
from .models import Member
from .overview import GoneMember, LiveMember, Overview, look
from .results import as_project_time
from .store.clock import clock_of

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin[Member]
else:
    _ModelAdmin = admin.ModelAdmin

logger = logging.getLogger("skipper_django.admin")

MEMBERS_A_PAGE = 100
MAX_BARS = 8
MAX_QUEUES_NAMED = 20
TEMPLATES = "admin/skipper_django/member"


class MemberAdmin(_ModelAdmin):
    """Its change list is the Cluster page; members are written by workers only."""

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        name = f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("", view(self.changelist_view), name=f"{name}_changelist"),
            path("fragment/", view(self.fragment_view), name=f"{name}_fragment"),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": _("Cluster"),
            "opts": self.opts,
            **(extra_context or {}),
        }
        return self._page(request, "change_list", context)

    def fragment_view(self, request: HttpRequest) -> HttpResponse:
        """The parts of the page that change, for the script that refreshes it."""
        return self._page(request, "fragment", {})

    def _page(self, request: HttpRequest, name: str, context: Mapping[str, Any]) -> HttpResponse:
        @require_safe
        def answer(request: HttpRequest) -> HttpResponse:
            if not self.has_view_permission(request):
                raise PermissionDenied
            backend = request.GET.get("backend") or None
            try:
                config = conf.of_backend(backend)
            except conf.UnknownBackend as error:
                raise Http404(str(error)) from error
            found = _context(config, request.GET.get("page"))
            shown = {**context, **_choice(backend, config), **found}
            return TemplateResponse(request, f"{TEMPLATES}/{name}.html", shown)

        return answer(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Member | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Member | None = None) -> bool:
        return False


def _choice(chosen: str | None, config: Config) -> dict[str, Any]:
    """The project's clusters, where there are several, and which of them is shown."""
    clusters = conf.clusters()
    shows_database = len({other.database for other in clusters.values()}) > 1
    choices = [
        {
            "backend": backend,
            "text": f"{other.tenant} ({other.database})" if shows_database else other.tenant,
            "is_shown": (other.tenant, other.database) == (config.tenant, config.database),
        }
        for backend, other in clusters.items()
    ]
    return {"backend": chosen or "", "clusters": choices if len(choices) > 1 else []}


def _context(config: Config, page: str | None) -> dict[str, Any]:
    refresh = {"refresh_seconds": f"{max(1.0, min(5.0, config.cluster_heartbeat_interval)):g}"}
    try:
        overview = look(config, clock_of(config.database))
    except Error:
        logger.exception("the cluster cannot be read from database %r", config.database)
        return {"failed": True, **refresh}
    members = Paginator(overview.members, MEMBERS_A_PAGE).get_page(page)
    swatches = colours(overview)
    return {
        "overview": overview,
        "updated": date_format(_local(overview.taken_at), "H:i:s"),
        "badge": _badge(overview),
        "banner": _banner(overview),
        "bars": _labelled(bars(overview)[:MAX_BARS]),
        "hidden_bars": max(0, len(overview.divisions) - MAX_BARS),
        "page": members,
        "rows": [
            _row(member, swatches.get(member.member_id, ""), config.cluster_heartbeat_interval)
            for member in members
        ],
        "gone": [_gone(member) for member in overview.gone],
        "gone_hidden": overview.gone_count - len(overview.gone),
        **refresh,
    }


def _badge(overview: Overview) -> dict[str, str]:
    reason = words.of_cluster_reason(overview.reason) if overview.reason else ""
    if not overview.partitioning_active:
        return {"kind": "off", "text": _("Not active"), "why": reason}
    if overview.reason:
        return {"kind": "partly", "text": _("Partly active"), "why": reason}
    why = _("Each member fetches from its own range.")
    return {"kind": "on", "text": _("Active"), "why": why}


def _banner(overview: Overview) -> dict[str, Any] | None:
    """What somebody has to do something about."""
    queues = overview.unserved_queues
    shown = {"queues": queues[:MAX_QUEUES_NAMED], "more": max(0, len(queues) - MAX_QUEUES_NAMED)}
    if overview.reason == ClusterReason.NO_LIVE_MEMBER:
        if not queues:
            text = _("No worker is live. Start one with: manage.py skipper_worker")
            return {"kind": "warning", "text": text, **shown}
        return {"kind": "error", "text": _("No worker is live, and tasks are waiting:"), **shown}
    if queues:
        text = ngettext(
            "No live worker serves this queue, which has tasks to run:",
            "No live worker serves these queues, which have tasks to run:",
            len(queues),
        )
        return {"kind": "error", "text": text, **shown}
    return None


def _labelled(found: list[Bar]) -> list[tuple[Bar, str]]:
    """Each bar with the queues it stands for, where there are several."""
    if len(found) == 1:
        return [(found[0], "")]
    return [(bar, ", ".join(bar.queues[:MAX_QUEUES_NAMED])) for bar in found]


def _row(member: LiveMember, swatch: str, interval: float) -> dict[str, Any]:
    report = member.report
    queues = sorted(report.row.queues)
    return {
        "member": member,
        "report": report,
        "swatch": swatch,
        "started": date_format(_local(report.started_at), "SHORT_DATETIME_FORMAT"),
        "age": age_text(member.heartbeat_age),
        "is_late": member.heartbeat_age > 2 * interval,
        "state": words.STATES[report.row.state],
        "state_name": report.row.state.name.lower(),
        "queues": queues[:MAX_QUEUES_NAMED],
        "more_queues": max(0, len(queues) - MAX_QUEUES_NAMED),
        "fetch_mode": words.of_fetch_mode(report.fetch_mode, member.is_active),
        "why": words.of_fetch_reason(report.reason) if report.reason and member.is_active else "",
    }


def _gone(member: GoneMember) -> dict[str, Any]:
    return {
        "report": member.report,
        "why": words.ENDS[member.report.row.state],
        "age": age_text(member.heartbeat_age),
    }


def age_text(seconds: float) -> str:
    if seconds < 120:
        return _("{count} s").format(count=round(seconds))
    if seconds < 7200:
        return _("{count} min").format(count=round(seconds / 60))
    return _("{count} h").format(count=round(seconds / 3600))


def _local(moment: datetime) -> datetime:
    if conf.uses_time_zones():
        return timezone.localtime(moment)
    return as_project_time(moment) or moment
