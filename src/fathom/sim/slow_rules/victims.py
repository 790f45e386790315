"""Which pods leave a node for a pod of higher priority, and which budgets that breaks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fathom.model.objects import Obj, is_deleting, lookup, uid_of
from fathom.model.selectors import LabelSelector
from fathom.model.times import moment_ns
from fathom.schedule.decide.context import PlacementContext
from fathom.sim.slow_rules.cluster import Cluster, labels, namespace
from fathom.sim.slow_rules.filters import first_reason

LONELY = ("node(s) didn't match pod affinity rules",)  # It comes beside no friend because others go.


def victims(
    pod: Obj,
    tenant: str,
    node: str,
    cluster: Cluster,
    world: PlacementContext,
    *,
    budgets: Sequence[Obj] = (),
) -> list[Obj] | None:
    """The most important first; None where even without all pods of lower priority it does not fit. A pod
    whose eviction would break a budget stays before one whose would not, whatever their priorities."""
    lower = sorted((other for other in cluster.on(node) if priority(other) < priority(pod)), key=importance)
    gone = list(lower)

    def fits() -> bool:
        left = cluster.without(gone)
        return not first_reason(pod, tenant, left.nodes[node], left, world)

    if not lower or not fits():
        return None
    breaking = breaks_a_budget(lower, budgets)
    for other in sorted(lower, key=lambda other: uid_of(other) not in breaking):
        gone.remove(other)
        if not fits():
            gone.append(other)
    return sorted(gone, key=importance)


def would_help(pod: Obj, tenant: str, node: str, cluster: Cluster, world: PlacementContext) -> bool:
    """Whether the pod would fit on the node without all pods of lower priority, of which there are some."""
    lower = [other for other in cluster.on(node) if priority(other) < priority(pod)]
    if not lower or first_reason(pod, tenant, cluster.nodes[node], cluster, world) == LONELY:
        return False
    left = cluster.without(lower)
    return not first_reason(pod, tenant, left.nodes[node], left, world)


def still_leaving(pod: Obj, node: str, cluster: Cluster) -> list[Obj]:
    """Pods of lower priority that are being deleted there. None where the node itself is gone: nobody waits
    for it any more."""
    if node not in cluster.nodes:
        return []
    lower = [other for other in cluster.on(node) if priority(other) < priority(pod)]
    return [other for other in lower if is_deleting(other)]


def priority(pod: Obj) -> int:
    return int(pod["spec"].get("priority") or 0)


def importance(pod: Obj) -> tuple[int, float, str]:
    began_ns = moment_ns(lookup(pod, "status", "startTime"))
    return (-priority(pod), began_ns or math.inf, uid_of(pod))


def breaks_a_budget(lower: list[Obj], budgets: Sequence[Obj]) -> set[str]:
    """UIDs of those for which a budget allows no more, when the more important ones were evicted before."""
    breaking: set[str] = set()
    left = [int(lookup(budget, "status", "disruptionsAllowed") or 0) for budget in budgets]
    for pod in lower:
        for number, budget in enumerate(budgets):
            if covers(budget, pod):
                left[number] -= 1
                if left[number] < 0:
                    breaking.add(uid_of(pod))
    return breaking


def covers(budget: Obj, pod: Obj) -> bool:
    selector = LabelSelector.from_object(lookup(budget, "spec", "selector") or {})
    counted = lookup(budget, "status", "disruptedPods") or {}
    same_space = budget["metadata"]["namespace"] == namespace(pod)
    return same_space and pod["metadata"]["name"] not in counted and selector.matches(labels(pod))
