"""The codes of the cluster in words, for pages and commands."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from .core.membership import MemberState
from .core.reasons import ClusterReason, FetchMode, FetchReason

FETCH_REASONS: Mapping[str, Any] = {
    FetchReason.GATE_OFF: _("partitioning is switched off (TASK_PARTITIONING)"),
    FetchReason.GATE_ERROR: _("the TASK_PARTITIONING callable raised an error; see the log"),
    FetchReason.NOT_REGISTERED: _(
        'workers do not register (CLUSTER_MEMBERSHIP_MANAGER is "single")'
    ),
    FetchReason.NO_LIVE_MEMBER: _("no member is live"),
    FetchReason.OWN_ROW_MISSING: _("its own row is missing from the list of live members"),
    FetchReason.BEYOND_LAST_BUCKET: _("there are more members than buckets"),
    FetchReason.RANGE_ERROR: _("computing its range failed; see the log"),
}

CLUSTER_REASONS: Mapping[str, Any] = {
    ClusterReason.NOT_REGISTERED: _(
        'Workers do not register (CLUSTER_MEMBERSHIP_MANAGER is "single"): each of them fetches '
        "from the whole queue and none is listed here."
    ),
    ClusterReason.NO_LIVE_MEMBER: _("No member is live: no worker has sent a heartbeat."),
    ClusterReason.ALL_DRAINING: _("Every live member is draining: it finishes and stops."),
    ClusterReason.SEVERAL_REASONS: _(
        "Every member fetches from the whole queue, each for a reason of its own; see the table."
    ),
    ClusterReason.SOME_WHOLE_QUEUE: _("Some members fetch from the whole queue; see the table."),
    FetchReason.GATE_OFF: _(
        "Every member fetches from the whole queue: partitioning is switched off "
        "(TASK_PARTITIONING)."
    ),
    FetchReason.GATE_ERROR: _(
        "Every member fetches from the whole queue: the TASK_PARTITIONING callable raised an "
        "error; see the log of the workers."
    ),
}

FETCH_MODES: Mapping[str, Any] = {
    FetchMode.PARTITIONED: _("own range"),
    FetchMode.WHOLE_QUEUE: _("whole queue"),
    "": _("not yet"),
}

STATES: Mapping[MemberState, Any] = {
    MemberState.ACTIVE: _("Active"),
    MemberState.DRAINING: _("Draining"),
    MemberState.DEAD: _("Dead"),
}

ENDS: Mapping[MemberState, Any] = {
    MemberState.ACTIVE: _("no heartbeat within the liveness window"),
    MemberState.DRAINING: _("no heartbeat while it was draining"),
    MemberState.DEAD: _("its process is gone"),
}


def of_fetch_reason(code: str) -> str:
    """A code that a newer worker wrote stands for itself."""
    return str(FETCH_REASONS.get(code, code))


def of_cluster_reason(code: str) -> str:
    return str(CLUSTER_REASONS.get(code) or FETCH_REASONS.get(code, code))


def of_fetch_mode(code: str, is_active: bool = True) -> str:
    """What it was before a member began to drain is of no interest."""
    return str(FETCH_MODES.get(code, code) if is_active else _("nothing any more"))
