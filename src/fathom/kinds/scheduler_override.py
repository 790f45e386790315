"""SchedulerOverride: a temporary change that an operator requests, with target, reason and expiry. All
processes use one predicate for whether it is active, also while the store cannot be reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from fathom.kinds import override_changes
from fathom.kinds.approval import LAPSES_NS, Approval, RequestedThrough
from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.override_changes import (
    CHANGES,
    EVERYWHERE,
    INFRASTRUCTURE_TARGETS,
    PAUSE,
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
from fathom.kinds.schema import KEEPS_UNKNOWN_FIELDS, Count, Name, Time, field_schema, one_of
from fathom.kinds.shape import Conditions, Meta, ObservedGeneration, Shape
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
Weight = Annotated[int, field_schema(minimum=0, maximum=WEIGHT_MAX)]
TARGET_LABELS = {"region": REGION_LABEL, "zone": ZONE_LABEL, "node": HOSTNAME_LABEL, "pool": POOL_LABEL}


def _about(change: str, form: str = "", **keywords: Any) -> msgspec.Meta:
    """What `kubectl explain` says of the change: its row of the table, and how its value is written."""
    return field_schema(" ".join(text for text in (CHANGES[change].explained, form) if text), **keywords)


class Changes(Shape, frozen=True):
    """Closed: fathom's server refuses unknown changes, rather than accept what no component carries out."""

    pause_autoscaler: Annotated[bool, _about("pauseAutoscaler")] = False
    pause_rollout: Annotated[bool, _about("pauseRollout")] = False
    pause_repair: Annotated[bool, _about("pauseRepair")] = False
    pause_expansion: Annotated[bool, _about("pauseExpansion")] = False
    avoid_zones: Annotated[tuple[Name, ...], _about("avoidZones", "Example: [eu-west-a].")] = ()
    avoid_nodes: Annotated[tuple[Name, ...], _about("avoidNodes", "Example: [node-1].")] = ()
    avoid_node_classes: Annotated[
        tuple[Name, ...],
        _about("avoidNodeClasses", "These are values of the node label fathom.dev/node-class."),
    ] = ()
    avoid_pools: Annotated[
        tuple[Name, ...], _about("avoidPools", "These are values of the node label fathom.dev/pool.")
    ] = ()
    avoid_topology: Annotated[
        dict[str, tuple[Name, ...]], _about("avoidTopology", "Example: {rack: [r1, r2]}.")
    ] = msgspec.field(default_factory=dict)
    allow_reserved_capacity_class: Annotated[
        Name, _about("allowReservedCapacityClass", "Its value is the name of a CapacityClass.")
    ] = ""
    reserved_replicas: Annotated[
        Count | None, _about("reservedReplicas", "Absent: all pods of the target.")
    ] = None
    # As far as a PriorityClass of a user may: those of the system stay ahead.
    raise_priority: Annotated[
        int | None,
        _about("raisePriority", "Example: 1000.", minimum=USER_PRIORITY_MIN, maximum=USER_PRIORITY_MAX),
    ] = None
    cordon: Annotated[bool, _about("cordon")] = False
    drain: Annotated[bool, _about("drain")] = False
    approve_repairs: Annotated[
        tuple[Name, ...], _about("approveRepairs", "Its value lists their names.")
    ] = ()
    traffic_weights: Annotated[
        dict[str, Weight],
        _about("trafficWeights", "Example: {eu-west: 3, eu-central: 1}."),
    ] = msgspec.field(default_factory=dict)
    break_glass_role: Annotated[
        Name, _about("breakGlassRole", "It must be the only change, and the scope cluster.")
    ] = ""


class OverrideSpec(Shape, frozen=True):
    target: Annotated[
        Name,
        field_schema(
            "What it is about: workload/NAME (or deployment/, replicaset/, job/), or in fathom-system node/,"
            " zone/ or pool/NAME. It never changes.",
            required=True,
        ),
    ] = ""
    scope: Annotated[
        str,
        field_schema(
            "Where it applies: region/, zone/, node/ or pool/NAME, or cluster: everywhere. Needed at"
            " creation."
        ),
    ] = ""
    reason: Annotated[
        str,
        field_schema(
            "Why the override is needed, for people. Whoever changes expiresAfter must give another reason.",
            required=True,
            minLength=1,
            maxLength=1024,
        ),
    ] = ""
    expires_after: Annotated[
        Name,
        field_schema(
            "How long it lasts, such as 45m; each kind of change has a maximum. A changed value counts from"
            " then on.",
            required=True,
        ),
    ] = ""
    on_end: Annotated[
        str,
        one_of("keep", "move"),
        field_schema(
            "What becomes of pods that it placed: they stay (keep, the default), or are evicted (move)."
        ),
    ] = ""
    requested_through: RequestedThrough = ""
    # Unknown changes reach `validate`, which refuses them: dropping one would accept what is never done.
    changes: Annotated[
        Changes,
        KEEPS_UNKNOWN_FIELDS,
        field_schema("What is different while it is in force. At least one change.", required=True),
    ] = Changes()


class Acknowledgement(Shape, frozen=True):
    controller: Annotated[
        str,
        field_schema(
            "Who acknowledges, such as autoscaler; of several schedulers, scheduler-0of2.", required=True
        ),
    ] = ""
    state: Annotated[
        str,
        one_of("Honoring", "Declined"),
        field_schema("Honoring: it decides by the override. Declined: it does not, for the reason given."),
    ] = ""
    reason: Annotated[str, field_schema("Why it was declined. Absent: it was not.")] = ""
    observed_generation: Annotated[
        Count, field_schema("The metadata.generation of the override that it has observed.")
    ] = 0
    cache_revision: Annotated[
        Count, field_schema("The revision that its cache of overrides had reached.")
    ] = 0
    epoch: Annotated[Count, field_schema("The leader term of the acknowledger; absent without a lease.")] = 0
    time: Annotated[Time, field_schema("When it acknowledged.")] = ""


class ChangeState(Shape, frozen=True):
    name: Annotated[str, field_schema("The field of spec.changes, such as avoidZones.", required=True)] = ""
    state: Annotated[
        str,
        one_of("InForce", "NoMatch", "Declined"),
        field_schema(
            "InForce: it is carried out. NoMatch: there is nothing that it could change. Declined: a"
            " controller does not carry it out, or its approval is missing."
        ),
    ] = ""
    reason: Annotated[str, field_schema("Why, in one word, such as NodesAvoided or TargetMissing.")] = ""
    message: Annotated[str, field_schema("Why, for people. May be empty.")] = ""


class BlastRadius(Shape, frozen=True):
    pods: Annotated[
        Count,
        field_schema("Pods of the targeted workload in the scope, or pods on the nodes that it drains."),
    ] = 0
    nodes: Annotated[Count, field_schema("Nodes that it cordons or drains.")] = 0
    tenants: Annotated[Count, field_schema("Tenants that these pods belong to.")] = 0
    zone_percent: Annotated[
        Count, field_schema("The largest share of one zone's nodes that it takes, in percent, rounded up.")
    ] = 0
    below_minimum: Annotated[
        Count,
        field_schema("Workloads that a drain leaves below their disruption budget, or without a ready pod."),
    ] = 0


class Residue(Shape, frozen=True):
    effect: Annotated[
        str,
        field_schema(
            "What kind of effect: placement, account, eviction, reservation, taint, route, role; or more, if"
            " the list is too long.",
            required=True,
        ),
    ] = ""
    object: Annotated[str, field_schema("The object that has it, such as Pod shop/web-1 or Node node-1.")] = (
        ""
    )
    message: Annotated[str, field_schema("What is left there, or why it cannot be undone, for people.")] = ""


class Effect(Shape, frozen=True):
    effect: Annotated[
        str, field_schema("What kind of effect: route, taint, reservation or role.", required=True)
    ] = ""
    object: Annotated[str, field_schema("The object, such as TrafficRoute shop/web.")] = ""
    uid: Annotated[str, field_schema("UID of the object. Absent: not known when it was recorded.")] = ""
    field: Annotated[
        str, field_schema("What of it is the override's, such as taint KEY; absent: all of it.")
    ] = ""


class OverrideStatus(Shape, frozen=True):
    author: Annotated[str, field_schema("The user who created it. Set by the server.")] = ""
    author_impersonated_by: Annotated[
        str,
        field_schema(
            "The user who created it in the author's name. Set by the server; absent if nobody did."
        ),
    ] = ""
    expires_at: Annotated[
        Time | None,
        field_schema("When it ends. Set by the server; absent while its duration waits for approval."),
    ] = None
    observed_generation: ObservedGeneration = 0
    active: Annotated[
        bool, field_schema("All affected controllers have observed this generation, and it has not ended.")
    ] = False
    affected_controllers: Annotated[
        tuple[str, ...],
        field_schema("Who must honour it, such as scheduler or autoscaler. Set by the server."),
    ] = ()
    acknowledgements: Annotated[
        tuple[Acknowledgement, ...],
        field_schema("Who has observed it, and whether they honour it. Each writes its own."),
    ] = ()
    changes: Annotated[tuple[ChangeState, ...], field_schema("What became of each change.")] = ()
    blast_radius: Annotated[
        BlastRadius | None,
        field_schema(
            "How much it concerns, counted by the server when its spec was written or approved. An"
            " absent count is 0."
        ),
    ] = None
    approval: Annotated[
        Approval | None,
        field_schema(
            "The decision of a second person. Absent: the override needs none. The server sets all"
            " but approved."
        ),
    ] = None
    extensions: Annotated[Count, field_schema("How often its end was put off. Counted by the server.")] = 0
    effects: Annotated[
        tuple[Effect, ...],
        field_schema(
            "Objects that were changed for it, each recorded before it is changed or when its mark was seen."
            " The end undoes them, and checks that nothing is left."
        ),
    ] = ()
    residue: Annotated[
        tuple[Residue, ...],
        field_schema(
            "Effects that are left after its end; a deleted override stays until there are none. At most 100."
        ),
    ] = ()
    conditions: Annotated[
        Conditions,
        field_schema(
            "SchedulerOverrideObserved: all affected controllers have observed it. Effective: at least one"
            " change is in force. Degraded: an acknowledger has stopped. RepairComplete: nothing of it is"
            " left."
        ),
    ] = ()


class SchedulerOverride(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        OverrideSpec,
        field_schema("What is changed, where, why and how long. People write it.", required=True),
    ] = OverrideSpec()
    status: Annotated[
        OverrideStatus,
        field_schema(
            "Who asked, until when, who honours it, and what it did. Server and controllers write it."
        ),
    ] = OverrideStatus()


# 'workload/risk-api', parsed.
Named = override_changes.Named
named = override_changes.named


def changes_of(override: SchedulerOverride) -> tuple[str, ...]:
    """Names of the changes that it makes, in the order of the table."""
    return effective_changes(msgspec.to_builtins(override.spec.changes))


def pauses(override: SchedulerOverride) -> bool:
    """Whether it makes a controller wait."""
    return any(CHANGES[name].control_class.name == PAUSE.name for name in changes_of(override))


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
        lapses = None if requested is None else requested + LAPSES_NS
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
    about="A temporary exception to what the scheduler and the controllers do, with a target, a reason and an"
    " end. Every controller concerned acknowledges it, and its end undoes what can be undone.",
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
