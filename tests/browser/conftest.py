"""One Chromium for all tests; a page of somebody who may look at members and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import close_old_connections

from tests.browser.chromium import chromium, log_in, why_missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from pytest_django.live_server_helper import LiveServer


PAGE = "/admin/skipper_django/member/"


# Not for the whole session: playwright keeps an event loop running in this thread as long as it is
# open, and no other test could use async_to_sync.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    missing = why_missing()
    if missing:
        if os.environ.get("SKIPPER_REQUIRE_DATABASES") == "1" or os.environ.get("CI") == "true":
            pytest.fail(f"the browser tests are required: {missing}")
        pytest.skip(missing)
    with chromium() as running:
        yield running


class Visit:
    """An open page, and what went wrong on it."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.complaints: list[str] = []
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self._note("error", str(error)))
        page.on("dialog", lambda dialog: self._note("error", f"dialog {dialog.message}"))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def open(self, path: str = PAGE) -> Page:
        self.page.goto(self.base + path)
        return self.page


@pytest.fixture
def visit(
    browser: Browser, live_server: LiveServer, settings: Any
) -> Iterator[Callable[..., Visit]]:
    """Log in and visit."""
    settings.SKIPPER = {**settings.SKIPPER, "CLUSTER_HEARTBEAT_INTERVAL": 1}
    user = User.objects.create_user("viewer", password="viewer", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_member"))
    contexts = []

    def start(**options: Any) -> Visit:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        log_in(page, live_server.url, "viewer", "viewer")
        return Visit(page, live_server.url)

    yield start
    for context in contexts:
        context.close()
    close_old_connections()
