"""Sensitive arguments: the worker has them, nobody else is told."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import django
import pytest
from django.core import mail
from django.utils.log import AdminEmailHandler
from django.views.debug import ExceptionReporter

from skipper_django import enqueue_many, task
from skipper_django.compat import InvalidTask, task_finished
from skipper_django.core.redaction import redacted
from skipper_django.management.commands.skipper_worker import Command
from skipper_django.models import Task
from skipper_django.signals import task_retrying
from skipper_django.testing import run_ready
from tests.admin.test_pages import admin_alias, detail, login, page, root
from tests.security import tasks

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django.fixtures import Settings

__all__ = ["admin_alias", "login", "root"]

pytestmark = pytest.mark.case("R30")

SECRET = "hunter2'\"\\<&ä\n"
FORMS = ("hunter2", "HUNTER2")


def assert_silent(text: str) -> None:
    assert text
    assert not [form for form in FORMS if form in text], text


@pytest.mark.parametrize("call", ["sync", "keyword", "async", "nested", "unmarked"])
def test_a_secret_is_in_no_error_log_or_signal(
    root: Client, queue: str, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    told: list[str] = []

    def listen(task_result: Any, **kwargs: Any) -> None:
        told.append(repr(task_result.errors))

    task_finished.connect(listen)
    task_retrying.connect(listen)
    with caplog.at_level(logging.DEBUG):
        {
            "sync": lambda: tasks.fails_with.enqueue(SECRET),
            "keyword": lambda: tasks.fails_with.enqueue(pin=SECRET),
            "async": lambda: tasks.fails_async.enqueue(SECRET),
            "nested": lambda: tasks.fails_with.enqueue("pin?", 1, where={"a": [{"b": SECRET}]}),
            "unmarked": lambda: tasks.unmarked.enqueue(
                "x", plain="shown", config={"api_key": SECRET}
            ),
        }[call]()
        run_ready()
    task_finished.disconnect(listen)
    task_retrying.disconnect(listen)

    row = Task.objects.using(queue).get()
    assert row.status == Task.State.FAILED
    assert "hunter2" in row.args + row.kwargs  # the worker needs it
    assert_silent(row.errors or "")
    assert "[hidden]" in (row.errors or "")
    # What Django logs of its own statements under DEBUG is the project's choice.
    logs = [record for record in caplog.records if not record.name.startswith("django.db")]
    formatter = logging.Formatter()
    assert_silent("\n".join(map(formatter.format, logs)))
    assert_silent("\n".join(told))
    assert_silent(page(root) + detail(root, row))


def test_the_reports_that_django_mails_hide_it(
    queue: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "root@example.org"
    settings.ADMINS = [("root", address)] if django.VERSION < (6, 0) else [address]
    settings.DEBUG = False
    settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
    handler = AdminEmailHandler(include_html=True)
    loggers = [logging.getLogger("django.tasks"), logging.getLogger("skipper_django.worker")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        tasks.fails_with.enqueue(SECRET, "x", where={"b": SECRET})
        tasks.unmarked.enqueue(SECRET, "x")
        run_ready()
    finally:
        for logger in loggers:
            logger.removeHandler(handler)

    assert mail.outbox
    for message in mail.outbox:
        assert_silent(str(message.message()) + str(getattr(message, "alternatives", "")))


def test_a_report_of_the_live_exception_hides_the_variables(queue: str, settings: Settings) -> None:
    from skipper_django.worker import execute

    settings.DEBUG = False
    reports: list[str] = []
    plain = execute.Executor._failed

    def reporting(self: Any, attempt: Any, error: BaseException) -> Any:
        reporter = ExceptionReporter(None, type(error), error, error.__traceback__)
        reports.extend(repr(frame["vars"]) for frame in reporter.get_traceback_frames())
        return plain(self, attempt, error)

    execute.Executor._failed = reporting  # type: ignore[method-assign]
    try:
        tasks.fails_quietly.enqueue(SECRET, password=SECRET)
        run_ready()
    finally:
        execute.Executor._failed = plain  # type: ignore[method-assign]

    assert len(reports) >= 3
    # `copied` is the task's own variable: it may be marked by Django's sensitive_variables.
    told = [report.replace("HUNTER2", "") for report in reports]
    assert_silent("\n".join(told))


def test_arguments_are_hidden_by_name_at_any_depth(root: Client, queue: str) -> None:
    tasks.echoes.enqueue("first", "hunter2-a", "hunter2-b", note="shown", token="hunter2-c")
    row = Task.objects.using(queue).get()
    run_ready()
    row.refresh_from_db()

    text = detail(root, row)

    assert_silent(text)
    assert "first" in text
    assert "shown" in text
    assert row.result is not None
    assert "hunter2-b" in row.result  # whoever asks for the result gets it whole


def test_a_task_whose_code_is_gone_still_hides_what_is_named_like_a_secret(
    root: Client, queue: str
) -> None:
    tasks.echoes.enqueue("first", user_password="hunter2", pin="shown")
    row = Task.objects.using(queue).get()
    Task.objects.using(queue).update(name="gone.tasks.echoes")
    row.refresh_from_db()

    text = detail(root, row)

    assert_silent(text)
    assert "shown" in text


@pytest.mark.parametrize("sensitive", ["pin", ("pni",), (1,), 5])
def test_a_mark_that_would_hide_nothing_is_refused(sensitive: Any) -> None:
    def function(pin: str) -> None:
        pass

    with pytest.raises(InvalidTask, match="sensitive"):
        task(sensitive=sensitive)(function)


def test_enqueue_errors_name_arguments_and_tell_no_values(queue: str) -> None:
    wrong: list[Any] = [
        lambda: tasks.fails_with.enqueue(b"hunter2"),
        lambda: tasks.fails_with.enqueue({"hunter2"}),
        lambda: enqueue_many([(tasks.fails_with, "hunter2")]),
        lambda: enqueue_many([(tasks.fails_with, [1], ["hunter2"])]),
        lambda: enqueue_many([("hunter2", [1])]),
    ]
    for call in wrong:
        with pytest.raises(TypeError) as refused:
            call()
        assert_silent(str(refused.value))


@pytest.mark.parametrize(
    ("text", "secrets", "expected"),
    [
        ("a secret value", ["secret"], "a [hidden] value"),
        ("pin 123, line 1234", ["123"], "pin [hidden], line 1234"),
        ("abc abcdef", ["abc", "abcdef"], "[hidden] [hidden]"),
        (r"it's 'a\nb'", ["a\nb"], "it's '[hidden]'"),
        (r'"\u00e4rger"', ["ärger"], '"[hidden]"'),
        ("nothing", [], "nothing"),
    ],
)
def test_texts_are_searched_as_python_and_json_write_them(
    text: str, secrets: list[str], expected: str
) -> None:
    assert redacted(text, secrets) == expected


def test_the_metrics_port_binds_to_loopback_by_default() -> None:
    parser = Command().create_parser("manage.py", "skipper_worker")
    options = parser.parse_args(["--metrics-port", "0"])
    assert options.metrics_address == "127.0.0.1"

    pytest.importorskip("prometheus_client")
    from skipper_django.metrics.exporter import Exporter

    exporter = Exporter(options.metrics_address, options.metrics_port, 1)
    try:
        assert exporter.url.startswith("http://127.0.0.1:")
    finally:
        closer = getattr(exporter, "close", None) or getattr(exporter, "stop", None)
        if closer is not None:
            closer()
