"""How much an override concerns, counted from the objects of a view.

About a workload: its pods in the override's scope, waiting ones included. About infrastructure: the nodes
that it takes from everybody, and, if it drains them, the pods on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from fathom.kinds.override_changes import WORKLOAD_TARGETS
from fathom.kinds.scheduler_override import (
    TARGET_LABELS,
    BlastRadius,
    SchedulerOverride,
    cordons,
    named,
    scope_includes,
    targets_pod,
    workloads_of,
)
from fathom.model.conditions import find_condition
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, lookup, metadata
from fathom.model.pod_phase import is_terminal
from fathom.model.resource_names import BUDGETS
from fathom.model.selectors import LabelSelector
from fathom.model.tenancy import tenant_of
from fathom.model.view import View
from fathom.model.well_known import ZONE_LABEL

Labels = Mapping[str, Mapping[str, str]]  # Of nodes, by name.


def node_labels(view: View) -> dict[str, Mapping[str, str]]:
    return {str(metadata(seen.obj).get("name")): labels_of(seen.obj) for seen in view.list("nodes")}


class Reach(msgspec.Struct, frozen=True):
    """The nodes that overrides take, and the pods that they concern, each once."""

    nodes: frozenset[str] = frozenset()
    pods: dict[Key, Obj] = {}
    drains: bool = False


def together(reaches: Sequence[Reach]) -> Reach:
    return Reach(
        frozenset().union(*(reach.nodes for reach in reaches)),
        {key: pod for reach in reaches for key, pod in reach.pods.items()},
        any(reach.drains for reach in reaches),
    )


class Reaches:
    """Counts how far overrides reach. Pods and nodes are sorted once for all of them, so that the work grows
    with the sum of overrides, pods and nodes."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._nodes = node_labels(view)
        self._of_workloads: dict[str, dict[str, list[Obj]]] = {}  # Namespace -> workload -> pods.
        self._on_nodes: dict[str, list[Obj]] | None = None
        self._targets: dict[tuple[str, str], dict[str, None]] | None = None  # (kind, name) -> nodes.

    def of(self, override: SchedulerOverride) -> Reach:
        taken = self._taken(override)
        drains = bool(taken) and override.spec.changes.drain
        drained = [pod for name in sorted(taken) for pod in self._on(name)] if drains else []
        pods = {key_of(pod): pod for pod in (*self._targeted(override), *drained)}
        return Reach(taken, pods, drains)

    def radius(self, reach: Reach) -> BlastRadius:
        pods = list(reach.pods.values())
        return BlastRadius(
            pods=len(pods),
            nodes=len(reach.nodes),
            tenants=len({_tenant(pod, self._view) for pod in pods}),
            zone_percent=_zone_percent(reach.nodes, self._nodes),
            below_minimum=_below_minimum(pods, self._view) if reach.drains else 0,
        )

    def _taken(self, override: SchedulerOverride) -> frozenset[str]:
        target = named(override.spec.target)
        listed = () if target is None else self._by_target().get((target.kind, target.name), ())
        return frozenset(name for name in listed if takes(override, name, self._nodes[name]))

    def _by_target(self) -> dict[tuple[str, str], dict[str, None]]:
        if self._targets is None:
            self._targets = {}
            for name, labels in self._nodes.items():
                values = [(kind, labels.get(label)) for kind, label in TARGET_LABELS.items()]
                for kind, value in (*values, ("node", name)):
                    if value:
                        self._targets.setdefault((kind, value), {})[name] = None
        return self._targets

    def _targeted(self, override: SchedulerOverride) -> Iterator[Obj]:
        target = named(override.spec.target)
        if target is None or target.kind not in WORKLOAD_TARGETS:
            return
        for pod in self._of(override.metadata.namespace).get(target.name, ()):
            node = lookup(pod, "spec", "nodeName")
            in_scope = not node or scope_includes(override.spec.scope, self._nodes.get(node, {}))
            if in_scope and targets_pod(override, pod):
                yield pod

    def _of(self, namespace: str) -> dict[str, list[Obj]]:
        if namespace not in self._of_workloads:
            by_workload: dict[str, list[Obj]] = {}
            self._of_workloads[namespace] = by_workload
            for seen in self._view.list("pods", namespace):
                for name in () if is_terminal(seen.obj) else workloads_of(seen.obj):
                    by_workload.setdefault(name, []).append(seen.obj)
        return self._of_workloads[namespace]

    def _on(self, node: str) -> list[Obj]:
        if self._on_nodes is None:
            self._on_nodes = {}
            for seen in self._view.list("pods"):
                if not is_terminal(seen.obj):
                    name = str(lookup(seen.obj, "spec", "nodeName") or "")
                    self._on_nodes.setdefault(name, []).append(seen.obj)
        return self._on_nodes.get(node, [])


def blast_radius(override: SchedulerOverride, view: View) -> BlastRadius:
    reaches = Reaches(view)
    return reaches.radius(reaches.of(override))


def takes(override: SchedulerOverride, node: str, labels: Mapping[str, str]) -> bool:
    """Whether the override takes the node from everybody."""
    return cordons(override, node, labels) and scope_includes(override.spec.scope, labels)


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
