"""GET /skipper/admin/cluster?backend=NAME: the cluster as JSON, for staff."""

import logging

from django.db import Error
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from . import conf
from .overview import as_json, look
from .store.clock import clock_of

logger = logging.getLogger("skipper_django.views")

PERMISSION = "skipper_django.view_member"


@never_cache
@require_safe
def cluster(request: HttpRequest) -> HttpResponse:
    if not may_see(request):
        return _refusal(403, _("Only staff with the permission to view cluster members may."))
    try:
        config = conf.of_backend(request.GET.get("backend") or None)
    except conf.UnknownBackend as error:
        return _refusal(404, str(error))
    try:
        overview = look(config, clock_of(config.database))
    except Error:
        logger.exception("the cluster cannot be read from database %r", config.database)
        return _refusal(503, _("The database of the queue cannot be read."))
    return _nosniff(JsonResponse(as_json(overview)))


def may_see(request: HttpRequest) -> bool:
    user = getattr(request, "user", None)
    return user is not None and user.is_active and user.is_staff and user.has_perm(PERMISSION)


def _refusal(status: int, message: str) -> HttpResponse:
    return _nosniff(JsonResponse({"message": message}, status=status))


def _nosniff(response: HttpResponse) -> HttpResponse:
    response["X-Content-Type-Options"] = "nosniff"
    return response
