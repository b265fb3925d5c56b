"""The Cluster page in a real browser, under `default-src 'self'` with Trusted Types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session

from skipper_django.models import Member
from tests.browser import scenes
from tests.browser.conftest import PAGE, Visit
from tests.browser.csp import POLICY
from tests.factories import MemberFactory, add_members, add_task

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

Start = Callable[..., Visit]


@pytest.fixture(autouse=True)
def _no_complaints(visit: Start, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test does, the browser has nothing to say about it, unless the test clears it."""
    visits: list[Visit] = []
    plain_init = Visit.__init__

    def noted(self: Visit, *args: Any) -> None:
        plain_init(self, *args)
        visits.append(self)

    monkeypatch.setattr(Visit, "__init__", noted)
    yield
    assert [complaint for each in visits for complaint in each.complaints] == []


def test_the_policy_is_sent(visit: Start) -> None:
    started = visit()
    response = started.page.goto(started.base + PAGE)
    assert response is not None
    assert response.headers["content-security-policy"] == POLICY


def test_bar_and_table(visit: Start) -> None:
    scenes.three()
    page = visit(viewport={"width": 1280, "height": 850}).open()
    total = page.locator(".sk-bar").bounding_box()
    assert total is not None
    shares = []
    for segment in page.locator(".sk-bar > svg > rect").all():
        box = segment.bounding_box()
        assert box is not None
        shares.append(box["width"] / total["width"])
    assert shares == pytest.approx([0.334, 0.333, 0.333], abs=0.01)
    fills = {
        page.locator(".sk-bar > svg > rect").nth(index).evaluate("it => getComputedStyle(it).fill")
        for index in range(3)
    }
    assert len(fills) == 3
    rows = page.locator("[data-part=members] tbody tr")
    assert rows.count() == 3
    assert page.locator(".sk-exact").all_inner_texts() == ["[0, 334)", "[334, 667)", "[667, 1000)"]
    assert "Active" in page.locator(".sk-badge.sk-on").inner_text()
    assert "its process is gone" in page.locator("[data-part=gone]").inner_text()


def test_it_refreshes_itself_without_a_reload(visit: Start) -> None:
    add_members("default", "web-1")
    page = visit().open()
    page.evaluate("window.untouched = true")
    add_members("default", "web-2")
    page.wait_for_selector('.sk-exact:has-text("[500, 1000)")')
    assert page.evaluate("window.untouched") is True
    Member.objects.all().delete()
    add_task("default", "mail")
    page.wait_for_selector("text=No worker is live")
    assert page.evaluate("window.untouched") is True


def test_a_part_that_has_not_changed_is_left_alone(visit: Start) -> None:
    add_members("default", "web-1")
    page = visit().open()
    page.evaluate("window.before = document.querySelector('[data-part=bars] svg')")
    with page.expect_response("**/fragment/"):
        pass
    with page.expect_response("**/fragment/"):
        pass
    assert page.evaluate("window.before.isConnected")


def test_it_can_be_paused(visit: Start) -> None:
    add_members("default", "web-1")
    page = visit().open()
    page.click("[data-role=pause]")
    assert page.inner_text("[data-role=pause]") == "Resume"
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2500)
    assert asked == []
    add_members("default", "web-2")
    page.click("[data-role=pause]")
    page.wait_for_selector('.sk-exact:has-text("[500, 1000)")')


def test_a_hidden_page_asks_nothing(visit: Start) -> None:
    add_members("default", "web-1")
    page = visit().open()
    hide = "it => { Object.defineProperty(document, 'hidden', {value: it, configurable: true}); "
    hide += "document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide, True)
    page.wait_for_timeout(300)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(2500)
    assert asked == []
    with page.expect_response("**/fragment/"):
        page.evaluate(hide, False)


def test_selected_text_stays_selected(visit: Start) -> None:
    add_members("default", "web-1")
    page = visit().open()
    page.dblclick(".sk-member")
    selected = page.evaluate("String(getSelection())")
    assert selected
    add_members("default", "web-2")
    page.wait_for_timeout(2500)
    assert page.evaluate("String(getSelection())") == selected
    page.evaluate("getSelection().removeAllRanges()")
    page.wait_for_selector('.sk-exact:has-text("[500, 1000)")')


def test_a_session_that_ends_is_said(visit: Start) -> None:
    add_members("default", "web-1")
    page = visit().open()
    Session.objects.all().delete()
    page.wait_for_selector("text=You are signed out")
    assert page.locator(".sk-member").is_visible()


def test_an_error_is_said_and_forgotten(visit: Start) -> None:
    add_members("default", "web-1")
    started = visit()
    page = started.open()
    page.route("**/fragment/", lambda route: route.fulfill(status=500, body="no"))
    page.wait_for_selector("text=could not be refreshed")
    page.unroute("**/fragment/")
    page.wait_for_selector("[data-role=trouble]", state="hidden")
    started.complaints.clear()  # the browser itself notes the 500


def test_without_javascript(visit: Start) -> None:
    scenes.three()
    page = visit(java_script_enabled=False).open()
    assert page.locator("[data-part=members] tbody tr").count() == 3
    assert page.locator(".sk-bar > svg").count() == 3
    assert not page.locator("[data-role=pause]").is_visible()
    add_members("default", "web-9")
    page.click("[data-role=reload]")
    assert page.locator("[data-part=members] tbody tr").count() == 4


def test_hostile_names_do_not_run(visit: Start) -> None:
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    add_members("default", "web-1")
    page = visit().open()
    MemberFactory.create(member_id=evil, host=evil, queues=evil)
    MemberFactory.create(member_id=f"{evil}2", host=evil, age=100)
    add_task("default", f"queue {evil}")
    Member.objects.filter(member_id="web-1").delete()
    page.wait_for_selector("[data-part=banner] .sk-queue")
    assert page.locator(".sk-member").first.inner_text() == evil
    assert page.locator("#content img, #content script").count() == 0


@pytest.mark.parametrize("count", [0, 1, 64, 1000])
def test_no_size_is_too_wide(visit: Start, count: int) -> None:
    scenes.many(count)
    for width in (1280, 400):
        page = visit(viewport={"width": width, "height": 800}).open()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(".sk-bar > svg").count() == count
        page.context.close()


def test_dark_mode(visit: Start, tmp_path: Path) -> None:
    scenes.troubled()
    page = visit(color_scheme="dark").open()
    page.screenshot(path=tmp_path / "dark.png")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(18, 18, 18)"
    for selector in (".sk-table td", ".sk-cards dd", ".sk-process", ".sk-scale", ".sk-badge"):
        assert page.locator(selector).first.evaluate(CONTRAST) >= 4.5


def test_light_mode_has_contrast(visit: Start) -> None:
    scenes.troubled()
    page = visit(color_scheme="light").open()
    for selector in (".sk-table td", ".sk-cards dd", ".sk-process", ".sk-scale", ".sk-badge"):
        assert page.locator(selector).first.evaluate(CONTRAST) >= 4.5


# The contrast ratio of the text of an element and the first background behind it.
CONTRAST = """element => {
    const parse = text => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => {
        const [R, G, B] = [r, g, b].map(value => {
            const part = value / 255;
            return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * R + 0.7152 * G + 0.0722 * B;
    };
    let behind = element;
    while (parse(getComputedStyle(behind).backgroundColor)[3] === 0) {
        behind = behind.parentElement;
    }
    const text = light(parse(getComputedStyle(element).color));
    const back = light(parse(getComputedStyle(behind).backgroundColor));
    return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
}"""
