"""The admin's pages of tasks: everybody's text is escaped, nothing can be changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from skipper_django import enqueue_many, task_list
from skipper_django.models import Task
from skipper_django.testing import run_ready
from tests.contract import tasks
from tests.factories import add_task

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

LIST = "/admin/skipper_django/task/"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ATTACKS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</pre><svg onload=alert(1)>",
    "javascript:alert(1)",
    "{{7*7}}{% now %}",
    "&lt;b&gt;",
]
STATES: dict[str, dict[str, Any]] = {
    "scheduled": {"status": 0, "run_after": NOW},
    "ready": {"status": 1},
    "running": {"status": 2, "lease_expires_at": NOW, "started_at": NOW, "worker_ids": "a\nb\n"},
    "successful": {"status": 3, "finished_at": NOW, "result": "[1]"},
    "successful without a result": {"status": 3, "finished_at": NOW},
    "failed": {"status": 4, "reason": "exception", "errors": '[{"attempt": 1, "traceback": "t"}]'},
    "cancelled": {"status": 5, "finished_at": NOW},
    "unknown": {"status": 99, "reason": "because", "priority": 30_000, "name": ""},
    "nonsense": {"status": 4, "args": "[", "kwargs": "?", "errors": "{", "result": "]"},
    "too deep": {"status": 4, "args": "[" * 99_999, "errors": "[" * 99_999, "result": "[" * 99_999},
    "odd errors": {"status": 4, "errors": '[{"attempt": {}, "traceback": [1]}, 5, {}]'},
}


class AdminOn:
    """The models of the admin live beside the queue."""

    alias = "default"

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return self.alias

    db_for_write = db_for_read


@pytest.fixture
def admin_alias(queue: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(AdminOn, "alias", queue)
    settings.DATABASE_ROUTERS = [f"{__name__}.AdminOn"]
    return queue


@pytest.fixture
def login(admin_alias: str) -> Callable[..., Client]:
    """A client of a staff user who has these permissions."""

    def login(*permissions: str) -> Client:
        user = User.objects.create_user("staff", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        client = Client()
        client.force_login(user)
        return client

    return login


@pytest.fixture
def root(admin_alias: str) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def page(client: Client, path: str = "") -> str:
    response = client.get(LIST + path)
    assert response.status_code == 200, response.status_code
    return response.content.decode()


def detail(client: Client, row: Task) -> str:
    return page(client, f"{row.pk}/change/")


def row_of(alias: str, *args: Any, **values: Any) -> Task:
    row = Task.objects.using(alias).get(task_id=tasks.other.enqueue(*args).id)
    Task.objects.using(alias).filter(pk=row.pk).update(**values)
    return Task.objects.using(alias).get(pk=row.pk)


@pytest.mark.parametrize("values", STATES.values(), ids=STATES)
@pytest.mark.parametrize("zones", [True, False], ids=["USE_TZ", "naive"])
def test_every_state_has_a_row_and_a_page(
    root: Client, queue: str, settings: Settings, values: dict[str, Any], zones: bool
) -> None:
    settings.USE_TZ = zones
    row = row_of(queue, "argument", **values)

    assert row.task_id in page(root)
    text = detail(root, row)
    assert row.task_id in text
    if "args" not in values:
        assert "argument" in text


@pytest.mark.case("R28")
@pytest.mark.parametrize("attack", ATTACKS)
def test_stored_text_is_escaped_wherever_it_shows(root: Client, queue: str, attack: str) -> None:
    errors = json.dumps([{"attempt": attack, "traceback": attack, "message": attack}])
    text = json.dumps({attack: [attack]})
    row = row_of(
        queue, attack, status=4, result=text, kwargs=text, errors=errors, worker_ids=f"{attack}\n",
        name=attack, queue_name=attack, reason=attack[:32], task_id=attack, tenant=attack,
    )  # fmt: skip

    for html in (page(root), detail(root, row), page(root, f"{row.pk}/history/")):
        for dangerous in ("<script>alert", "<img src=x", "<svg onload", 'href="javascript:'):
            assert dangerous not in html
        assert ">49<" not in html
    quoted = attack.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert quoted.replace('"', "&quot;") in detail(root, row)
    searched = root.get(LIST, {"q": attack}).content.decode()
    assert attack == "javascript:alert(1)" or "{" in attack or attack not in searched


@pytest.mark.case("R29")
@pytest.mark.parametrize("path", ["add/", "{}/change/", "{}/delete/", ""])
def test_nothing_can_be_added_changed_or_deleted(root: Client, queue: str, path: str) -> None:
    row = row_of(queue, 1)
    before = Task.objects.using(queue).values().get()

    response = root.post(
        LIST + path.format(row.pk),
        {
            "name": "os.system", "args": '["true"]', "status": 1, "post": "yes", "_save": "Save",
            "action": "delete_selected", "_selected_action": row.pk,
        },
    )  # fmt: skip

    assert response.status_code == (403 if path else 200)  # the list knows no actions
    assert Task.objects.using(queue).values().get() == before


@pytest.mark.case("R29")
def test_no_page_offers_a_change(root: Client, queue: str) -> None:
    html = page(root) + detail(root, row_of(queue, 1))

    for offer in (
        "skipper_django/task/add/",
        "deletelink",
        'name="_save"',
        "delete_selected",
        "<textarea",
    ):
        assert offer not in html
    assert root.get(LIST + "add/").status_code == 403


@pytest.mark.case("R31")
def test_the_number_of_queries_does_not_grow_and_big_columns_stay_behind(
    root: Client, queue: str
) -> None:
    row_of(queue, 1)
    with CaptureQueriesContext(connections[queue]) as few:
        page(root)
    enqueue_many([(tasks.other, ["x" * 100])] * 120)
    run_ready(20)
    with CaptureQueriesContext(connections[queue]) as many:
        page(root)

    assert len(many) == len(few) <= 15
    statements = [query["sql"] for query in many.captured_queries]
    listed = [sql for sql in statements if "ORDER BY" in sql and "LIMIT" in sql]
    assert listed
    for column in ("args", "kwargs", "result", "errors", "worker_ids"):
        assert not [sql for sql in listed if f'{column}"' in sql or f"{column}`" in sql]


def test_the_view_permission_is_enough_to_look(login: Callable[..., Client], queue: str) -> None:
    told = {"errors": '[{"attempt": 1, "traceback": "error?"}]', "result": '"result?"'}
    row = row_of(queue, "argument?", status=4, reason="exception", kwargs='{"a": "kw?"}', **told)
    client = login("view_task")

    assert row.task_id in page(client)
    for text in (detail(client, row), page(client), page(client, f"{row.pk}/history/")):
        for hidden in ("argument?", "error?", "result?", "kw?"):
            assert hidden not in text
    assert "Only for users with the permission" in detail(client, row)
    assert client.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}).status_code == 403


def test_arguments_results_and_errors_have_a_permission_of_their_own(
    login: Callable[..., Client], queue: str
) -> None:
    told = {"errors": '[{"attempt": 1, "traceback": "error?"}]', "result": '"result?"'}
    row = row_of(queue, "argument?", status=4, reason="exception", **told)

    text = detail(login("view_task", "view_task_data"), row)

    assert all(shown in text for shown in ("argument?", "error?", "result?"))


def test_without_the_permission_there_is_nothing_to_see(
    login: Callable[..., Client], queue: str
) -> None:
    row = row_of(queue, 1)
    client = login("view_user")

    assert client.get(LIST).status_code == 403
    assert client.get(f"{LIST}{row.pk}/change/").status_code == 403


def test_a_stranger_is_sent_to_the_login(admin_alias: str) -> None:
    response = Client().get(LIST)

    assert response.status_code == 302
    assert "/login/" in response.headers["Location"]


@pytest.mark.parametrize("task_id", ["plain", "two words", " edge ", 'qu"ote', "ä😀", "%", "a+b&c"])
def test_the_search_finds_exactly_the_id(root: Client, queue: str, task_id: str) -> None:
    tasks.other.using(task_id=task_id).enqueue()
    tasks.other.using(task_id=f"{task_id}2").enqueue()

    found = root.get(LIST, {"q": task_id}).context["cl"].result_list

    assert [row.task_id for row in found] == [task_id]


@pytest.mark.parametrize("query", ["", "unknown", "\0", "\ud800".encode("utf-8", "surrogatepass")])
def test_any_search_is_answered(root: Client, queue: str, query: Any) -> None:
    row_of(queue, 1)

    assert root.get(LIST, {"q": query}).status_code == 200


def test_filters_and_sorting_work(root: Client, queue: str) -> None:
    row = row_of(queue, 1)

    lanes = [f"?queue={row.lane}", "?queue=5", "?queue=nonsense", "?status=nonsense"]
    for path in ("?status=1", *lanes, *(f"?o={n}" for n in range(1, 9))):
        assert row.task_id in page(root, path)
    assert row.task_id not in page(root, "?status=3")
    other = add_task(queue, "other")
    assert row.task_id not in page(root, f"?queue={other.lane}")
    assert other.task_id in page(root, f"?queue={other.lane}")


@pytest.mark.case("R31")
def test_the_list_counts_no_further_than_it_has_pages(
    root: Client, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_list, "MAX_COUNTED", 120)
    enqueue_many([(tasks.other, [1])] * 119)
    assert "of many" not in page(root)
    enqueue_many([(tasks.other, [1])] * 60)
    with CaptureQueriesContext(connections[queue]) as captured:
        html = page(root)

    tables = [q["sql"] for q in captured.captured_queries if "scheduler_tasks" in q["sql"]]
    counts = [sql for sql in tables if "COUNT(" in sql.upper()]
    assert counts
    assert all("LIMIT 120" in sql for sql in counts)
    assert not [sql for sql in tables if "DISTINCT" in sql.upper()]
    assert "120 of many" in html
    assert page(root, "?p=3").count("/change/") == 20
    assert root.get(LIST, {"p": 4}).status_code == 302  # there is no such page


@pytest.mark.case("R31")
@pytest.mark.parametrize("path", ["", "?status=4", "?queue={lane}", "?status=1&queue={lane}"])
def test_a_page_of_the_list_takes_few_queries_and_sorts_no_table(
    root: Client, queue: str, path: str
) -> None:
    enqueue_many([(tasks.other, [1])] * 3_000)
    row = Task.objects.using(queue).first()
    assert row is not None
    with connections[queue].cursor() as cursor:
        if connections[queue].vendor != "mysql":  # there it would end the transaction
            cursor.execute("ANALYZE")
    with CaptureQueriesContext(connections[queue]) as captured:
        page(root, path.format(lane=row.lane))

    assert len(captured) <= 15
    explain = "EXPLAIN QUERY PLAN" if queue == "default" else "EXPLAIN"
    for query in captured.captured_queries:
        if "scheduler_tasks" in query["sql"] and query["sql"].startswith("SELECT"):
            with connections[queue].cursor() as cursor:
                cursor.execute(f"{explain} {query['sql']}".replace("%", "%%"))
                plan = "\n".join(str(line) for line in cursor.fetchall())
            if not path:  # filtered, a few rows may be sorted
                for sorting in ("TEMP B-TREE", "Sort Key", "filesort", "temporary"):
                    assert sorting not in plan, plan


SPIES = [
    "args__contains", "kwargs__startswith", "result__regex", "errors__icontains", "args",
    "name", "task_id__startswith", "lease_token", "worker_ids__contains", "pk", "id__in",
]  # fmt: skip


@pytest.mark.parametrize("lookup", SPIES)
def test_nobody_finds_out_by_lookups_what_the_page_hides(
    login: Callable[..., Client], queue: str, lookup: str
) -> None:
    row_of(queue, "secret?")

    assert login("view_task").get(LIST, {lookup: "secret"}).status_code == 400
