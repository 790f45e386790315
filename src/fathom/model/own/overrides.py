"""SchedulerOverride: what people have asked for, for whom, why and until when. One predicate says whether it
holds; everyone asks that one, also where the store cannot be reached."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fathom.model.objects import Obj, labels_of, metadata
from fathom.model.own.shape import Condition, Meta, Shape
from fathom.model.own.times import duration_ns, moment_ns

OVERRIDES = "scheduleroverrides.fathom.dev"
USED_OVERRIDES = "fathom.dev/overrides"  # On a bound pod: the overrides that its placement rests on.

WORKLOAD_TARGETS = ("workload", "deployment", "replicaset", "job")
INFRASTRUCTURE_TARGETS = ("node", "zone", "pool")
TARGETS = (*WORKLOAD_TARGETS, *INFRASTRUCTURE_TARGETS)
SCOPES = ("region", "zone", "node", "pool")

REGION_LABEL, ZONE_LABEL = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
HOST_LABEL = "kubernetes.io/hostname"
POOL_LABEL = "fathom.dev/pool"
NODE_CLASS_LABEL = "fathom.dev/node-class"
_LABELS = {"region": REGION_LABEL, "zone": ZONE_LABEL, "node": HOST_LABEL, "pool": POOL_LABEL}

# Every change belongs to one control class; a class bounds how long its changes may last.
PAUSE, PLACEMENT, QUOTA, CORDON = "pause", "placement", "quota", "cordon"
REPAIR, TRAFFIC, BREAK_GLASS = "repair", "traffic", "break-glass"

CONTROL_CLASSES: dict[str, str] = {
    "pauseAutoscaler": PAUSE,
    "pauseRollout": PAUSE,
    "pauseRepair": PAUSE,
    "pauseExpansion": PAUSE,
    "avoidZones": PLACEMENT,
    "avoidNodes": PLACEMENT,
    "avoidNodeClasses": PLACEMENT,
    "avoidPools": PLACEMENT,
    "avoidTopology": PLACEMENT,
    "allowReservedCapacityClass": QUOTA,
    "reservedReplicas": QUOTA,
    "cordon": CORDON,
    "drain": CORDON,
    "approveRepairs": REPAIR,
    "trafficWeights": TRAFFIC,
    "breakGlassRole": BREAK_GLASS,
}

_HOUR_NS = 3600 * 1_000_000_000

# Long enough for the incident, short enough that the next week does not inherit it.
EXPIRY_NS_MAX: dict[str, int] = {
    PAUSE: 24 * _HOUR_NS,
    PLACEMENT: 7 * 24 * _HOUR_NS,
    QUOTA: 24 * _HOUR_NS,
    CORDON: 7 * 24 * _HOUR_NS,
    REPAIR: 4 * _HOUR_NS,
    TRAFFIC: 24 * _HOUR_NS,
    BREAK_GLASS: 1 * _HOUR_NS,
}


class Changes(Shape, frozen=True):
    """Closed: a server of ours refuses what is not here, rather than accept what nobody carries out."""

    pause_autoscaler: bool = False
    pause_rollout: bool = False
    pause_repair: bool = False
    pause_expansion: bool = False
    avoid_zones: tuple[str, ...] = ()
    avoid_nodes: tuple[str, ...] = ()
    avoid_node_classes: tuple[str, ...] = ()
    avoid_pools: tuple[str, ...] = ()
    avoid_topology: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)  # Node label -> values.
    allow_reserved_capacity_class: str = ""
    reserved_replicas: int | None = None  # How many pods may use it; absent: all of the target's.
    cordon: bool = False
    drain: bool = False
    approve_repairs: tuple[str, ...] = ()
    traffic_weights: dict[str, int] = msgspec.field(default_factory=dict)  # Region or pool -> weight.
    break_glass_role: str = ""


class OverrideSpec(Shape, frozen=True):
    target: str = ""  # 'workload/risk-api'
    scope: str = ""  # 'region/eu-west'; everywhere where absent.
    reason: str = ""
    expires_after: str = ""  # '45m'
    changes: Changes = Changes()


class Acknowledgement(Shape, frozen=True):
    controller: str = ""
    state: str = ""  # Honoring, Declined.
    reason: str = ""
    observed_generation: int = 0


class OverrideStatus(Shape, frozen=True):
    author: str = ""  # Stamped by the server, as is the expiry: no writer of status changes them.
    expires_at: str | None = None
    observed_generation: int = 0
    active: bool = False
    affected_controllers: tuple[str, ...] = ()
    acknowledgements: tuple[Acknowledgement, ...] = ()
    conditions: tuple[Condition, ...] = ()


class SchedulerOverride(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: OverrideSpec = OverrideSpec()
    status: OverrideStatus = OverrideStatus()


class Named(msgspec.Struct, frozen=True):
    """'workload/risk-api' taken apart."""

    kind: str
    name: str


def named(text: str) -> Named | None:
    kind, slash, name = text.partition("/")
    return Named(kind, name) if slash and kind and name else None


def expiry_ns(override: SchedulerOverride) -> int | None:
    """When it ends: as the server stamped it, else from its creation (a server that stamps nothing)."""
    stamped = moment_ns(override.status.expires_at)
    if stamped is not None:
        return stamped
    created, lasts = moment_ns(override.metadata.creation_timestamp), duration_ns(override.spec.expires_after)
    return None if created is None or lasts is None else created + lasts


def override_active(override: SchedulerOverride, now_ns: int) -> bool:
    """THE predicate. One whose end nobody can tell is not active: an override is bounded or it is nothing."""
    expires_ns = expiry_ns(override)
    return expires_ns is not None and now_ns < expires_ns and not override.metadata.deletion_timestamp


def workloads_of(pod: Obj) -> tuple[str, ...]:
    """Names by which a pod's workload may be called: that of its controller, and of the Deployment behind a
    ReplicaSet (which is named after it and the pods' template). A pod without a controller is its own."""
    meta = metadata(pod)
    owner = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), None)
    if owner is None:
        return (str(meta.get("name") or ""),)
    name = str(owner.get("name") or "")
    hashed = labels_of(pod).get("pod-template-hash")
    behind = name.removesuffix(f"-{hashed}") if hashed else name
    return (name,) if behind == name else (name, behind)


def targets_pod(override: SchedulerOverride, pod: Obj) -> bool:
    """Whether a workload override is about the pod's workload. (What it does *where* is the scope's.)"""
    target = named(override.spec.target)
    if target is None or target.kind not in WORKLOAD_TARGETS:
        return False
    same = metadata(pod).get("namespace") == override.metadata.namespace
    return same and target.name in workloads_of(pod)


def scope_includes(scope: str, node_labels: Mapping[str, str]) -> bool:
    """Whether a node lies where an override holds. A scope that cannot be read includes nothing."""
    if not scope:
        return True
    place = named(scope)
    return place is not None and place.kind in _LABELS and node_labels.get(_LABELS[place.kind]) == place.name


def cordons(override: SchedulerOverride, node: str, labels: Mapping[str, str]) -> bool:
    """Whether it keeps every pod off the node. A node without the label is its own host."""
    target, changes = named(override.spec.target), override.spec.changes
    if target is None or target.kind not in INFRASTRUCTURE_TARGETS or not (changes.cordon or changes.drain):
        return False
    places = {labels.get(_LABELS[target.kind]), node if target.kind == "node" else None}
    return target.name in places


def avoids(override: SchedulerOverride, node: str, labels: Mapping[str, str]) -> bool:
    """Whether the workload that it targets is to stay off the node."""
    changes = override.spec.changes
    listed = {
        ZONE_LABEL: changes.avoid_zones,
        HOST_LABEL: changes.avoid_nodes,
        NODE_CLASS_LABEL: changes.avoid_node_classes,
        POOL_LABEL: changes.avoid_pools,
        **changes.avoid_topology,
    }
    there = node in changes.avoid_nodes or any(
        labels.get(label) in values for label, values in listed.items()
    )
    return there and scope_includes(override.spec.scope, labels)
