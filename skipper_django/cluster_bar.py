"""The bar of the 1000 buckets, as positions in percent and names of CSS classes."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from . import words
from .core.buckets import BUCKETS, BucketRange
from .overview import Division, LiveMember, Overview

COLOURS = 6
# Narrower segments have no room for a name, and many segments none for a gap between them.
LABELLED_FROM_BUCKETS = 90
MOST_WITH_GAPS = 200


@dataclass(frozen=True, slots=True)
class Segment:
    x: str
    width: str
    css: str
    title: str
    name: str  # empty: no room
    range_text: str


@dataclass(frozen=True, slots=True)
class Bar:
    queues: tuple[str, ...]
    segments: tuple[Segment, ...]
    is_dense: bool


def colours(overview: Overview) -> Mapping[str, str]:
    """Member id to CSS classes; neighbours in the bar differ.

    So many members that each is a hair's breadth get neighbouring shades of broad zones instead:
    six colours in turn would flicker.
    """
    count = len(overview.members)
    if count <= MOST_WITH_GAPS:
        chosen = [f"sk-c{index % COLOURS}" for index in range(count)]
    else:
        shades = ("", " sk-odd")
        chosen = [f"sk-c{index * COLOURS // count}{shades[index % 2]}" for index in range(count)]
    return {member.member_id: css for member, css in zip(overview.members, chosen, strict=True)}


def bars(overview: Overview) -> list[Bar]:
    """One for each group of queues that the same members serve."""
    members = {member.member_id: member for member in overview.members}
    css = colours(overview)
    return [_bar(division, members, css) for division in overview.divisions]


def _bar(division: Division, members: Mapping[str, LiveMember], css: Mapping[str, str]) -> Bar:
    segments = tuple(
        _segment(members[member_id], buckets, css[member_id])
        for member_id, buckets in division.ranges.items()
    )
    return Bar(division.queues, segments, len(segments) > MOST_WITH_GAPS)


def _segment(member: LiveMember, buckets: BucketRange, colour: str) -> Segment:
    """What the rule gives a member; hatched if that member fetches from the whole queue instead."""
    share = len(buckets) * 100 / BUCKETS
    if member.fetches_whole_queue:
        reason = words.of_fetch_reason(member.report.reason)
        title = f"{member.member_id}: {words.of_fetch_mode(member.report.fetch_mode)}, {reason}"
        range_text = _("whole queue")
        colour = "sk-whole"
    else:
        title = f"{member.member_id} {buckets} {share:.1f} %"
        range_text = str(buckets)
    return Segment(
        x=_percent(buckets.start),
        width=_percent(len(buckets)),
        css=f"{colour} sk-current" if member.is_current else colour,
        title=title,
        name=member.member_id if len(buckets) >= LABELLED_FROM_BUCKETS else "",
        range_text=range_text,
    )


def _percent(buckets: int) -> str:
    """Text, as a localised number would be no SVG."""
    return f"{buckets * 100 / BUCKETS:g}%"
