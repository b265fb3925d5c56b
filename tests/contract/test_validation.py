"""What cannot work is refused where it is written: at the decoration or at using()."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import django
import pytest

from skipper_django import SkipperTask, exponential, fixed, task
from skipper_django.compat import InvalidTask, InvalidTaskBackend
from tests.contract import tasks

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

BACKEND = "skipper_django.backend.SkipperBackend"


def function() -> None:
    pass


def with_context(context: Any, value: int = 0) -> None:
    pass


def lowest_first(exception: BaseException, result: Any) -> None:
    return None


class Holder:
    def method(self) -> None:
        pass


anonymous = lambda: None  # noqa: E731


def copy_of(name: str, module: str = __name__) -> Callable[[], None]:
    """A function that says it is called something else."""

    def copy() -> None:
        pass

    copy.__qualname__ = copy.__name__ = name
    copy.__module__ = module
    return copy


@pytest.mark.parametrize(
    "refused",
    [
        (lambda: lambda: None)(),
        partial(function),
        len,
        Holder,
        Holder.method,
        anonymous,
        Holder().method,
        copy_of("f", module="__main__"),
        copy_of("f" * 300),
        copy_of("not a name"),
        copy_of(""),
    ],
    ids=[
        "nested",
        "partial",
        "builtin",
        "class",
        "function of a class",
        "lambda",
        "method",
        "__main__",
        "long name",
        "no identifier",
        "empty name",
    ],
)
@pytest.mark.case("R6")
@pytest.mark.parametrize("decorator", [task, tasks.plain_task], ids=["ours", "Django's"])
def test_a_function_that_no_worker_can_import_is_no_task(
    decorator: Callable[..., Any], refused: Any
) -> None:
    with pytest.raises(InvalidTask):
        decorator(refused)


def test_the_longest_name_that_fits_is_taken() -> None:
    name = "f" * (255 - len(__name__) - 1)

    assert len(task(copy_of(name)).module_path) == 255
    with pytest.raises(InvalidTask, match="255"):
        task(copy_of(name + "f"))


@pytest.mark.parametrize("priority", ["5", "", None, True, False, 5.0, 0.5, 101, -101, [1], b"1"])
def test_a_priority_is_a_whole_number_from_minus_100_to_100(priority: Any) -> None:
    with pytest.raises(InvalidTask, match="priority"):
        task(priority=priority)(function)
    if priority is not None:
        with pytest.raises(InvalidTask, match="priority"):
            tasks.plain.using(priority=priority)


@pytest.mark.parametrize("priority", [-100, 0, 100])
def test_the_bounds_of_the_priority_are_taken(priority: int) -> None:
    assert task(priority=priority)(function).priority == priority
    assert tasks.plain.using(priority=priority).priority == priority


@pytest.mark.parametrize(
    "run_after",
    [
        datetime(2030, 1, 1),  # noqa: DTZ001
        "2030-01-01T00:00:00Z",
        date(2030, 1, 1),
        timedelta(seconds=5),
        5,
        0,
        "",
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=5))),
    ],
    ids=str,
)
@pytest.mark.case("R26")
def test_run_after_is_an_aware_datetime(run_after: Any) -> None:
    with pytest.raises(InvalidTask, match="run_after"):
        tasks.plain.using(run_after=run_after)
    with pytest.raises(InvalidTask, match="run_after"):
        tasks.rich.using(run_after=run_after)


@pytest.mark.case("R26")
@pytest.mark.parametrize("run_after", ["2030-01-01", date(2030, 1, 1), timedelta(1), 5], ids=str)
def test_run_after_is_a_datetime_without_time_zones_too(settings: Settings, run_after: Any) -> None:
    settings.USE_TZ = False

    with pytest.raises(InvalidTask, match="run_after"):
        tasks.plain.using(run_after=run_after)
    assert tasks.plain.using(run_after=datetime(2030, 1, 1)).run_after  # noqa: DTZ001
    assert tasks.plain.using(run_after=datetime(2030, 1, 1, tzinfo=UTC)).run_after


def test_run_after_and_task_id_belong_to_one_call() -> None:
    options: dict[str, Any]
    for options in ({"run_after": datetime(2030, 1, 1, tzinfo=UTC)}, {"task_id": "a"}):
        with pytest.raises(TypeError, match="using"):
            task(**options)(function)


def test_a_misspelt_option_is_refused_by_name() -> None:
    options: dict[str, Any] = {"max_atempts": 3}

    with pytest.raises(TypeError, match="max_atempts"):
        task(**options)
    with pytest.raises(TypeError, match="max_atempts"):
        tasks.plain_task(**options)(function)


@pytest.mark.parametrize("queue_name", ["", "q" * 101, "a\0b", "\ud800", 5, True, ["mail"], b"a"])
@pytest.mark.parametrize("queues", [[], ["mail"]], ids=["any queue", "one queue"])
def test_a_queue_name_is_text_that_every_database_stores(
    settings: Settings, queues: list[str], queue_name: Any
) -> None:
    settings.TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": queues}}

    with pytest.raises(InvalidTask):
        task(queue_name=queue_name)(function)


def test_a_queue_that_is_not_listed_is_refused(settings: Settings) -> None:
    settings.TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": ["mail"]}}

    with pytest.raises(InvalidTask, match="not valid"):
        task(function)
    with pytest.raises(InvalidTask, match="not valid"):
        tasks.rich.using(queue_name="post")
    assert tasks.rich.using(queue_name="mail").queue_name == "mail"


@pytest.mark.django_db
def test_a_queue_that_left_the_settings_is_refused_at_the_enqueue(settings: Settings) -> None:
    settings.TASKS = {"default": {"BACKEND": BACKEND, "QUEUES": ["post"]}}

    with pytest.raises(InvalidTask, match="not valid"):
        tasks.rich.enqueue()


def test_every_queue_name_that_fits_is_taken() -> None:
    for name in ("q" * 100, "é😀", " ", "a/b"):
        assert tasks.plain.using(queue_name=name).queue_name == name


@pytest.mark.parametrize("attempts", [0, -1, True, 2.0, "3", None, float("inf")])
@pytest.mark.case("R21")
def test_max_attempts_is_a_whole_number_from_1(attempts: Any) -> None:
    with pytest.raises(InvalidTask, match="max_attempts"):
        task(max_attempts=attempts)(function)


@pytest.mark.parametrize(
    "backoff",
    [-1, float("nan"), float("inf"), "5", None, True, [], (), [1, -1], [1, "2"], {1: 2}, {1, 2}],
    ids=str,
)
def test_backoff_is_seconds_a_list_or_a_callable(backoff: Any) -> None:
    with pytest.raises(InvalidTask, match="backoff"):
        task(backoff=backoff)(function)


@pytest.mark.parametrize("backoff", [0, 0.5, [1, 2], (3,), fixed(1), exponential(), lowest_first])
def test_every_kind_of_backoff_is_taken(backoff: Any) -> None:
    kept = task(backoff=backoff)(function).backoff

    assert kept == (tuple(backoff) if isinstance(backoff, list) else backoff)


@pytest.mark.parametrize(
    "timeout", [0, -1, float("nan"), float("inf"), 1e12, True, "30", timedelta(seconds=3)], ids=str
)
def test_timeout_is_seconds_that_can_pass(timeout: Any) -> None:
    with pytest.raises(InvalidTask, match="timeout"):
        task(timeout=timeout)(function)


@pytest.mark.parametrize("task_id", ["", "x" * 256, "a\0b", "\ud800", 5, b"id", True, ["a"]])
def test_a_task_id_is_text_that_every_database_finds_again(task_id: Any) -> None:
    with pytest.raises(InvalidTask, match="task_id"):
        tasks.rich.using(task_id=task_id)


def test_a_task_takes_a_context_only_as_its_first_argument() -> None:
    assert task(takes_context=True)(with_context).takes_context
    with pytest.raises(InvalidTask, match="context"):
        task(takes_context=True)(function)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(InvalidTaskBackend):
        task(backend="nowhere")(function)
    with pytest.raises(InvalidTaskBackend):
        tasks.rich.using(backend="nowhere")


def test_a_plain_task_gets_our_defaults() -> None:
    assert isinstance(tasks.plain, SkipperTask)
    assert (tasks.plain.max_attempts, tasks.plain.timeout, tasks.plain.task_id) == (1, None, None)


@pytest.mark.skipif((6, 0) <= django.VERSION < (6, 1), reason="Django 6.0's @task takes no more")
def test_the_plain_decorator_takes_our_options_where_it_can() -> None:
    made = tasks.plain_task(max_attempts=3, backoff=[1], timeout=5)(function)

    assert (made.max_attempts, made.backoff, made.timeout) == (3, (1,), 5)
    with pytest.raises(InvalidTask):
        tasks.plain_task(max_attempts=0)(function)


def test_chains_of_using_keep_every_option() -> None:
    tomorrow = datetime(2030, 1, 1, tzinfo=UTC)

    changed = (
        tasks.rich.using(task_id="a")
        .using(priority=-5)
        .using(run_after=tomorrow)
        .using(queue_name="post")
        .using(backend="default")
    )

    assert (changed.task_id, changed.priority, changed.run_after) == ("a", -5, tomorrow)
    assert (changed.queue_name, changed.backend) == ("post", "default")
    assert (changed.max_attempts, changed.backoff, changed.timeout) == (4, (1, 2), 30)
    assert changed.func is tasks.rich.func
    assert (tasks.rich.task_id, tasks.rich.priority) == (None, 7)


def test_a_task_is_called_directly_like_its_function() -> None:
    assert tasks.rich.call(5) == 5
