"""Pods that a NoExecute taint drives away, when, and what is written on them before they go. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from fathom.control.plan import Patch, target
from fathom.model.conditions import DISRUPTION_TARGET, conditions_of, is_true, set_condition
from fathom.model.objects import Obj, is_deleting, lookup

SECOND_NS = 1_000_000_000
EMPTY: Mapping[str, int] = {}
# Kubernetes' taint with which people say that a machine is off.
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class Leaving(msgspec.Struct, frozen=True):
    """`after_s`: None while it tolerates everything for good; nought or less is now."""

    pod: Obj
    taint: str
    after_s: float


def leaving(
    node: Obj, pods: Sequence[Obj], *, now_ns: int, heard: Mapping[str, int] = EMPTY
) -> list[Leaving]:
    """Everybody who has to go, soonest first. `heard`: since when taints are known, by mark, for those that
    do not say when they were added."""
    taints = no_execute(node)
    found = [
        one
        for pod in pods
        if taints and not is_deleting(pod) and lookup(pod, "status", "phase") not in {"Succeeded", "Failed"}
        for one in _first(pod, taints, heard, now_ns)
    ]
    return sorted(found, key=lambda each: each.after_s)


def marks(going: Sequence[Leaving], *, now: str) -> tuple[Patch, ...]:
    """Why each goes is written on it: a Job may say that such an end is no failure."""
    return tuple(_mark(each, now) for each in going if not is_true(each.pod, DISRUPTION_TARGET))


def _mark(going: Leaving, now: str) -> Patch:
    message = f"Taint manager: deleting due to NoExecute taint {going.taint}"
    said = set_condition(
        conditions_of(going.pod),
        type=DISRUPTION_TARGET,
        status="True",
        reason="DeletionByTaintManager",
        message=message,
        now=now,
    )
    written = {"status": {"conditions": said}}
    return Patch(target("Pod", going.pod), written, subresource="status", destructive=True)


def no_execute(node: Obj) -> list[Obj]:
    return [
        each
        for each in lookup(node, "spec", "taints") or ()
        if isinstance(each, dict) and each.get("effect") == "NoExecute"
    ]


def mark_of(taint: Obj) -> str:
    return f"{taint.get('key')}={taint.get('value') or ''}"


def _first(pod: Obj, taints: Sequence[Obj], heard: Mapping[str, int], now_ns: int) -> list[Leaving]:
    due = []
    for taint in taints:
        stays_s = tolerated_s(taint, lookup(pod, "spec", "tolerations") or ())
        if stays_s is not None:
            added_ns = _moment_ns(taint.get("timeAdded")) or heard.get(mark_of(taint), now_ns)
            # Who was put beside a taint that was there already has its whole time, as in Kubernetes.
            since_ns = max(added_ns, _placed_ns(pod))
            due.append(Leaving(pod, str(taint.get("key")), (since_ns - now_ns) / SECOND_NS + stays_s))
    return [min(due, key=lambda each: each.after_s)] if due else []


def _placed_ns(pod: Obj) -> int:
    placed = next((one for one in conditions_of(pod) if one.get("type") == "PodScheduled"), {})
    return _moment_ns(placed.get("lastTransitionTime")) if placed.get("status") == "True" else 0


def _moment_ns(text: object) -> int:
    """Nought where nobody can tell."""
    if not isinstance(text, str):
        return 0
    try:
        return int(datetime.fromisoformat(text).timestamp()) * SECOND_NS
    except ValueError:
        return 0


def tolerated_s(taint: Obj, tolerations: Sequence[Obj]) -> float | None:
    """How long a pod may stay beside the taint; None is for ever. The first toleration that matches counts,
    as in Kubernetes."""
    first = next((each for each in tolerations if isinstance(each, dict) and tolerates(each, taint)), None)
    if first is None:
        return 0.0
    limit = first.get("tolerationSeconds")
    return None if limit is None else float(max(0, int(limit)))


def tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
