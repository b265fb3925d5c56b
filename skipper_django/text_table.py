"""The cluster as text of at most 100 columns."""

from collections.abc import Sequence
from unicodedata import combining, east_asian_width

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from . import words
from .overview import LiveMember, Overview

WIDTH = 100
# A longer name is cut.
WIDEST_MEMBER = 24


def render(overview: Overview) -> str:
    lines = _summary(overview)
    if overview.members:
        rows = [_row(member) for member in overview.members]
        lines += ["", *_table([_head(), *rows])]
    if overview.gone:
        lines += ["", _("Recently gone:")]
        lines += [
            _("  {member} (host {host}, process {pid}): {why}, last heartbeat {age} s ago").format(
                member=_plain(gone.report.row.member_id),
                host=_plain(gone.report.host),
                pid=gone.report.row.pid,
                why=words.ENDS[gone.report.row.state],
                age=round(gone.heartbeat_age),
            )
            for gone in overview.gone[:10]
        ]
        if overview.gone_count > 10:
            lines.append(_("  and {count} more").format(count=overview.gone_count - 10))
    return "\n".join(line if width(line) <= WIDTH else _cut(line, WIDTH) for line in lines)


def _summary(overview: Overview) -> list[str]:
    count = len(overview.members)
    active = _("active") if overview.partitioning_active else _("not active")
    lines = [
        _("Cluster {tenant}: {members}, partitioning {active}").format(
            tenant=_plain(overview.tenant),
            members=ngettext("{count} live member", "{count} live members", count).format(
                count=count
            ),
            active=active,
        )
    ]
    if overview.reason:
        lines.append(words.of_cluster_reason(overview.reason))
    if not count:
        lines.append(_("Start one with: manage.py skipper_worker"))
    lines += [
        _("WARNING: no live worker serves queue {queue}, which has tasks to run").format(
            queue=_plain(queue)
        )
        for queue in overview.unserved_queues[:20]
    ]
    return lines


def _head() -> list[str]:
    return [
        _("MEMBER"),
        _("RANGE"),
        _("SHARE"),
        _("BEAT"),
        _("STATE"),
        _("RUNNING"),
        _("CLAIMED"),
        _("STOLEN"),
        _("LOST"),
        _("FETCHES FROM"),
    ]


def _row(member: LiveMember) -> list[str]:
    report = member.report
    fetch = words.of_fetch_mode(report.fetch_mode, member.is_active)
    if report.reason and member.is_active:
        fetch = f"{fetch}: {report.reason}"
    if report.row.queues:
        fetch = f"{fetch} ({', '.join(sorted(report.row.queues))})"
    return [
        _plain(member.member_id) + (" *" if member.is_current else ""),
        str(member.buckets) if member.buckets else "-",
        f"{member.share:.1f}%" if member.buckets else "-",
        f"{member.heartbeat_age:.0f}s",
        str(words.STATES[report.row.state]),
        f"{report.running}/{report.concurrency}",
        _short(report.claimed),
        _short(report.stolen),
        _short(report.lost_races),
        _plain(fetch),
    ]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    rows = [[_cut(row[0], WIDEST_MEMBER), *row[1:]] for row in rows]
    widths = [max(width(row[index]) for row in rows) for index in range(len(rows[0]) - 1)]
    left_aligned = {0, 1, 4}

    def line(row: Sequence[str]) -> str:
        cells = []
        for index, (cell, wide) in enumerate(zip(row, widths, strict=False)):
            gap = " " * (wide - width(cell))
            cells.append(cell + gap if index in left_aligned else gap + cell)
        return "  ".join([*cells, row[-1]])

    return [line(row) for row in rows]


def _short(count: int) -> str:
    """Counters grow without end, columns do not."""
    for unit, size in (("G", 10**9), ("M", 10**6)):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _plain(text: str) -> str:
    """What would steer a terminal is shown, not sent."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def width(text: str) -> int:
    """Columns on a terminal."""
    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text
    )


def _cut(text: str, most: int) -> str:
    if width(text) <= most:
        return text
    while width(text) > most - 1:
        text = text[:-1]
    return f"{text}…"
