"""No script runs from what stands in rows, in a real browser, without any policy to help."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User

from skipper_django.models import Task
from tests.browser.conftest import PAGE, Visit
from tests.factories import add_members, add_task

pytestmark = [
    pytest.mark.browser,
    pytest.mark.case("R28"),
    pytest.mark.django_db(transaction=True),
]

LIST = "/admin/skipper_django/task/"
SCRIPTS = [
    "<script>window.attacked = 1</script>",
    '"><img src=x onerror="window.attacked = 1">',
    "</pre></textarea></title><svg onload='window.attacked = 1'>",
    "javascript:window.attacked=1",
    "' onmouseover='window.attacked = 1' autofocus onfocus='window.attacked = 1",
    "\u2028</script><script>window.attacked = 1</script>",
]
PLACES: dict[str, Callable[[str], dict[str, str]]] = {
    "name": lambda text: {"name": text},
    "task id": lambda text: {"task_id": text},
    "queue": lambda text: {"queue_name": text, "tenant": text},
    "arguments": lambda text: {"args": json.dumps([text]), "kwargs": json.dumps({text: text})},
    "arguments that are no JSON": lambda text: {"args": text, "kwargs": text},
    "result": lambda text: {"result": json.dumps({text: [text]})},
    "errors": lambda text: {
        "errors": json.dumps(
            [{"attempt": text, "traceback": text, "message": text, "exception_class_path": text}]
        )
    },
    "reason": lambda text: {"reason": text[:32]},
    "workers": lambda text: {"worker_ids": f"{text}\n"},
}
IS_CLEAN = """() => window.attacked === undefined && !document.querySelector(
    'img[src="x"], svg[onload], a[href^="javascript:window"], [onfocus]')"""


@pytest.fixture
def without_policy(visit: Callable[..., Visit]) -> Callable[[], Visit]:
    """Nothing but the escaping stands between a text and the page."""
    user = User.objects.get(username="viewer")
    names = ["view_task", "view_member", "view_task_data"]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    return lambda: visit(bypass_csp=True)


@pytest.mark.parametrize("place", PLACES)
def test_no_script_runs_from_a_task(without_policy: Callable[[], Visit], place: str) -> None:
    texts = ["".join(SCRIPTS[:3]), "".join(SCRIPTS[3:])]
    rows = [add_task("default", "default", bucket=number) for number in range(2)]
    for row, text in zip(rows, texts, strict=True):
        Task.objects.filter(pk=row.pk).update(**PLACES[place](text))
    visit = without_policy()

    pages = [LIST, *(f"{LIST}{row.pk}/change/" for row in rows), f"{LIST}?q={texts[0]}"]
    for path in pages:
        page = visit.open(path)
        assert page.locator("#site-name").count() == 1, path
        assert page.evaluate(IS_CLEAN), path
    assert visit.complaints == []


def test_no_script_runs_from_the_name_of_a_member(without_policy: Callable[[], Visit]) -> None:
    for number, script in enumerate(SCRIPTS):
        add_members(
            "default", script, host=script, version=script[:32], queues=script,
            reason=script[:32], fetch_mode=script[:16], age=number * 40,
        )  # fmt: skip
        add_task("default", script, bucket=number)
    visit = without_policy()

    page = visit.open(PAGE)

    page.wait_for_selector("[data-part=members] tbody tr")
    with page.expect_response("**/fragment/"):
        pass
    page.wait_for_timeout(200)
    assert page.evaluate(IS_CLEAN)
    assert visit.complaints == []


def test_the_test_notices_a_script(without_policy: Callable[[], Visit]) -> None:
    page = without_policy().open(LIST)
    page.evaluate("text => document.body.insertAdjacentHTML('beforeend', text)", SCRIPTS[1])

    page.wait_for_function("window.attacked === 1")
    assert not page.evaluate(IS_CLEAN)
