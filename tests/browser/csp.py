"""A middleware that sends the strictest policy a page of the admin can be asked to live with."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

POLICY = (
    "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)


def strict_csp(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    def respond(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.path.startswith("/admin/skipper_django/"):
            response["Content-Security-Policy"] = POLICY
        return response

    return respond
