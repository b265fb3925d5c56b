"""Pictures of the Cluster page: `python -m tests.browser.screenshots [DIRECTORY]`.

Without a directory, only the picture of the documentation is made anew.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "cluster.png"
PAGE = "/admin/skipper_django/member/"
WIDE, PHONE = (1280, 850), (400, 800)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.environ["SKIPPER_TEST_SQLITE_DIRECTORY"] = directory
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        _take(Path(sys.argv[1]) if len(sys.argv) > 1 else None)


def _take(directory: Path | None) -> None:
    from django.contrib.auth.models import User
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.test.testcases import LiveServerThread

    from tests.browser.chromium import chromium

    User.objects.create_superuser("demo", password="demo")
    server = LiveServerThread("127.0.0.1", StaticFilesHandler)
    server.daemon = True
    server.start()
    server.is_ready.wait()
    try:
        with chromium() as browser:
            _all_of(browser, f"http://127.0.0.1:{server.port}", directory)
    finally:
        server.terminate()
        server.join()


def _all_of(browser: Browser, base: str, directory: Path | None) -> None:
    from tests.browser import scenes

    PICTURE.parent.mkdir(exist_ok=True)
    _shoot(browser, base, PICTURE, scenes.three)
    if directory is None:
        return
    directory.mkdir(parents=True, exist_ok=True)
    for name, scene in (
        ("three", scenes.three),
        ("troubled", scenes.troubled),
        ("nobody", scenes.nobody),
        ("none", scenes.clear),
        ("one", partial(scenes.many, 1)),
        ("64", partial(scenes.many, 64)),
        ("1000", partial(scenes.many, 1000)),
    ):
        _shoot(browser, base, directory / f"{name}-light.png", scene)
        _shoot(browser, base, directory / f"{name}-dark.png", scene, dark=True)
    _shoot(browser, base, directory / "three-phone.png", scenes.three, size=PHONE)


def _shoot(
    browser: Browser,
    base: str,
    path: Path,
    scene: Callable[[], None],
    dark: bool = False,
    size: tuple[int, int] = WIDE,
) -> None:
    from tests.browser import scenes
    from tests.browser.chromium import log_in

    scenes.clear()
    scene()
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    log_in(page, base, "demo", "demo")
    page.goto(base + PAGE)
    page.evaluate("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
    page.goto(base + PAGE)
    page.screenshot(path=path, full_page=size == PHONE)
    context.close()


if __name__ == "__main__":
    main()
