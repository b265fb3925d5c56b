"""Members that come and go, names that clash, views that are out of date, a schema that grows."""

from __future__ import annotations

import os
import signal

import pytest
from django.db import connections, models

from chaos.bed import Bed, now
from chaos.workers import Worker
from skipper_django.models import Member, Task

REFUSED = 78
COLUMN = models.CharField(max_length=20, null=True)
COLUMN.set_attributes_from_name("added_later")
INDEX = models.Index(fields=["finished_at"], name="skipper_added_later")


@pytest.mark.fault("members join, leave and die at random", "longest pause measured")
def test_churn(bed: Bed) -> None:
    """Four commands of 8 processes at the most, each a member; how many there were is counted."""
    commands: list[Worker] = [bed.worker("--processes", "4")]
    bed.wait_for_members(4)
    start, most, steps = now(), 0, 6 if bed.short else 40

    with bed.load():
        for _ in range(steps):
            match bed.rng.choice(("join", "join", "leave", "die", "die")):
                case "join" if len(commands) < 4:
                    commands.append(bed.worker("--processes", "8"))
                case "leave" if len(commands) > 1:
                    commands.pop(bed.rng.randrange(len(commands))).terminate()
                case _:
                    _kill_one(bed, bed.rng.choice(commands))
            bed.pause(bed.rng.uniform(0.2, 1.0))
            most = max(most, sum(len(command.children) for command in commands))
    end = now()

    bed.wait_until_done()
    bed.audit(
        bed.effects.longest_pause(start, end),
        may_double=4 * steps,
        note=f"at most {most} processes at once",
    )


def _kill_one(bed: Bed, command: Worker) -> None:
    if command.children:
        os.kill(bed.rng.choice(command.children), signal.SIGKILL)


@pytest.mark.fault("two workers of one chosen name", "the second is refused, the first goes on")
def test_clashing_names(bed: Bed) -> None:
    first = bed.worker("--member-name", "web")
    bed.wait_for_members(1)
    start = now()

    with bed.load():
        second = bed.worker("--member-name", "web")
        assert second.wait() == REFUSED
        bed.pause(1.0)
    end = now()

    bed.wait_until_done()
    assert "is in use by process" in second.log
    assert first.is_running
    bed.audit(bed.effects.longest_pause(start, end))


@pytest.mark.fault(
    "three members, each with a view as old as its start", "lost races, stolen tasks, none twice"
)
def test_old_views(bed: Bed) -> None:
    rare = {"CLUSTER_HEARTBEAT_INTERVAL": 100, "CLUSTER_LIVENESS_WINDOW": 300}
    for count in (1, 2, 3):
        bed.worker(skipper=rare)
        bed.wait_for_members(count)
    stops = Member.objects.using(bed.alias).values_list("range_stop", flat=True)
    start = now()

    with bed.load():
        bed.pause(3.0)

    bed.wait_until_done()
    assert sorted(stops) != [334, 667, 1000], "they do not agree"
    bed.audit(bed.effects.longest_pause(start, now()))


@pytest.mark.fault(
    "a migration adds a column and an index to the tasks, under load",
    "workers started before go on",
)
def test_migration_under_load(bed: Bed) -> None:
    """Nothing is released, so there is no old schema yet: this is what an upgrade will consist of.

    Additions only; rows that old code inserts leave the column NULL.
    """
    workers = [bed.worker(), bed.worker()]
    bed.wait_for_members(2)
    start = now()

    with bed.load():
        bed.wait_for_begun(50)
        with connections[bed.alias].schema_editor() as schema:
            schema.add_field(Task, COLUMN)
        with connections[bed.alias].schema_editor() as schema:
            schema.add_index(Task, INDEX)
        bed.worker()
        bed.wait_for_members(3)
        bed.pause(1.0)
    end = now()

    bed.wait_until_done()
    with connections[bed.alias].schema_editor() as schema:
        schema.remove_index(Task, INDEX)
        schema.remove_field(Task, COLUMN)
    for worker in workers:
        assert worker.is_running
        assert "died" not in worker.log
    bed.audit(bed.effects.longest_pause(start, end))
