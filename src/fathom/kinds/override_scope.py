"""Which workloads an override targets, and where it applies. Pure; everybody who honours overrides asks here.

A *node* is in a scope if its labels say so (`scope_includes`). A *workload* is in a scope if one of its pods
is on a node in the scope; while no pod of it has a node, if any node of the cluster is in the scope.
`cluster` is everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from fathom.kinds.override_changes import EVERYWHERE, INFRASTRUCTURE_TARGETS, WORKLOAD_TARGETS
from fathom.kinds.scheduler_override import (
    SchedulerOverride,
    named,
    scope_includes,
    target_includes,
    targets_pod,
)
from fathom.model.objects import Obj, labels_of, metadata

InScope = Callable[[str], bool]  # Whether a scope includes what is being decided about.
Labels = Mapping[str, str]
# Kinds that overrides hold, in lower case -> as objects spell them.
HELD_KINDS = {kind.lower(): kind for kind in ("Pod", "Deployment", "ReplicaSet", "Job", "Node")}


class WorkloadName(NamedTuple):
    kind: str  # 'deployment': in lower case, as targets have it.
    name: str


def controller_name(obj: Obj) -> WorkloadName | None:
    """Its controller, as its owner reference says."""
    for reference in metadata(obj).get("ownerReferences") or ():
        if reference.get("controller"):
            return WorkloadName(str(reference.get("kind") or "").lower(), str(reference.get("name") or ""))
    return None


def workload_names(kind: str, obj: Obj) -> tuple[WorkloadName, ...]:
    """The object itself and its controllers, one above the other. The Deployment behind a pod's ReplicaSet is
    known by name: the ReplicaSet is named after it and the pods' template."""
    itself = WorkloadName(kind.lower(), str(metadata(obj).get("name") or ""))
    owner = controller_name(obj)
    if owner is None:
        return (itself,)
    template_hash = labels_of(obj).get("pod-template-hash")
    deployment = owner.name.removesuffix(f"-{template_hash}") if template_hash else owner.name
    if owner.kind != "replicaset" or deployment == owner.name:
        return (itself, owner)
    return (itself, owner, WorkloadName("deployment", deployment))


def targets_workload(override: SchedulerOverride, namespace: str, names: Iterable[WorkloadName]) -> bool:
    """Whether the override targets one of these, by `workload/NAME` or by the kind."""
    target = named(override.spec.target)
    if target is None or target.kind not in WORKLOAD_TARGETS or override.metadata.namespace != namespace:
        return False
    return any(target.name == name.name and target.kind in {"workload", name.kind} for name in names)


def targets_node(override: SchedulerOverride, node: str, labels: Labels) -> bool:
    """Whether the override targets the node, its zone or its pool, within the scope. A node that is gone has
    no labels: it is known by its name."""
    target = named(override.spec.target)
    if target is None or target.kind not in INFRASTRUCTURE_TARGETS:
        return False
    return target_includes(target, node, labels) and (
        not labels or scope_includes(override.spec.scope, labels)
    )


def holds(override: SchedulerOverride, kind: str, obj: Obj) -> bool:
    """Whether the override targets this object, or the workload that it belongs to. `kind` is one of
    HELD_KINDS; of the object only the metadata count."""
    meta = metadata(obj)
    if kind == "Pod":
        return targets_pod(override, obj)
    if kind == "Node":
        return targets_node(override, str(meta.get("name") or ""), labels_of(obj))
    return targets_workload(override, str(meta.get("namespace") or ""), workload_names(kind, obj))


def workload_in_scope(scope: str, own_nodes: Iterable[Labels], cluster_nodes: Iterable[Labels]) -> bool:
    """`own_nodes`: labels of the nodes that the workload's pods are on. `cluster_nodes`: of all nodes."""
    if scope in {"", EVERYWHERE}:
        return True
    own = list(own_nodes)
    return any(scope_includes(scope, labels) for labels in (own or cluster_nodes))


def grant_the_same(one: SchedulerOverride, other: SchedulerOverride) -> bool:
    """Whether both let as many pods into the same class, in the same place. Of the same pods, that is one
    grant: what is used of the one is used of the other."""
    mine, theirs = one.spec.changes, other.spec.changes
    return (
        mine.allow_reserved_capacity_class == theirs.allow_reserved_capacity_class
        and mine.reserved_replicas == theirs.reserved_replicas
        and one.spec.scope == other.spec.scope
    )
