"""How much an override concerns, counted from the objects of a view.

About a workload: its pods in the override's scope, waiting ones included. About infrastructure: the nodes
that it takes from everybody, and, if it drains them, the pods on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from fathom.kinds.scheduler_override import (
    BlastRadius,
    SchedulerOverride,
    cordons,
    scope_includes,
    targets_pod,
    workloads_of,
)
from fathom.model.conditions import find_condition
from fathom.model.objects import Key, Obj, is_deleting, labels_of, lookup, metadata
from fathom.model.pod_phase import is_terminal
from fathom.model.selectors import LabelSelector
from fathom.model.tenancy import tenant_of
from fathom.model.view import View
from fathom.model.well_known import ZONE_LABEL

BUDGETS = "poddisruptionbudgets.policy"

Labels = Mapping[str, Mapping[str, str]]  # Of nodes, by name.


def node_labels(view: View) -> dict[str, Mapping[str, str]]:
    return {str(metadata(seen.obj).get("name")): labels_of(seen.obj) for seen in view.list("nodes")}


def blast_radius(override: SchedulerOverride, view: View) -> BlastRadius:
    nodes = node_labels(view)
    taken = {name for name, labels in nodes.items() if takes(override, name, labels)}
    drained = taken if override.spec.changes.drain else set()
    pods = [*_of_workload(override, nodes, view), *_on_nodes(drained, view)]
    return BlastRadius(
        pods=len(pods),
        nodes=len(taken),
        tenants=len({_tenant(pod, view) for pod in pods}),
        zone_percent=_zone_percent(taken, nodes),
        below_minimum=_below_minimum(pods, view) if drained else 0,
    )


def takes(override: SchedulerOverride, node: str, labels: Mapping[str, str]) -> bool:
    """Whether the override takes the node from everybody."""
    return cordons(override, node, labels) and scope_includes(override.spec.scope, labels)


def _of_workload(override: SchedulerOverride, nodes: Labels, view: View) -> Iterator[Obj]:
    for seen in view.list("pods", override.metadata.namespace):
        pod = seen.obj
        if is_terminal(pod) or not targets_pod(override, pod):
            continue
        node = lookup(pod, "spec", "nodeName")
        if not node or scope_includes(override.spec.scope, nodes.get(node, {})):
            yield pod


def _on_nodes(nodes: set[str], view: View) -> Iterator[Obj]:
    if not nodes:
        return
    for seen in view.list("pods"):
        if lookup(seen.obj, "spec", "nodeName") in nodes and not is_terminal(seen.obj):
            yield seen.obj


def _tenant(pod: Obj, view: View) -> str:
    namespace = view.get("namespaces", Key("", str(metadata(pod).get("namespace") or "")))
    return tenant_of(pod, None if namespace is None else namespace.obj)


def _zone_percent(taken: Iterable[str], nodes: Labels) -> int:
    """The largest share of one zone, rounded up: one node of three hundred is more than nothing."""
    in_all = Counter(labels.get(ZONE_LABEL, "") for labels in nodes.values())
    of_taken = Counter(nodes[name].get(ZONE_LABEL, "") for name in taken)
    return max((-(-count * 100 // in_all[zone]) for zone, count in of_taken.items()), default=0)


def _below_minimum(leaving: list[Obj], view: View) -> int:
    """Workloads that would have fewer ready pods than their budget wants, or none at all, if all these pods
    left at once."""
    lost = [pod for pod in leaving if _is_ready(pod)]
    budgets = [seen.obj for seen in view.list(BUDGETS)]
    short = sum(_loses_too_many(budget, lost) for budget in budgets)
    uncovered = [pod for pod in lost if not any(_covers(budget, pod) for budget in budgets)]
    return short + len(_left_without(uncovered, view))


def _loses_too_many(budget: Obj, lost: list[Obj]) -> bool:
    return sum(_covers(budget, pod) for pod in lost) > int(
        lookup(budget, "status", "disruptionsAllowed") or 0
    )


def _left_without(lost: list[Obj], view: View) -> set[tuple[str, str]]:
    """The workloads all of whose ready pods are lost."""
    gone = Counter(_workload(pod) for pod in lost)
    if not gone:
        return set()
    namespaces = dict.fromkeys(namespace for namespace, _ in gone)
    pods = (seen.obj for namespace in namespaces for seen in view.list("pods", namespace))
    ready = Counter(_workload(pod) for pod in pods if _is_ready(pod))
    return {workload for workload, count in gone.items() if count >= ready[workload]}


def _workload(pod: Obj) -> tuple[str, str]:
    return str(metadata(pod).get("namespace") or ""), workloads_of(pod)[-1]


def _is_ready(pod: Obj) -> bool:
    ready = find_condition(lookup(pod, "status", "conditions") or (), "Ready")
    return ready is not None and ready.get("status") == "True" and not is_deleting(pod)


def _covers(budget: Obj, pod: Obj) -> bool:
    selector = lookup(budget, "spec", "selector")
    if selector is None or metadata(budget).get("namespace") != metadata(pod).get("namespace"):
        return False
    return LabelSelector.from_object(selector).matches(labels_of(pod))
