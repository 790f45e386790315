"""Pods that a NoExecute taint drives away, and when. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from fathom.model.objects import Obj, is_deleting, lookup

SECOND_NS = 1_000_000_000


class Leaving(msgspec.Struct, frozen=True):
    """`after_s`: None while it tolerates everything for good; nought or less is now."""

    pod: Obj
    taint: str
    after_s: float


def leaving(node: Obj, pods: Sequence[Obj], *, now_ns: int) -> list[Leaving]:
    """Everybody who has to go, soonest first."""
    taints = [
        each
        for each in lookup(node, "spec", "taints") or ()
        if isinstance(each, dict) and each.get("effect") == "NoExecute"
    ]
    found = [
        one
        for pod in pods
        if taints and not is_deleting(pod) and lookup(pod, "status", "phase") not in {"Succeeded", "Failed"}
        for one in _first(pod, taints, now_ns)
    ]
    return sorted(found, key=lambda each: each.after_s)


def _first(pod: Obj, taints: Sequence[Obj], now_ns: int) -> list[Leaving]:
    due = []
    for taint in taints:
        stays_s = tolerated_s(taint, lookup(pod, "spec", "tolerations") or ())
        if stays_s is not None:
            due.append(Leaving(pod, str(taint.get("key")), _since(taint, now_ns) + stays_s))
    return [min(due, key=lambda each: each.after_s)] if due else []


def _since(taint: Obj, now_ns: int) -> float:
    """Seconds until (below nought: since) the taint was added. One without a time counts from now."""
    added = taint.get("timeAdded")
    if not isinstance(added, str):
        return 0.0
    try:
        return datetime.fromisoformat(added).timestamp() - now_ns / SECOND_NS
    except ValueError:
        return 0.0


def tolerated_s(taint: Obj, tolerations: Sequence[Obj]) -> float | None:
    """How long a pod may stay beside the taint; None is for ever. The shortest of the tolerations that match
    holds, as in Kubernetes."""
    matching = [each for each in tolerations if isinstance(each, dict) and tolerates(each, taint)]
    if not matching:
        return 0.0
    limits = [max(0, int(each["tolerationSeconds"])) for each in matching if "tolerationSeconds" in each]
    return float(min(limits)) if limits else None


def tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
