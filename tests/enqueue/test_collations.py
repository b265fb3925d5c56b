"""Databases made with other defaults: the tables bring their own character set and collation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connections, models

from skipper_django import enqueue_many
from skipper_django.compat import TaskResultStatus
from skipper_django.models import Task
from skipper_django.testing import run_ready
from tests import servers_plugin
from tests.contract import tasks
from tests.databases import server_database

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker
    from pytest_django.fixtures import Settings

CHARACTER_SETS = {
    "mariadb": ("latin1_swedish_ci", "utf8mb3_general_ci", "utf8mb4_general_ci"),
    "mysql": ("latin1_swedish_ci", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci"),
}
DEFAULTS = [
    (server, f"CHARACTER SET {name.partition('_')[0]} COLLATE {name}")
    for server, names in CHARACTER_SETS.items()
    for name in (*names, "utf8mb4_unicode_ci")
]
LATIN_1 = "TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
EMOJI = "😀 <é> ÿ\u2028"


@pytest.fixture
def odd(
    request: pytest.FixtureRequest,
    settings: Settings,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[str]:
    """A database made with other defaults, which holds the queue."""
    server, suffix = request.param
    if server in servers_plugin.missing:
        pytest.skip(f"no {server}: {servers_plugin.missing[server]}")
    with django_db_blocker.unblock(), server_database(server, "odd_defaults", suffix) as odd:
        call_command("migrate", "skipper_django", database=odd, verbosity=0)
        settings.SKIPPER = {"DATABASE": odd, "TENANT": "mandant-ä"}
        settings.SILENCED_SYSTEM_CHECKS = ["skipper.W001"]  # the queue is not in "default"
        yield odd


@pytest.mark.case("R42")
@pytest.mark.parametrize("odd", DEFAULTS, indirect=True, ids=str)
def test_another_default_collation_changes_nothing(odd: str) -> None:
    mail = tasks.other.using(queue_name=f"mail {EMOJI}")
    results = enqueue_many([(mail.using(task_id=f"{EMOJI}{n}"), [EMOJI]) for n in "aAä "])
    results.append(tasks.raises_text.enqueue(EMOJI))

    assert run_ready() == 5

    for result in results:
        result.refresh()
    assert [result.return_value for result in results[:4]] == [EMOJI] * 4
    assert EMOJI[0] in results[4].errors[0].traceback
    assert results[4].status == TaskResultStatus.FAILED
    assert mail.using(task_id=f"{EMOJI}a").enqueue(1).id == results[0].id
    assert Task.objects.using(odd).count() == 5
    call_command("check", databases=[odd], fail_level="WARNING")


@pytest.mark.case("R42")
@pytest.mark.parametrize("odd", [("postgresql", LATIN_1)], indirect=True, ids=["latin1"])
def test_a_latin_1_database_of_postgresql_works_and_the_check_names_it(odd: str) -> None:
    result = tasks.other.enqueue("é")

    run_ready()

    result.refresh()
    assert result.return_value == "é"
    with pytest.raises(SystemCheckError, match="LATIN1"):
        call_command("check", databases=[odd], fail_level="ERROR")


@pytest.mark.case("R43")
def test_no_column_has_a_type_that_a_new_django_stores_otherwise(alias: str) -> None:
    assert not [f for f in Task._meta.get_fields() if isinstance(f, models.UUIDField)]
    with connections[alias].cursor() as cursor:
        columns = {
            column.name: column
            for column in connections[alias].introspection.get_table_description(
                cursor, Task._meta.db_table
            )
        }

    task_id = columns["task_id"]
    kind = connections[alias].introspection.get_field_type(task_id.type_code, task_id)
    assert kind == "CharField"
