"""Which pods NoExecute taints evict, when, and the condition written on them before they are deleted. Pure.

How long a pod may stay is counted from when the controller first saw the pod together with the taint, on its
own monotonic clock, as Kubernetes' taint manager does: neither a clock that is set nor a new leader evicts a
pod early.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fathom.control.plan import Patch, target
from fathom.model.conditions import DISRUPTION_TARGET, conditions_of, is_true, set_condition
from fathom.model.objects import Obj, is_deleting, lookup, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.model.times import SECOND_NS
from fathom.model.tolerations import tolerates
from fathom.model.well_known import UNREACHABLE_TAINT

EMPTY: Mapping[str, int] = {}
# Kubernetes' taint by which people declare that a machine is off.
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
# Annotation of a node by which people declare that the machine is gone.
DECLARED = "fathom.dev/declare-lost"
LOST = "fathom.dev/lost"
SILENCE = (UNREACHABLE_TAINT, LOST)  # Taints that follow from a node's silence.
# The toleration that the API server adds for unreachable nodes to pods that have none.
DEFAULT_S = 300.0

# (taint, pod's UID) -> since when we see both together.
Beside = Mapping[tuple[str, str], int]


class Eviction(msgspec.Struct, frozen=True):
    """`after_s`: 0 or less is now."""

    pod: Obj
    taint: str
    after_s: float


def beside(node: Obj, pods: Iterable[Obj], before: Beside, *, now_ns: int) -> dict[tuple[str, str], int]:
    """A taint that was removed and set again counts anew, and so does a pod that came after the taint."""
    taints = [mark_of(taint) for taint in no_execute(node)]
    pairs = [(mark, uid_of(pod)) for pod in pods for mark in taints]
    return {pair: before.get(pair, now_ns) for pair in pairs}


def leaving(
    node: Obj,
    pods: Sequence[Obj],
    since: Beside,
    *,
    now_ns: int,
    not_before: Mapping[str, int] = EMPTY,
) -> list[Eviction]:
    """All pods to evict, soonest first. `not_before`: by taint, the time before which it evicts no pod."""
    evictions = [
        eviction
        for pod in pods
        if not is_deleting(pod) and not is_terminal(pod)
        for eviction in _first_eviction(node, pod, since, not_before, now_ns)
    ]
    return sorted(evictions, key=lambda eviction: eviction.after_s)


def marks(evictions: Sequence[Eviction], *, now: str) -> tuple[Patch, ...]:
    """Writes on each pod why it is evicted: a Job may have a rule that such an end is no failure."""
    return tuple(
        _mark(eviction, now) for eviction in evictions if not is_true(eviction.pod, DISRUPTION_TARGET)
    )


def _mark(eviction: Eviction, now: str) -> Patch:
    message = f"Taint manager: deleting due to NoExecute taint {eviction.taint}"
    conditions = set_condition(
        conditions_of(eviction.pod),
        type=DISRUPTION_TARGET,
        status="True",
        reason="DeletionByTaintManager",
        message=message,
        now=now,
    )
    written = {"status": {"conditions": conditions}}
    return Patch(target("Pod", eviction.pod), written, subresource="status", destructive=True)


def no_execute(node: Obj) -> list[Obj]:
    return [
        taint
        for taint in lookup(node, "spec", "taints") or ()
        if isinstance(taint, dict) and taint.get("effect") == "NoExecute"
    ]


def mark_of(taint: Obj) -> str:
    return f"{taint.get('key')}={taint.get('value') or ''}"


def _first_eviction(
    node: Obj, pod: Obj, since: Beside, not_before: Mapping[str, int], now_ns: int
) -> list[Eviction]:
    due = []
    declared = bool((metadata(node).get("annotations") or {}).get(DECLARED))
    for taint in no_execute(node):
        stays_s = stays_beside_s(taint, lookup(pod, "spec", "tolerations") or (), declared=declared)
        if stays_s is not None:
            key = str(taint.get("key"))
            due_ns = since.get((mark_of(taint), uid_of(pod)), now_ns) + round(stays_s * SECOND_NS)
            after_ns = max(due_ns, not_before.get(key, 0)) - now_ns
            due.append(Eviction(pod, key, after_ns / SECOND_NS))
    return [min(due, key=lambda eviction: eviction.after_s)] if due else []


def stays_beside_s(taint: Obj, tolerations: Sequence[Obj], *, declared: bool = False) -> float | None:
    """A pod that asked to stay on an unreachable node for longer than the default stays on a lost one too:
    that we are more certain than Kubernetes would be is no reason to move it. An operator's declaration
    applies to all pods."""
    stays_s = tolerated_s(taint, tolerations)
    if taint.get("key") != LOST or declared or stays_s != 0.0:
        return stays_s
    unreachable_s = tolerated_s({**taint, "key": UNREACHABLE_TAINT}, tolerations)
    return unreachable_s if unreachable_s is None or unreachable_s > DEFAULT_S else stays_s


def tolerated_s(taint: Obj, tolerations: Sequence[Obj]) -> float | None:
    """How long a pod may stay with the taint; None is for ever. As in Kubernetes, the first match counts."""
    first = next(
        (
            toleration
            for toleration in tolerations
            if isinstance(toleration, dict) and tolerates(toleration, taint)
        ),
        None,
    )
    if first is None:
        return 0.0
    limit = first.get("tolerationSeconds")
    return None if limit is None else float(max(0, int(limit)))
