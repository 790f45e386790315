"""SchedulerOverride: a temporary change that an operator requests, with target, reason and expiry. All
processes use one predicate for whether it is active, also while the store cannot be reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from fathom.kinds import override_changes
from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.override_changes import (
    CHANGES,
    EVERYWHERE,
    HOUR_NS,
    INFRASTRUCTURE_TARGETS,
    WORKLOAD_TARGETS,
    effective_changes,
)
from fathom.kinds.override_stamps import (
    spec_hash,
    status_at_approval,
    status_at_create,
    status_at_status_update,
    status_at_update,
)
from fathom.kinds.override_validation import validate, validate_update
from fathom.kinds.schema import KEEPS_UNKNOWN_FIELDS, REQUIRED, Count, Name, Time, field_schema, one_of
from fathom.kinds.shape import Conditions, Meta, Shape
from fathom.kinds.traffic_route import WEIGHT_MAX
from fathom.model.column import Column
from fathom.model.objects import Obj, labels_of, metadata
from fathom.model.times import duration_ns, moment_ns
from fathom.model.well_known import (
    HOSTNAME_LABEL,
    POOL_LABEL,
    REGION_LABEL,
    USER_PRIORITY_MAX,
    USER_PRIORITY_MIN,
    ZONE_LABEL,
)

USED_OVERRIDES = "fathom.dev/overrides"  # On a bound pod: the overrides that its placement uses.

NODE_CLASS_LABEL = "fathom.dev/node-class"
APPROVAL_LAPSES_NS = HOUR_NS  # What nobody has approved by then is no longer the answer to the incident.
Weight = Annotated[int, field_schema(minimum=0, maximum=WEIGHT_MAX)]
TARGET_LABELS = {"region": REGION_LABEL, "zone": ZONE_LABEL, "node": HOSTNAME_LABEL, "pool": POOL_LABEL}


def _about(change: str, **keywords: Any) -> msgspec.Meta:
    """What `kubectl explain` says of the change: its row of the table."""
    return field_schema(CHANGES[change].explained, **keywords)


class Changes(Shape, frozen=True):
    """Closed: fathom's server refuses unknown changes, rather than accept what no component carries out."""

    pause_autoscaler: Annotated[bool, _about("pauseAutoscaler")] = False
    pause_rollout: Annotated[bool, _about("pauseRollout")] = False
    pause_repair: Annotated[bool, _about("pauseRepair")] = False
    pause_expansion: Annotated[bool, _about("pauseExpansion")] = False
    avoid_zones: Annotated[tuple[Name, ...], _about("avoidZones")] = ()
    avoid_nodes: Annotated[tuple[Name, ...], _about("avoidNodes")] = ()
    avoid_node_classes: Annotated[tuple[Name, ...], _about("avoidNodeClasses")] = ()
    avoid_pools: Annotated[tuple[Name, ...], _about("avoidPools")] = ()
    # Node label -> values.
    avoid_topology: Annotated[dict[str, tuple[Name, ...]], _about("avoidTopology")] = msgspec.field(
        default_factory=dict
    )
    allow_reserved_capacity_class: Annotated[Name, _about("allowReservedCapacityClass")] = ""
    # Absent: all pods of the target.
    reserved_replicas: Annotated[Count | None, _about("reservedReplicas")] = None
    # As far as a PriorityClass of a user may: those of the system stay ahead.
    raise_priority: Annotated[
        int | None, _about("raisePriority", minimum=USER_PRIORITY_MIN, maximum=USER_PRIORITY_MAX)
    ] = None
    cordon: Annotated[bool, _about("cordon")] = False
    drain: Annotated[bool, _about("drain")] = False
    approve_repairs: Annotated[tuple[Name, ...], _about("approveRepairs")] = ()
    # Region or pool -> weight.
    traffic_weights: Annotated[dict[str, Weight], _about("trafficWeights")] = msgspec.field(
        default_factory=dict
    )
    break_glass_role: Annotated[Name, _about("breakGlassRole")] = ""


class OverrideSpec(Shape, frozen=True):
    target: Annotated[
        Name,
        field_schema(
            "workload/NAME (or deployment/, replicaset/, job/), node/, zone/ or pool/NAME.", required=True
        ),
    ] = ""
    scope: Annotated[
        str,
        field_schema(
            "Where it applies; must be set: region/, zone/, node/ or pool/NAME, or cluster: everywhere."
        ),
    ] = ""
    reason: Annotated[
        str, field_schema("Why the override is needed.", required=True, minLength=1, maxLength=1024)
    ] = ""
    expires_after: Annotated[
        Name,
        field_schema("How long it lasts, such as 45m; each control class has a maximum.", required=True),
    ] = ""
    on_end: Annotated[
        str,
        one_of("keep", "move"),
        field_schema(
            "What becomes of pods that it placed: they stay (keep, the default), or are evicted (move)."
        ),
    ] = ""
    # Unknown changes reach `validate`, which refuses them: dropping one would accept what is never done.
    changes: Annotated[
        Changes, field_schema("What it changes: one thing at least.", required=True), KEEPS_UNKNOWN_FIELDS
    ] = Changes()


class Acknowledgement(Shape, frozen=True):
    controller: Annotated[str, REQUIRED] = ""
    state: Annotated[str, one_of("Honoring", "Declined")] = ""
    reason: str = ""
    observed_generation: Count = 0
    cache_revision: Annotated[
        Count, field_schema("The revision that its cache of overrides had reached.")
    ] = 0
    epoch: Annotated[Count, field_schema("The leader term of the acknowledger; absent without a lease.")] = 0
    time: Time = ""


class ChangeState(Shape, frozen=True):
    """What became of one change."""

    name: Annotated[str, REQUIRED] = ""
    state: Annotated[str, one_of("InForce", "NoMatch", "Declined")] = ""
    reason: str = ""
    message: str = ""


class BlastRadius(Shape, frozen=True):
    """How much the override concerns, counted by the server when its spec was written or approved."""

    pods: Count = 0
    nodes: Count = 0
    tenants: Count = 0
    zone_percent: Annotated[Count, field_schema("The largest share of one zone's nodes that it takes.")] = 0
    below_minimum: Annotated[
        Count, field_schema("Workloads left with fewer replicas than their minimum.")
    ] = 0


class OverrideApproval(Shape, frozen=True):
    required: bool = False
    approved: bool | None = None
    approver: str = ""
    approved_at: Time = ""
    spec_hash: Annotated[
        str, field_schema("The hash of the spec that waits for approval, or that was approved or refused.")
    ] = ""
    requested_at: Annotated[Time, field_schema("Since when it waits. After an hour it lapses.")] = ""
    requested_by: Annotated[
        tuple[str, ...], field_schema("Who wrote the spec: they may not approve it.")
    ] = ()


class Residue(Shape, frozen=True):
    """An effect that is left after the end."""

    effect: Annotated[str, REQUIRED] = ""  # placement, account, reservation, taint, route, role, token, hold.
    object: str = ""
    message: str = ""


class Effect(Shape, frozen=True):
    """An object that the override controller changes for the override, recorded before it is changed; or one
    that carries the override's mark, recorded when it was seen."""

    effect: Annotated[str, REQUIRED] = ""
    object: str = ""
    uid: Annotated[str, field_schema("UID of the object.")] = ""
    field: Annotated[str, field_schema("What of it is the override's; absent: all of it.")] = ""


class OverrideStatus(Shape, frozen=True):
    author: Annotated[str, field_schema("Who created it. Set by the server.")] = ""
    author_impersonated_by: Annotated[
        str, field_schema("Who created it in the author's name. Set by the server.")
    ] = ""
    expires_at: Annotated[Time | None, field_schema("When it ends. Set by the server.")] = None
    observed_generation: Count = 0
    active: Annotated[
        bool, field_schema("All affected controllers have observed this generation, and it has not ended.")
    ] = False
    affected_controllers: tuple[str, ...] = ()
    acknowledgements: tuple[Acknowledgement, ...] = ()
    changes: tuple[ChangeState, ...] = ()
    blast_radius: BlastRadius | None = None
    approval: OverrideApproval | None = None
    extensions: Annotated[Count, field_schema("How often its end was put off. Counted by the server.")] = 0
    effects: Annotated[
        tuple[Effect, ...],
        field_schema("Objects changed for it: the end undoes them, and the proof checks them."),
    ] = ()
    residue: tuple[Residue, ...] = ()
    conditions: Conditions = ()


class SchedulerOverride(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[OverrideSpec, REQUIRED] = OverrideSpec()
    status: OverrideStatus = OverrideStatus()


# 'workload/risk-api', parsed.
Named = override_changes.Named
named = override_changes.named


def changes_of(override: SchedulerOverride) -> tuple[str, ...]:
    """Names of the changes that it makes, in the order of the table."""
    return effective_changes(msgspec.to_builtins(override.spec.changes))


def approval_given(override: SchedulerOverride) -> bool:
    """Whether it needs no approval, or somebody has approved the spec that it has now."""
    asked = override.status.approval
    if asked is None or not asked.required:
        return True
    return asked.approved is True and asked.spec_hash == spec_hash(msgspec.to_builtins(override.spec))


def expiry_ns(override: SchedulerOverride) -> int | None:
    """When the override ends: as stamped by the server, else from its creation (not every server stamps). One
    that waits for approval ends when the wait does."""
    stamped, asked = moment_ns(override.status.expires_at), override.status.approval
    if asked is not None and not approval_given(override):
        requested = moment_ns(asked.requested_at)
        lapses = None if requested is None else requested + APPROVAL_LAPSES_NS
        return min((end for end in (stamped, lapses) if end is not None), default=None)
    if stamped is not None:
        return stamped
    created, lasts = moment_ns(override.metadata.creation_timestamp), duration_ns(override.spec.expires_after)
    return None if created is None or lasts is None else created + lasts


def override_active(override: SchedulerOverride, now_ns: int) -> bool:
    """THE predicate. An override without a known end is not active: every override must be bounded. Nor is
    one whose approval is missing."""
    expires_ns = expiry_ns(override)
    if expires_ns is None or now_ns >= expires_ns or override.metadata.deletion_timestamp:
        return False
    return approval_given(override)


def workloads_of(pod: Obj) -> tuple[str, ...]:
    """Names of a pod's workload: that of its controller, and of the Deployment behind a ReplicaSet (which is
    named after it and the pods' template). A pod without a controller is its own workload."""
    owner = _controller(pod)
    if owner is None:
        return (str(metadata(pod).get("name") or ""),)
    name = str(owner.get("name") or "")
    template_hash = labels_of(pod).get("pod-template-hash")
    deployment = name.removesuffix(f"-{template_hash}") if template_hash else name
    return (name,) if deployment == name else (name, deployment)


def targets_pod(override: SchedulerOverride, pod: Obj) -> bool:
    """Whether a workload override targets the pod's workload. (The scope says *where* it applies.)"""
    target = named(override.spec.target)
    if target is None or target.kind not in WORKLOAD_TARGETS:
        return False
    if metadata(pod).get("namespace") != override.metadata.namespace:
        return False
    return names_workload(target, workloads_of(pod), str((_controller(pod) or {}).get("kind") or ""))


def names_workload(target: Named, names: tuple[str, ...], owner_kind: str) -> bool:
    """Whether a target is one of a pod's workloads, as `workloads_of` names them: its controller, of this
    kind, and the Deployment behind it. A pod without a controller has no kind: it is any target of its
    name."""
    if target.name not in names:
        return False
    if target.kind == "workload" or not owner_kind:
        return True
    kinds = (owner_kind.lower(), "deployment")
    return (target.kind, target.name) in zip(kinds, names, strict=False)


def _controller(obj: Obj) -> Obj | None:
    references = metadata(obj).get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def scope_includes(scope: str, node_labels: Mapping[str, str]) -> bool:
    """Whether a node is in an override's scope. A scope that cannot be parsed includes nothing."""
    if scope in {"", EVERYWHERE}:
        return True
    place = named(scope)
    return (
        place is not None
        and place.kind in TARGET_LABELS
        and node_labels.get(TARGET_LABELS[place.kind]) == place.name
    )


def cordons(override: SchedulerOverride, node: str, labels: Mapping[str, str]) -> bool:
    """Whether the override keeps every pod off the node, which must be in its scope too. Without a hostname
    label, the node's name counts."""
    target, changes = named(override.spec.target), override.spec.changes
    if target is None or target.kind not in INFRASTRUCTURE_TARGETS or not (changes.cordon or changes.drain):
        return False
    return target_includes(target, node, labels) and scope_includes(override.spec.scope, labels)


def target_includes(target: Named, node: str, labels: Mapping[str, str]) -> bool:
    """Whether a target of infrastructure is the node, or its zone or pool."""
    return target.name in {labels.get(TARGET_LABELS[target.kind]), node if target.kind == "node" else None}


def avoids(override: SchedulerOverride, node: str, labels: Mapping[str, str]) -> bool:
    """Whether the workload that it targets must avoid the node."""
    changes = override.spec.changes
    listed = {
        ZONE_LABEL: changes.avoid_zones,
        HOSTNAME_LABEL: changes.avoid_nodes,
        NODE_CLASS_LABEL: changes.avoid_node_classes,
        POOL_LABEL: changes.avoid_pools,
        **changes.avoid_topology,
    }
    on_avoided_node = node in changes.avoid_nodes or any(
        labels.get(label) in values for label, values in listed.items()
    )
    return on_avoided_node and scope_includes(override.spec.scope, labels)


DEFINITION = KindDefinition(
    shape=SchedulerOverride,
    plural="scheduleroverrides",
    namespaced=True,
    approval=True,
    short_names=("sov",),
    columns=(
        Column("Target", "string", ".spec.target"),
        Column(
            "Changes", "string", "=override_changes", "What it changes.", json_path=".status.changes[*].name"
        ),
        Column("Owner", "string", ".status.author"),
        Column(
            "Expires",
            "string",
            "=override_expires",
            "How long it lasts yet.",
            json_path=".status.expiresAt",
        ),
        Column("Ack", "string", "=override_acks", "How many of the affected controllers honour it."),
        Column("State", "string", "=override_state", "Its state.", json_path=".status.active"),
        Column("Scope", "string", ".spec.scope", priority=1),
        Column("Reason", "string", ".spec.reason", priority=1),
    ),
    selectable=("spec.target",),
    rules=Rules(
        validate_create=validate,
        validate_update=validate_update,
        status_at_create=status_at_create,
        status_at_update=status_at_update,
        status_at_status_update=status_at_status_update,
        status_at_approval=status_at_approval,
    ),
    view_role_reads=True,
    admin_role_writes=True,
)
OVERRIDES = DEFINITION.resource
