"""Clusters to look at."""

from __future__ import annotations

from skipper_django.core.membership import MemberState
from skipper_django.models import Member, Task
from tests.factories import MemberFactory, add_members, add_task


def clear() -> None:
    Member.objects.all().delete()
    Task.objects.all().delete()


def three() -> None:
    """Three members in good health, and one that has crashed."""
    for number, (claimed, stolen, lost, running) in enumerate(
        [(18_204, 3, 12, 4), (18_377, 0, 9, 2), (17_950, 41, 15, 3)], 1
    ):
        MemberFactory.create(
            member_id=f"web-{number}", host=f"web-{number}.example.org", pid=4700 + number,
            age=number * 2.3, claimed=claimed, stolen=stolen, lost_races=lost, running=running,
        )  # fmt: skip
    MemberFactory.create(
        member_id="web-4", host="web-4.example.org", pid=4704, age=640, running=2,
        state=MemberState.DEAD,
    )  # fmt: skip


def troubled() -> None:
    """A gate that is off for one, another that drains, and a queue that nobody serves."""
    MemberFactory.create(member_id="mail-1", queues="mail", age=2)
    MemberFactory.create(member_id="mail-2", queues="mail\nreports", age=31, whole="gate_off")
    MemberFactory.create(member_id="reports-1", queues="reports", age=4)
    MemberFactory.create(
        member_id="reports-2", queues="reports", age=5, state=MemberState.DRAINING, running=1
    )
    for queue in ("mail", "reports", "invoices", "thumbnails"):
        add_task("default", queue)


def nobody() -> None:
    """Tasks wait, and no worker lives."""
    MemberFactory.create(member_id="web-1", age=125)
    add_task("default", "default")


def many(count: int) -> None:
    add_members("default", *(f"worker-{number:04}" for number in range(1, count + 1)))
