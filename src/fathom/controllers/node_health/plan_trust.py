"""Trust in nodes, lost by failed starts: quarantines a node that answers but on which nothing starts. Pure.

Such a node is a gray failure. A failed start counts against the node when the same workload runs elsewhere:
else it is the workload's own fault. Nodes that have lost trust are chosen last; at a loss of a full hundred
the node is quarantined by a taint. The loss halves every ten minutes; the taint is removed when half of it
has come back, or when a person removes the annotation. At most a tenth of the nodes is quarantined (and
always one may be): when more seem to fail, the cause is more likely something that they share.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from fathom.cache.needs import Need, NoOlderThan
from fathom.control.ownership import controller_of
from fathom.control.plan import NOTHING, OWN_WRITES, Patch, Plan, target, write_status
from fathom.model.conditions import Status, conditions_of, find_condition, set_condition
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Obj, is_deleting, lookup, metadata
from fathom.model.trust import ANNOTATION, FULL, LostTrust, lost_of
from fathom.model.well_known import QUARANTINE_TAINT

QUARANTINED = "fathom.dev/Quarantined"
TAINT = {"key": QUARANTINE_TAINT, "effect": "NoSchedule"}

NEEDS: tuple[Need, ...] = (OWN_WRITES, NoOlderThan(FRESH_S, ("Node",)))

PER_FAILURE = 34  # Three pods at once are enough.
FORGIVEN = 50
QUARANTINED_SHARE = 10  # At most one of this many nodes.
HALF_LIFE_S = 600.0
STEP = 10  # Changes smaller than this are not written.
# A repeated crash is a failed start; the first two may be bad luck.
CRASHES = 3

# Waiting reasons of a container that its node, and not its spec, may have caused.
BLAMED = frozenset({"StartError", "RunContainerError", "CreateContainerError"})


def points_now(lost: LostTrust, *, now_ns: int) -> int:
    passed_s = max(0.0, (now_ns - lost.at_ns) / 1e9)
    return int(lost.points * 0.5 ** (passed_s / HALF_LIFE_S))


def failing(pod: Obj) -> bool:
    """Bound, and not getting to run."""
    if is_deleting(pod) or lookup(pod, "status", "phase") not in {"Pending", "Running"}:
        return False
    return any(_fails(container) for container in lookup(pod, "status", "containerStatuses") or ())


def _fails(container: Any) -> bool:
    waiting = lookup(container, "state", "waiting") or {}
    reason, restarts = str(waiting.get("reason") or ""), int(container.get("restartCount") or 0)
    if reason == "CrashLoopBackOff":
        return restarts >= CRASHES
    return reason in BLAMED


def workload(pod: Obj) -> str:
    return str((controller_of(pod) or {}).get("uid") or "")


def may_quarantine(node: Obj, nodes: Iterable[Obj], under_way: Collection[str] = ()) -> bool:
    """Whether one more node may be quarantined. `under_way`: nodes whose quarantine is not visible yet."""
    listed = {str(metadata(each).get("name")): each for each in nodes}
    quarantined = {name for name, each in listed.items() if is_quarantined(each)}
    already = quarantined.union(under_way) - {metadata(node).get("name")}
    return len(already) < max(1, len(listed) // QUARANTINED_SHARE)


def plan_trust(
    node: Obj,
    pods: Sequence[Obj],
    runs_elsewhere: Callable[[str], bool],
    *,
    now_ns: int,
    now: str,
    is_allowed: Callable[[], bool] = lambda: True,
    needs: tuple[Need, ...] = (),
) -> Plan:
    """`runs_elsewhere`: whether a workload has a ready pod on another node. `is_allowed`:
    whether this node may be quarantined, asked if it comes to that; `needs`: what must be seen before."""
    bad = [pod for pod in pods if failing(pod) and workload(pod) and runs_elsewhere(workload(pod))]
    before = lost_of(node)
    points = max(points_now(before, now_ns=now_ns), min(FULL, PER_FAILURE * len(bad)))
    quarantined = (points >= FULL and is_allowed()) or (is_quarantined(node) and points >= FORGIVEN)
    if points < STEP:
        points = 0
    moved = abs(points - before.points) >= STEP or (points == 0) != (before.points == 0)
    names = ", ".join(str(metadata(pod).get("name")) for pod in bad) or before.why
    if moved or quarantined != is_quarantined(node):
        why = f"trust lost {before.points} -> {points}: {names}"
        patch = _patched(node, LostTrust(points, now_ns, names), quarantined)
        return Plan(patches=(patch,), needs=(*NEEDS, *needs) if patch.destructive else (), why=why)
    # In a pass of its own: a status is written to the revision that was read, and the patch changes that.
    statuses = write_status("Node", node, {"conditions": _conditions(node, quarantined, before.why, now)})
    if statuses:
        why = "the node is quarantined" if quarantined else "the quarantine has ended"
        return Plan(statuses=statuses, why=why)
    if points >= FULL and not quarantined:
        return Plan(why=f"not quarantined, since enough other nodes are: {names}")
    return NOTHING


def is_quarantined(node: Obj) -> bool:
    return any(taint.get("key") == TAINT["key"] for taint in lookup(node, "spec", "taints") or ())


def _patched(node: Obj, lost: LostTrust, quarantined: bool) -> Patch:
    note = msgspec.json.encode(lost).decode() if lost.points else None
    other_taints = [
        taint for taint in lookup(node, "spec", "taints") or () if taint.get("key") != TAINT["key"]
    ]
    patch: Obj = {"metadata": {"annotations": {ANNOTATION: note}}}
    if quarantined != is_quarantined(node):
        patch["spec"] = {"taints": ([*other_taints, TAINT] if quarantined else other_taints) or None}
    return Patch(target("Node", node), patch, destructive=quarantined and not is_quarantined(node))


def _conditions(node: Obj, quarantined: bool, names: str, now: str) -> list[Obj]:
    conditions = conditions_of(node)
    condition = find_condition(conditions, QUARANTINED)
    if not quarantined and condition is None:
        return conditions
    if quarantined and condition is not None and condition.get("status") == "True":
        return conditions  # Keep the message: the pods that failed first are what people look for later.
    status: Status = "True" if quarantined else "False"
    why = f"pods fail to start here while their workloads run on other nodes: {names}" if quarantined else ""
    reason = "StartsFail" if quarantined else "Forgiven"
    return set_condition(conditions, type=QUARANTINED, status=status, reason=reason, message=why, now=now)
