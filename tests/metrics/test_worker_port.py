"""One port for all processes of a worker command: nothing counted twice, nothing forgotten."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from skipper_django import conf
from skipper_django.backend import SkipperBackend
from skipper_django.core.reasons import FetchReason
from skipper_django.enqueue import Call
from skipper_django.enqueue import enqueue as enqueue_calls
from skipper_django.models import Member, Task
from tests import tasks
from tests.metrics.scraping import Series, members, scrape, total, url_of, values_of
from tests.waiting import wait_until
from tests.worker import tasks as worker_tasks
from tests.worker.conftest import skipper_settings

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

PORT = ("--metrics-port", "0")


def enqueue_noops(alias: str, count: int) -> None:
    calls = [Call(tasks.noop, (), {}) for _ in range(count)]
    enqueue_calls(conf.load({"DATABASE": alias}), SkipperBackend, calls)


def wait_for_all_done(alias: str) -> None:
    unfinished = Task.objects.using(alias).exclude(status=Task.State.SUCCESSFUL)
    wait_until(lambda: not unfinished.exists(), 60, "all tasks are done")


def succeeded(*pages: Series) -> float:
    return sum(total(page, "skipper_tasks_finished_total", outcome="succeeded") for page in pages)


@pytest.mark.case("R33")
@pytest.mark.parametrize("environment", [False, True], ids=["alone", "multiprocess directory"])
def test_100_tasks_of_two_commands_add_up_over_their_two_ports(
    alias: str, worker_process: Any, tmp_path: Path, environment: bool
) -> None:
    # What a web server sets for its own processes changes nothing here.
    values = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)} if environment else {}
    workers = [worker_process("--processes", "3", *PORT, **values) for _ in range(2)]
    urls = [url_of(worker) for worker in workers]
    wait_until(lambda: Member.objects.using(alias).count() == 6, 40, "six members")

    enqueue_noops(alias, 100)
    wait_for_all_done(alias)

    pages = wait_until(
        lambda: (found := [scrape(url) for url in urls], succeeded(*found) >= 100)[1] and found,
        what="100 tasks on both pages",
    )
    assert succeeded(*pages) == 100
    for name in ("skipper_task_seconds_count", "skipper_queue_wait_seconds_count"):
        assert sum(total(page, name) for page in pages) == 100
    claimed = sum(total(page, "skipper_tasks_claimed_total") for page in pages)
    released = sum(
        total(page, "skipper_tasks_finished_total", outcome="released") for page in pages
    )
    assert claimed - released == 100
    assert [len(members(page)) for page in pages] == [3, 3]
    assert not members(pages[0]) & members(pages[1])


def test_a17_a_scrape_shows_partitioned_fetches_range_and_timers(
    alias: str, worker_process: Any, enqueue: Any
) -> None:
    enqueue(tasks.noop)
    url = url_of(worker_process(*PORT, "--concurrency", "3"))
    wait_for_all_done(alias)

    wait_until(lambda: succeeded(scrape(url)))
    page = scrape(url)

    assert values_of(page, "skipper_member_range_start") == [0]
    assert values_of(page, "skipper_member_range_end") == [1000]
    assert values_of(page, "skipper_member_slots") == [3]
    assert values_of(page, "skipper_member_live_seen") == [1]
    assert total(page, "skipper_scheduler_fetches_total", mode="partitioned") > 0
    assert total(page, "skipper_scheduler_fetches_total", mode="whole_queue") == 0
    assert total(page, "skipper_member_heartbeat_seconds_count") >= 1
    assert total(page, "skipper_member_list_seconds_count") >= 1


def test_a17_who_fetches_the_whole_queue_shows_0_0_and_the_reason(
    alias: str, worker_process: Any, tmp_path: Path
) -> None:
    settings = tmp_path / "gate_off_settings.py"
    settings.write_text(
        "from tests.settings import *\nSKIPPER = {**SKIPPER, 'TASK_PARTITIONING': False}\n"
    )
    url = url_of(
        worker_process(*PORT, DJANGO_SETTINGS_MODULE="gate_off_settings", PYTHONPATH=str(tmp_path))
    )

    def fallen_back() -> Series | None:
        page = scrape(url)
        reason = FetchReason.GATE_OFF.value
        return page if total(page, "skipper_scheduler_fallbacks_total", reason=reason) else None

    page = wait_until(fallen_back)

    assert total(page, "skipper_scheduler_fetches_total", mode="partitioned") == 0
    assert values_of(page, "skipper_member_range_start") == [0]
    assert values_of(page, "skipper_member_range_end") == [0]


def test_a_killed_child_takes_its_gauges_along_and_leaves_its_counts(
    alias: str, worker_process: Any, enqueue: Any, tmp_path: Path
) -> None:
    worker = worker_process("--processes", "2", *PORT)
    url = url_of(worker)
    enqueue_noops(alias, 40)
    wait_for_all_done(alias)
    wait_until(lambda: succeeded(scrape(url)) == 40, what="40 tasks on the page")
    before = wait_until(lambda: len(members(found := scrape(url))) == 2 and found)
    victim = Member.objects.using(alias).order_by("member_id")[0]

    os.kill(victim.pid, signal.SIGKILL)

    worker.wait_for_log("died (SIGKILL)")
    between = scrape(url)
    after = wait_until(
        lambda: total(found := scrape(url), "skipper_worker_processes") == 2 and found
    )
    enqueue_noops(alias, 10)
    wait_for_all_done(alias)
    last = wait_until(lambda: succeeded(found := scrape(url)) >= 50 and found)
    assert victim.member_id not in members(between)
    assert len(members(between)) == 1
    assert total(between, "skipper_worker_process_deaths_total", cause="killed") == 1
    for earlier, later in ((before, between), (between, after), (after, last)):
        assert_monotonic(earlier, later)
    assert succeeded(last) == 50


def assert_monotonic(earlier: Series, later: Series) -> None:
    endings = ("_total", "_count", "_bucket", "_sum")
    for key, value in earlier.items():
        if key[0].endswith(endings):
            assert later[key] >= value, key


def test_the_exporter_is_replaced_and_nothing_is_forgotten(alias: str, worker_process: Any) -> None:
    worker = worker_process(*PORT)
    url = url_of(worker)
    enqueue_noops(alias, 10)
    wait_for_all_done(alias)
    wait_until(lambda: succeeded(scrape(url)) == 10)
    (member,) = Member.objects.using(alias).all()
    # With its stand-in: which of the two is which, they do not say.
    for pid in children_of(worker.process.pid) - {member.pid}:
        os.kill(pid, signal.SIGKILL)

    worker.wait_for_log("metrics process")
    assert succeeded(scrape(url)) == 10
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_timeout_that_the_stand_in_stores_is_counted(
    alias: str, worker_process: Any, enqueue: Any, wait_for_state: Any, tmp_path: Path
) -> None:
    short = skipper_settings(
        LEASE_DURATION=2, CLUSTER_HEARTBEAT_INTERVAL=1, CLUSTER_LIVENESS_WINDOW=3
    )
    url = url_of(worker_process(*PORT, **short))
    row = enqueue(worker_tasks.hold_past_timeout, str(tmp_path / "log"), 60.0)
    wait_for_state(row, Task.State.FAILED, 40)

    page = wait_until(
        lambda: (
            total(found := scrape(url), "skipper_worker_process_deaths_total", cause="stuck") == 1
            and found
        )
    )

    task = "tests.worker.tasks.hold_past_timeout"
    assert total(page, "skipper_tasks_finished_total", task=task, reason="timeout") == 1
    assert total(page, "skipper_task_seconds_sum", task=task) > 6
    assert total(page, "skipper_worker_process_deaths_total") == 1


def children_of(pid: int) -> set[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return {int(child) for child in path.read_text().split()}


def test_a_stopped_command_leaves_no_process_and_no_port(alias: str, worker_process: Any) -> None:
    worker = worker_process("--processes", "2", *PORT)
    url = url_of(worker)
    wait_until(lambda: len(members(scrape(url))) == 2)
    children = children_of(worker.process.pid)
    assert len(children) == 4, "two workers, their stand-in, the exporter"

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    with pytest.raises(OSError, match="refused"):
        scrape(url)


def test_a_killed_supervisor_leaves_no_process(alias: str, worker_process: Any) -> None:
    worker = worker_process(*PORT)
    url = url_of(worker)
    wait_until(lambda: len(members(scrape(url))) == 1)
    children = children_of(worker.process.pid)

    worker.process.kill()
    worker.wait()

    wait_until(lambda: not any(is_running(pid) for pid in children), 40, "all of them have ended")


def is_running(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_a_draining_worker_still_answers_without_a_range(
    alias: str, worker_process: Any, enqueue: Any, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    enqueue(worker_tasks.slow, str(path), "task", 6.0)
    worker = worker_process(*PORT)
    url = url_of(worker)
    wait_until(lambda: worker_tasks.lines(path) == ["start task"])
    wait_until(lambda: total(scrape(url), "skipper_member_running_tasks") == 1)

    worker.send(signal.SIGTERM)

    page = wait_until(
        lambda: values_of(found := scrape(url), "skipper_member_range_end") == [0] and found
    )
    assert total(page, "skipper_member_running_tasks") == 1
    assert worker.wait() == 0


def test_no_label_holds_a_task_id(alias: str, worker_process: Any) -> None:
    url = url_of(worker_process(*PORT))
    enqueue_noops(alias, 20)
    wait_for_all_done(alias)

    page = wait_until(lambda: succeeded(found := scrape(url)) == 20 and found)

    ids = set(Task.objects.using(alias).values_list("task_id", flat=True))
    assert not {value for _, labels in page for _, value in labels} & ids


def test_every_outcome_of_a_real_worker_has_its_series(
    alias: str, worker_process: Any, enqueue: Any
) -> None:
    enqueue(tasks.fail)
    enqueue(tasks.fail_thrice)
    enqueue(tasks.async_echo, 1)
    missing = enqueue(tasks.noop)
    Task.objects.using(alias).filter(pk=missing.pk).update(name="nowhere.task")
    url = url_of(worker_process(*PORT))

    def settled() -> Series | None:
        found = scrape(url)
        return found if total(found, "skipper_tasks_finished_total") == 4 else None

    page = wait_until(settled)

    def count(task: str, **labels: str) -> float:
        return total(page, "skipper_tasks_finished_total", task=task, **labels)

    assert count("tests.tasks.fail", outcome="failed", reason="exception") == 1
    assert count("tests.tasks.fail_thrice", outcome="retried", reason="") == 1
    assert count("tests.tasks.async_echo", outcome="succeeded", reason="") == 1
    assert count("nowhere.task", outcome="failed", reason="unknown_task") == 1
    assert total(page, "skipper_task_seconds_count") == 3  # one could not start
