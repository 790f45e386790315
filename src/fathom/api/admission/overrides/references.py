"""What an override names: a target that is ambiguous is refused, a name that nothing has is warned of.

Names of nothing are accepted, because what they name may come: a zone whose nodes are all gone is still to be
avoided when they return.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fathom.api.auth.rbac import CLUSTER_ROLES
from fathom.kinds.capacity_class import CAPACITY_CLASSES
from fathom.kinds.override_changes import EVERYWHERE, WORKLOAD_TARGETS, Named, named
from fathom.kinds.override_scope import controller_name
from fathom.kinds.repair_proposal import PROPOSALS
from fathom.kinds.scheduler_override import NODE_CLASS_LABEL, SchedulerOverride, scope_includes
from fathom.model import causes
from fathom.model.causes import quoted
from fathom.model.errors import Cause
from fathom.model.objects import Key
from fathom.model.view import View
from fathom.model.well_known import HOSTNAME_LABEL, POOL_LABEL, REGION_LABEL, ZONE_LABEL

# What a target says -> the kind, and its resource.
WORKLOADS = {
    "deployment": ("Deployment", "deployments.apps"),
    "job": ("Job", "jobs.batch"),
    "replicaset": ("ReplicaSet", "replicasets.apps"),
}

Nodes = Mapping[str, Mapping[str, str]]  # Labels, by name.


def ambiguity(override: SchedulerOverride, view: View) -> list[Cause]:
    """A cause if `workload/NAME` is the name of several workloads."""
    target = named(override.spec.target)
    if target is None or target.kind != "workload":
        return []
    matches = [kind for kind in WORKLOADS if _exists(kind, target.name, override.metadata.namespace, view)]
    if len(matches) < 2:
        return []
    kinds = " and a ".join(WORKLOADS[kind][0] for kind in matches)
    choices = " or ".join(f"{kind}/{target.name}" for kind in matches)
    return [causes.invalid("spec.target", override.spec.target, f"a {kinds} have this name: say {choices}")]


def _exists(kind: str, name: str, namespace: str, view: View) -> bool:
    return view.get(WORKLOADS[kind][1], Key(namespace, name)) is not None


def deployments_behind(overrides: Iterable[SchedulerOverride], view: View) -> dict[tuple[str, str], str]:
    """(namespace, ReplicaSet) -> Deployment, for those that the overrides target."""
    deployments = {}
    for override in overrides:
        target, namespace = named(override.spec.target), override.metadata.namespace
        if target is None or target.kind not in {"replicaset", "workload"}:
            continue
        seen = view.get(WORKLOADS["replicaset"][1], Key(namespace, target.name))
        owner = None if seen is None else controller_name(seen.obj)
        if owner is not None and owner.kind == "deployment":
            deployments[namespace, target.name] = owner.name
    return deployments


def names_of_nothing(override: SchedulerOverride, nodes: Nodes, view: View) -> list[str]:
    """A warning for each target, place, class, role and proposal that does not exist."""
    return [
        *_target(override, nodes, view),
        *_places(override, nodes),
        *_objects(override, view),
    ]


def _target(override: SchedulerOverride, nodes: Nodes, view: View) -> Iterator[str]:
    target, namespace = named(override.spec.target), override.metadata.namespace
    if target is None:
        return
    if target.kind in WORKLOAD_TARGETS:
        kinds = tuple(WORKLOADS) if target.kind == "workload" else (target.kind,)
        # A pod without a controller is its own workload.
        is_pod = target.kind == "workload" and view.get("pods", Key(namespace, target.name)) is not None
        if not is_pod and not any(_exists(kind, target.name, namespace, view) for kind in kinds):
            yield f"spec.target: namespace {quoted(namespace)} has no {target.kind} {quoted(target.name)}"
    elif not _is_place(target, nodes):
        yield f"spec.target: there is no {target.kind} {quoted(target.name)}"


def _is_place(place: Named, nodes: Nodes) -> bool:
    scope = f"{place.kind}/{place.name}"
    by_name = place.kind == "node" and place.name in nodes
    return by_name or any(scope_includes(scope, labels) for labels in nodes.values())


def _places(override: SchedulerOverride, nodes: Nodes) -> Iterator[str]:
    spec, changes = override.spec, override.spec.changes
    scope = named(spec.scope)
    if spec.scope != EVERYWHERE and scope is not None and not _is_place(scope, nodes):
        yield f"spec.scope: no node is in {spec.scope}"
    avoided: tuple[tuple[str, str, Iterable[str]], ...] = (
        ("avoidZones", ZONE_LABEL, changes.avoid_zones),
        ("avoidNodeClasses", NODE_CLASS_LABEL, changes.avoid_node_classes),
        ("avoidPools", POOL_LABEL, changes.avoid_pools),
        *(("avoidTopology", label, values) for label, values in changes.avoid_topology.items()),
    )
    for change, label, values in avoided:
        known = {labels.get(label) for labels in nodes.values()}
        for value in values:
            if value not in known:
                yield f"spec.changes.{change}: no node has the label {label}={value}"
    hosts = {labels.get(HOSTNAME_LABEL) for labels in nodes.values()}
    for node in changes.avoid_nodes:
        if node not in nodes and node not in hosts:
            yield f"spec.changes.avoidNodes: there is no node {quoted(node)}"
    places = (REGION_LABEL, ZONE_LABEL, POOL_LABEL)
    routed = {labels.get(label) for labels in nodes.values() for label in places}
    for place in changes.traffic_weights:
        if place not in routed:
            yield f"spec.changes.trafficWeights: no node is in a region, zone or pool {quoted(place)}"


def _objects(override: SchedulerOverride, view: View) -> Iterator[str]:
    changes, namespace = override.spec.changes, override.metadata.namespace
    capacity_class = (changes.allow_reserved_capacity_class,)
    wanted = (
        ("allowReservedCapacityClass", "CapacityClass", CAPACITY_CLASSES, "", capacity_class),
        ("breakGlassRole", "ClusterRole", CLUSTER_ROLES, "", (changes.break_glass_role,)),
        ("approveRepairs", "RepairProposal", PROPOSALS, namespace, changes.approve_repairs),
    )  # fmt: skip
    for change, kind, resource, where, names in wanted:
        for name in names:
            if name and view.get(resource, Key(where, name)) is None:
                yield f"spec.changes.{change}: there is no {kind} {quoted(name)}"
