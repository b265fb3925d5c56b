"""The demo, from end to end: `make demo`, or `python -m example_project.demo`.

Enqueues one task for each module of the standard library, lets three workers drain the queue, and
prints who did how much and what they found.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import NoReturn

import django
from django.core.management import call_command
from django.db import connection
from django.db.models import Sum

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
django.setup()  # what follows imports models

from example_project.library.models import ModuleReport  # noqa: E402
from example_project.library.tasks import module_paths, report_module  # noqa: E402
from example_project.progress import Progress  # noqa: E402
from example_project.workers import Process, running_workers  # noqa: E402
from skipper_django import conf, enqueue_many  # noqa: E402
from skipper_django.models import Task  # noqa: E402
from skipper_django.overview import look  # noqa: E402
from skipper_django.store.clock import clock_of  # noqa: E402

WORKERS = ("worker-1", "worker-2", "worker-3")
LOG = Path(os.environ.get("EXAMPLE_LOG", Path(__file__).resolve().parent / "workers.log"))
LOOK_EVERY_SECONDS = 0.2
STALLED_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m example_project.demo", description=__doc__)
    parser.add_argument("--limit", type=int, metavar="N", help="the first N modules only")
    limit = parser.parse_args(arguments).limit
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        return run(module_paths()[:limit])
    except KeyboardInterrupt:
        print("\nInterrupted; the workers have stopped.")
        return 130


def run(paths: Sequence[str]) -> int:
    clear()
    enqueue(paths)
    started = monotonic()
    with running_workers(WORKERS, LOG) as workers:
        ranges = watch(workers, len(paths))
    statuses = [worker.returncode for worker in workers]
    seconds = monotonic() - started
    print_workers(ranges)
    print_findings()
    print_failures()
    done = finished()
    print(f"\n{done:,} tasks in {seconds:.1f} s, the start of the workers included: "
          f"{done / seconds:.0f} tasks/s")  # fmt: skip
    if done < len(paths) or any(statuses):
        print(f"The workers ended with {statuses} and left {len(paths) - done} tasks: see {LOG}")
        return 1
    print("See every task, and a cluster of one, in the admin: make admin")
    return 0


def clear() -> None:
    """Make the tables, and forget what an earlier run left in them."""
    call_command("migrate", verbosity=0)
    ours().delete()
    ModuleReport.objects.all().delete()
    LOG.unlink(missing_ok=True)


def enqueue(paths: Sequence[str]) -> None:
    started = monotonic()
    enqueue_many([(report_module.using(task_id=path), [path]) for path in paths])
    print(
        f"Python {platform.python_version()}, Django {django.get_version()}, "
        f"{connection.display_name}\n"
        f"{len(paths):,} modules of the standard library, one task each, enqueued in "
        f"{monotonic() - started:.2f} s; {len(WORKERS)} workers drain the queue:\n",
        flush=True,
    )


def watch(workers: Sequence[Process], total: int) -> dict[str, str]:
    """Show how far they are until the last one has ended, or nothing has for too long.

    The ranges of the members, as they were while most of them were there.
    """
    progress = Progress(total)
    ranges: dict[str, str] = {}
    done, since = 0, monotonic()
    try:
        for worker in workers:
            while not has_ended(worker) and monotonic() - since < STALLED_SECONDS:
                if finished() > done:
                    done, since = finished(), monotonic()
                ranges = max(ranges, ranges_of_members(), key=len)
                progress.show(done)
        progress.show(finished())
    finally:
        progress.close()
    return ranges


def ranges_of_members() -> dict[str, str]:
    """What `manage.py skipper_cluster` shows of them."""
    overview = look(conf.load(), clock_of("default"))
    return {member.member_id: str(member.buckets) for member in overview.members if member.buckets}


def has_ended(worker: Process) -> bool:
    """Waits a moment for it."""
    try:
        worker.wait(LOOK_EVERY_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def ours() -> "django.db.models.QuerySet[Task]":
    return Task.objects.filter(name=report_module.module_path)


def finished() -> int:
    return ours().filter(status__gte=Task.State.SUCCESSFUL).count()


def print_workers(ranges: Mapping[str, str]) -> None:
    """Who did how much, as the rows tell, and of which buckets."""
    done: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for worker_ids, status in ours().values_list("worker_ids", "status"):
        worker = (worker_ids or "nobody").splitlines()[-1]
        done[worker] += 1
        failed[worker] += status == Task.State.FAILED
    print(f"\n{'Worker':<24}{'tasks':>8}{'failed':>8}  range of the 1,000 buckets")
    for worker in sorted(done):
        range_text = ranges.get(worker, "-")
        print(f"{worker:<24}{done[worker]:>8,}{failed[worker]:>8,}  {range_text}")


def print_findings() -> None:
    counts = ModuleReport.objects.aggregate(
        lines=Sum("lines", default=0),
        functions=Sum("functions", default=0),
        classes=Sum("classes", default=0),
    )
    names: Counter[str] = Counter()
    for top_names in ModuleReport.objects.values_list("top_names", flat=True):
        names.update(name for name, _ in top_names)
    print(f"\n{'Modules':<24}{ModuleReport.objects.count():>8,}")
    for what, count in counts.items():
        print(f"{what.capitalize():<24}{count:>8,}")
    print("\nNames that are among the ten most used of most modules:")
    print("  " + ", ".join(f"{name} ({count:,})" for name, count in names.most_common(8)))


def print_failures() -> None:
    failures = ours().filter(status=Task.State.FAILED).order_by("task_id")
    if failures:
        print("\nFAILED, with the reason that is stored with the task:")
    for failure in failures:
        error = json.loads(failure.errors or "[{}]")[-1]
        kind = error.get("exception_class_path", "").removeprefix("builtins.")
        message = error.get("message", "").partition("\n")[0]
        print(f"  {failure.task_id} ({failure.reason})\n    {kind}: {message}")


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
