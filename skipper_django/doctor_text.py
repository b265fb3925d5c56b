"""The doctor's report, for people and for programs."""

from collections.abc import Iterator
from typing import Any

from .doctor import MAX_LISTED, Report


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain values; names are stable."""
    return {
        "database": report.database,
        "healthy": report.is_healthy,
        "findings": [
            {
                "code": finding.code, "level": finding.level, "text": finding.text,
                "remedy": finding.remedy, "repaired": finding.repaired,
            }
            for finding in report.findings
        ],
        "rows": report.rows,
        "bad_rows": report.counts,
        "tasks": [
            {
                "task_id": task.task_id, "id": task.id, "faults": list(task.faults),
                "action": task.action, "reason": task.reason,
            }
            for task in report.tasks
        ],
    }  # fmt: skip


ACTIONS = {
    "found": "--repair corrects it",
    "repaired": "repaired",
    "parked": "parked",
    "running": "left alone: it is being run; look again when it has ended",
    "moved": "left alone: it changed meanwhile, or another has its id; look again",
}


def as_lines(report: Report, most: int = 20) -> Iterator[str]:
    """The report for people; at most so many rows one by one."""
    for finding in report.findings:
        done = " (repaired)" if finding.repaired else ""
        yield f"{finding.level.upper()} {finding.code}: {finding.text}{done}"
        if finding.remedy and not finding.repaired:
            yield f"    {finding.remedy}"
    for task in report.tasks[:most]:
        action = f"parked ({task.reason})" if task.action == "parked" else ACTIONS[task.action]
        yield f"TASK {_line(task.task_id)}: {_line('; '.join(task.faults))}"
        yield f"    {action}"
    bad = sum(report.counts.values())
    if bad > most:
        yield f"... and {bad - most} more bad rows; --json lists {MAX_LISTED}"
    told = ", ".join(f"{count} {action}" for action, count in sorted(report.counts.items()))
    yield f"{report.rows} rows read, {bad} bad{f' ({told})' if told else ''}."
    yield "Healthy." if report.is_healthy else "Not healthy: see above."


def _line(text: str) -> str:
    """Of one line, without what a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
