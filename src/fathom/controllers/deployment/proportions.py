"""Numbers that may be percentages, and how a change of size is shared out between revisions. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.controllers.deployment.revisions import MOST, notes_of, size_of
from fathom.controllers.pod_states import created_s
from fathom.model.objects import Obj, lookup, metadata


def resolved(value: object, whole: int, *, up: bool) -> int:
    """3, or '25%' of the whole, rounded up or down. An invalid value is 0."""
    if isinstance(value, int):
        return max(0, value)
    text = str(value or "0").removesuffix("%")
    if not text.isascii() or not text.isdigit():
        return 0
    share = int(text[:18]) * whole
    return -(-share // 100) if up else share // 100


class RolloutLimits(msgspec.Struct, frozen=True):
    """How far a rolling update may deviate from the wanted number."""

    surge: int
    unavailable: int


def wanted_of(deployment: Obj) -> int:
    replicas = lookup(deployment, "spec", "replicas")
    return 1 if replicas is None else int(replicas)


def is_rolling(deployment: Obj) -> bool:
    return bool(lookup(deployment, "spec", "strategy", "type") != "Recreate")


def limits_of(deployment: Obj) -> RolloutLimits:
    """Surge is rounded up, unavailability down. With both 0 no rollout could proceed: then one may be
    missing."""
    if not is_rolling(deployment):
        return RolloutLimits(0, 0)
    rolling = lookup(deployment, "spec", "strategy", "rollingUpdate") or {}
    wanted = wanted_of(deployment)
    surge = resolved(rolling.get("maxSurge", "25%"), wanted, up=True)
    unavailable = resolved(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    return RolloutLimits(surge, min(unavailable, wanted)) if surge or unavailable else RolloutLimits(0, 1)


def max_unavailable(deployment: Obj) -> int:
    """At most the wanted number: a Deployment that wants no pods cannot lack one."""
    return min(limits_of(deployment).unavailable, wanted_of(deployment))


def most_of(deployment: Obj) -> int:
    """The most pods there may be during a rollout."""
    wanted = wanted_of(deployment)
    return wanted + limits_of(deployment).surge if wanted else 0


def shared_out(deployment: Obj, active: Sequence[Obj]) -> dict[str, int]:
    """Sizes of all active ReplicaSets after the Deployment was scaled in the middle of a rollout: each grows
    or shrinks in proportion, so that risk stays spread as it was; the largest takes what rounding leaves."""
    change = most_of(deployment) - sum(map(size_of, active))
    ordered = _largest_first(active, newest_first=change > 0)
    sizes: dict[str, int] = {}
    assigned = 0
    for replica_set in ordered:
        part = _part(deployment, replica_set, remaining=change - assigned)
        sizes[metadata(replica_set)["name"]] = size_of(replica_set) + part
        assigned += part
    if ordered and (rest := change - assigned):
        first = metadata(ordered[0])["name"]
        sizes[first] = max(0, sizes[first] + rest)
    return sizes


def _largest_first(active: Sequence[Obj], *, newest_first: bool) -> list[Obj]:
    sign = -1 if newest_first else 1
    return sorted(
        active,
        key=lambda replica_set: (
            -size_of(replica_set),
            sign * created_s(replica_set),
            metadata(replica_set)["name"],
        ),
    )


def _part(deployment: Obj, replica_set: Obj, *, remaining: int) -> int:
    """Never more than is left, and never in the opposite direction."""
    if not remaining or not wanted_of(deployment):
        return -size_of(replica_set) if not wanted_of(deployment) else 0
    text = notes_of(replica_set).get(MOST, "")
    recorded = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    before = recorded or int(lookup(deployment, "status", "replicas") or 0) or size_of(replica_set) or 1
    fraction = _rounded(size_of(replica_set) * most_of(deployment), before) - size_of(replica_set)
    return (
        max(0, min(fraction, remaining))
        if remaining > 0
        else min(0, max(fraction, remaining, -size_of(replica_set)))
    )


def _rounded(number: int, by: int) -> int:
    """To the nearest, halves up: whole numbers only, so that every machine agrees."""
    return (2 * number + by) // (2 * by)
