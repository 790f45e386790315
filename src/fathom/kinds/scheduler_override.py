"""SchedulerOverride: a temporary change that an operator requests, with target, reason and expiry. All
processes use one predicate for whether it is active, also while the store cannot be reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition, Rules, Stamp
from fathom.kinds.override_changes import (
    CHANGES,
    EVERYWHERE,
    HOUR_NS,
    INFRASTRUCTURE_TARGETS,
    SCOPES,
    TARGETS,
    WORKLOAD_TARGETS,
)
from fathom.kinds.schema import KEEPS_UNKNOWN_FIELDS, REQUIRED, Count, Name, Time, field_schema, one_of
from fathom.kinds.shape import Conditions, Meta, Shape
from fathom.kinds.values import NO_DURATION, mapping, stamps, text
from fathom.model import causes
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.column import Column
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, labels_of, lookup, metadata
from fathom.model.times import duration_ns, moment_ns, timestamp
from fathom.model.well_known import HOSTNAME_LABEL, POOL_LABEL, REGION_LABEL, ZONE_LABEL

USED_OVERRIDES = "fathom.dev/overrides"  # On a bound pod: the overrides that its placement uses.

NODE_CLASS_LABEL = "fathom.dev/node-class"
STAMPED = ("author", "expiresAt")
_LABELS = {"region": REGION_LABEL, "zone": ZONE_LABEL, "node": HOSTNAME_LABEL, "pool": POOL_LABEL}


class Changes(Shape, frozen=True):
    """Closed: fathom's server refuses unknown changes, rather than accept what no component carries out."""

    pause_autoscaler: bool = False
    pause_rollout: bool = False
    pause_repair: bool = False
    pause_expansion: bool = False
    avoid_zones: tuple[Name, ...] = ()
    avoid_nodes: tuple[Name, ...] = ()
    avoid_node_classes: tuple[Name, ...] = ()
    avoid_pools: tuple[Name, ...] = ()
    avoid_topology: dict[str, tuple[Name, ...]] = msgspec.field(default_factory=dict)  # Node label -> values.
    allow_reserved_capacity_class: Name = ""
    reserved_replicas: Count | None = None  # How many pods may use it; absent: all pods of the target.
    raise_priority: int | None = None
    cordon: bool = False
    drain: bool = False
    approve_repairs: tuple[Name, ...] = ()
    traffic_weights: dict[str, Count] = msgspec.field(default_factory=dict)  # Region or pool -> weight.
    break_glass_role: Name = ""


class OverrideSpec(Shape, frozen=True):
    target: Annotated[
        Name,
        field_schema(
            "workload/NAME (or deployment/, replicaset/, job/), node/, zone/ or pool/NAME.", required=True
        ),
    ] = ""
    scope: Annotated[
        str, field_schema("Where it applies: region/, zone/, node/ or pool/NAME, or cluster: everywhere.")
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
    changes: Annotated[Changes, REQUIRED, KEEPS_UNKNOWN_FIELDS] = Changes()


class Acknowledgement(Shape, frozen=True):
    controller: Annotated[str, REQUIRED] = ""
    state: Annotated[str, one_of("Honoring", "Declined")] = ""
    reason: str = ""
    observed_generation: Count = 0
    cache_revision: Annotated[
        Count, field_schema("The revision that its cache of overrides had reached.")
    ] = 0
    time: Time = ""


class ChangeState(Shape, frozen=True):
    """What became of one change."""

    name: Annotated[str, REQUIRED] = ""
    state: Annotated[str, one_of("InForce", "NoMatch", "Declined")] = ""
    reason: str = ""
    message: str = ""


class BlastRadius(Shape, frozen=True):
    """How much the override concerns, counted by the server when its spec was written."""

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
    spec_hash: Annotated[str, field_schema("The hash of the spec that was approved or refused.")] = ""


class Residue(Shape, frozen=True):
    """An effect that is left after the end."""

    effect: Annotated[str, REQUIRED] = ""  # placement, account, reservation, taint, route, role, token, hold.
    object: str = ""
    message: str = ""


class OverrideStatus(Shape, frozen=True):
    author: Annotated[str, field_schema("Who created it. Set by the server.")] = ""
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
    residue: tuple[Residue, ...] = ()
    conditions: Conditions = ()


class SchedulerOverride(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[OverrideSpec, REQUIRED] = OverrideSpec()
    status: OverrideStatus = OverrideStatus()


class Named(msgspec.Struct, frozen=True):
    """'workload/risk-api', parsed."""

    kind: str
    name: str


def named(text: str) -> Named | None:
    kind, slash, name = text.partition("/")
    return Named(kind, name) if slash and kind and name else None


def expiry_ns(override: SchedulerOverride) -> int | None:
    """When the override ends: as stamped by the server, else from its creation (not every server stamps)."""
    stamped = moment_ns(override.status.expires_at)
    if stamped is not None:
        return stamped
    created, lasts = moment_ns(override.metadata.creation_timestamp), duration_ns(override.spec.expires_after)
    return None if created is None or lasts is None else created + lasts


def override_active(override: SchedulerOverride, now_ns: int) -> bool:
    """THE predicate. An override without a known end is not active: every override must be bounded."""
    expires_ns = expiry_ns(override)
    return expires_ns is not None and now_ns < expires_ns and not override.metadata.deletion_timestamp


def workloads_of(pod: Obj) -> tuple[str, ...]:
    """Names of a pod's workload: that of its controller, and of the Deployment behind a ReplicaSet (which is
    named after it and the pods' template). A pod without a controller is its own workload."""
    meta = metadata(pod)
    owner = next(
        (reference for reference in meta.get("ownerReferences") or () if reference.get("controller")), None
    )
    if owner is None:
        return (str(meta.get("name") or ""),)
    name = str(owner.get("name") or "")
    template_hash = labels_of(pod).get("pod-template-hash")
    deployment = name.removesuffix(f"-{template_hash}") if template_hash else name
    return (name,) if deployment == name else (name, deployment)


def targets_pod(override: SchedulerOverride, pod: Obj) -> bool:
    """Whether a workload override targets the pod's workload. (The scope says *where* it applies.)"""
    target = named(override.spec.target)
    if target is None or target.kind not in WORKLOAD_TARGETS:
        return False
    same_namespace = metadata(pod).get("namespace") == override.metadata.namespace
    return same_namespace and target.name in workloads_of(pod)


def scope_includes(scope: str, node_labels: Mapping[str, str]) -> bool:
    """Whether a node is in an override's scope. A scope that cannot be parsed includes nothing."""
    if scope in {"", EVERYWHERE}:
        return True
    place = named(scope)
    return place is not None and place.kind in _LABELS and node_labels.get(_LABELS[place.kind]) == place.name


def cordons(override: SchedulerOverride, node: str, labels: Mapping[str, str]) -> bool:
    """Whether the override keeps every pod off the node. Without a hostname label, the node's name counts."""
    target, changes = named(override.spec.target), override.spec.changes
    if target is None or target.kind not in INFRASTRUCTURE_TARGETS or not (changes.cordon or changes.drain):
        return False
    places = {labels.get(_LABELS[target.kind]), node if target.kind == "node" else None}
    return target.name in places


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


def status_at_create(obj: Obj, stamp: Stamp) -> Obj:
    return {"author": stamp.user, **_expiry(obj, stamp), "active": False}


def status_at_update(obj: Obj, old: Obj, stamp: Stamp) -> Obj | None:
    """A changed duration counts from now. The author stays: the audit log has later writers."""
    if lookup(obj, "spec", "expiresAfter") == lookup(old, "spec", "expiresAfter"):
        return None
    return {**mapping(obj.get("status")), **_expiry(obj, stamp)}


def status_at_status_update(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    return {**mapping(obj.get("status")), **stamps(old, STAMPED)}


def _expiry(obj: Obj, stamp: Stamp) -> Obj:
    lasts_ns = duration_ns(text(lookup(obj, "spec", "expiresAfter")))
    now_ns = moment_ns(stamp.now)
    if lasts_ns is None or now_ns is None:
        return {}
    return {"expiresAt": timestamp(now_ns + lasts_ns)}


def validate(obj: Obj) -> list[Cause]:
    spec = mapping(obj.get("spec"))
    errors = [*_target_causes(text(spec.get("target")), text(metadata(obj).get("namespace")))]
    if text(spec.get("scope")) not in {"", EVERYWHERE}:
        errors += _place_causes(spec["scope"], "spec.scope", SCOPES)
    changes = mapping(spec.get("changes"))
    errors += _change_causes(changes)
    errors += _expiry_causes(text(spec.get("expiresAfter")), changes)
    return errors


def validate_update(obj: Obj, old: Obj) -> list[Cause]:
    errors = validate(obj)
    before = lookup(old, "spec", "target")
    return errors + causes.unchanged("spec.target", lookup(obj, "spec", "target"), before)


def _target_causes(target: str, namespace: str) -> list[Cause]:
    errors = _place_causes(target, "spec.target", TARGETS) if target else []
    place = named(target)
    if place is not None and place.kind in INFRASTRUCTURE_TARGETS and namespace != SYSTEM_NAMESPACE:
        why = f"an override of infrastructure ({place.kind}) must be in the namespace {SYSTEM_NAMESPACE}"
        errors.append(causes.forbidden("spec.target", why))
    return errors


def _place_causes(value: str, field: str, kinds: tuple[str, ...]) -> list[Cause]:
    place = named(value)
    if place is None:
        return [causes.invalid(field, value, f"must be of the form {kinds[0]}/NAME")]
    return [] if place.kind in kinds else [causes.not_supported(field, place.kind, kinds)]


def _change_causes(changes: Obj) -> list[Cause]:
    errors: list[Cause] = Causes()
    if not changes:
        errors.append(causes.required("spec.changes", "an override must change something"))
    for name in changes:
        if name not in CHANGES:
            errors.append(causes.not_supported("spec.changes", name, tuple(CHANGES)))
    if "reservedReplicas" in changes and not changes.get("allowReservedCapacityClass"):
        why = "must be set together with reservedReplicas"
        errors.append(causes.required("spec.changes.allowReservedCapacityClass", why))
    return errors


def _expiry_causes(expires_after: str, changes: Obj) -> list[Cause]:
    field = "spec.expiresAfter"
    if not expires_after:
        return []
    lasts_ns = duration_ns(expires_after)
    if lasts_ns is None or lasts_ns <= 0:
        return [causes.invalid(field, expires_after, NO_DURATION)]
    for name in changes:
        rule = CHANGES.get(name)
        if rule is not None and lasts_ns > rule.lasts_ns_max:
            why = f"{name} may last at most {rule.lasts_ns_max // HOUR_NS}h"
            return [causes.invalid(field, expires_after, why)]
    return []


DEFINITION = KindDefinition(
    shape=SchedulerOverride,
    plural="scheduleroverrides",
    namespaced=True,
    short_names=("sov",),
    columns=(
        Column("Target", "string", ".spec.target"),
        Column(
            "Changes", "string", "=override_changes", "What it changes.", json_path=".status.changes[*].name"
        ),
        Column("Author", "string", ".status.author"),
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
    ),
    view_role_reads=True,
    admin_role_writes=True,
)
OVERRIDES = DEFINITION.resource
