"""Reservation: capacity on a node that is held for a pod, and what it is for (its intent)."""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.schema import Amounts, Count, Time, field_schema, one_of
from fathom.kinds.shape import Condition, Meta, ObservedGeneration, Shape
from fathom.kinds.values import amount_causes
from fathom.model import causes
from fathom.model.column import Column
from fathom.model.errors import Cause
from fathom.model.objects import Obj, key_of, lookup, metadata, uid_of
from fathom.model.times import moment_ns

# Annotations of a workload's pod, set at creation: a reservation for it is named after them. There is a
# ReplicaSet for each template, so its pods need no generation; other controllers may set one.
SLOT, GENERATION = "fathom.dev/slot", "fathom.dev/generation"

# Reservations in these phases hold capacity themselves. For a bound one, its pod does; the rest hold nothing.
HOLDING = frozenset({"", "Active"})
VOID = frozenset({"Released", "Expired"})

# Annotations of a reservation: the pod that it is held for. No other pod may use it.
HOLDER, HOLDER_UID = "fathom.dev/pod", "fathom.dev/pod-uid"

# Annotation of a reservation that only the server writes: the UID of the pod for which the namespace's
# ResourceQuotas are charged already.
CHARGED_WITH = "fathom.dev/charged-with-pod"

PREEMPT = "preempt"

# It is named after what it is for, and what it holds is charged: a change of either needs a new reservation.
_FIXED = ("workload", "slot", "intent", "resources", "capacityClass", "awaits")
_ANY_OBJECT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class WorkloadRef(Shape, frozen=True):
    name: Annotated[
        str, field_schema("Name of the ReplicaSet, Job or other owner; of the pod itself if it has none.")
    ] = ""
    uid: Annotated[str, field_schema("UID of the same object.", required=True)] = ""
    generation: Annotated[
        Count,
        field_schema("The pod's annotation fathom.dev/generation, if its controller sets one; else 0."),
    ] = 0


class PodRef(Shape, frozen=True):
    name: Annotated[str, field_schema("Name of the pod.", required=True)] = ""
    namespace: Annotated[str, field_schema("Namespace of the pod.")] = ""
    uid: Annotated[str, field_schema("UID of the pod.", required=True)] = ""


class ReservationSpec(Shape, frozen=True):
    workload: Annotated[
        WorkloadRef,
        field_schema("Whose pod the capacity is held for.", required=True),
    ] = WorkloadRef()
    slot: Annotated[Count, field_schema("Which of the workload's replicas it is for, from 0.")] = 0
    intent: Annotated[
        str,
        field_schema(
            "What it is for: the scheduler writes preempt. At most one reservation is active per workload,"
            " slot and intent.",
            required=True,
        ),
    ] = ""
    node_name: Annotated[str, field_schema("The node on which the capacity is held.")] = ""
    resources: Annotated[
        Amounts, field_schema("What is held there, by resource: {cpu: 500m, memory: 1Gi}.")
    ] = msgspec.field(default_factory=dict)
    capacity_class: Annotated[
        str, field_schema("The CapacityClass whose pool it uses; absent is ordinary capacity.")
    ] = ""
    awaits: Annotated[
        tuple[PodRef, ...],
        field_schema(
            "Pods that are being deleted from the node: what they hold counts as free for this reservation."
        ),
    ] = ()
    expires_at: Annotated[
        Time | None, field_schema("When it expires, unless the scheduler renews it. Absent: never.")
    ] = None


class ReservationStatus(Shape, frozen=True):
    phase: Annotated[
        str,
        one_of("Active", "Bound", "Released", "Expired"),
        field_schema(
            "Absent or Active: it holds the capacity. Bound: its pod has taken it over. Released, Expired:"
            " it holds nothing, and is deleted after a minute."
        ),
    ] = ""
    observed_generation: ObservedGeneration = 0
    conditions: Annotated[
        tuple[Condition, ...],
        field_schema(
            "Held is False: it was released or has expired; the message says why.",
            maxItems=None,
            items=_ANY_OBJECT,
        ),
    ] = ()


class Reservation(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        ReservationSpec, field_schema("What is held where, and for whom. The scheduler writes it.")
    ] = ReservationSpec()
    status: Annotated[
        ReservationStatus,
        field_schema("What became of it. The API server writes it at the binding, repair at the end."),
    ] = ReservationStatus()

    @property
    def intent(self) -> str:
        """The intent as text: at most one reservation may be active for it."""
        spec = self.spec
        return f"{spec.workload.uid}/{spec.slot}/{spec.workload.generation}/{spec.intent}"


def reservation_usable(reservation: Reservation, now_ns: int) -> bool:
    """Whether a pod may still be bound with this reservation."""
    expires_ns = moment_ns(reservation.spec.expires_at)
    if reservation.metadata.deletion_timestamp or reservation.status.phase not in HOLDING:
        return False
    return expires_ns is None or now_ns < expires_ns


class Intent(msgspec.Struct, frozen=True):
    """What a reservation is for, derived from its pod: its identity. The scheduler names reservations by it;
    the API server finds a pod's own reservation by it."""

    workload: str
    uid: str
    slot: int = 0
    generation: int = 0

    @property
    def text(self) -> str:
        return f"{self.uid}/{self.slot}/{self.generation}/{PREEMPT}"


def intent_of(pod: Obj) -> Intent:
    meta = metadata(pod)
    owner = next((ref for ref in meta.get("ownerReferences") or () if ref.get("controller")), None)
    annotations = meta.get("annotations") or {}
    slot = str(annotations.get(SLOT) or "")
    if owner is None or not slot.isdecimal():
        return Intent(key_of(pod).name, uid_of(pod))
    generation = str(annotations.get(GENERATION) or "")
    number = int(generation) if generation.isdecimal() else 0
    return Intent(str(owner.get("name")), str(owner.get("uid")), int(slot), number)


def reservation_name(intent: Intent) -> str:
    return f"{intent.workload[:200]}-{intent.slot}-{hashlib.sha256(intent.text.encode()).hexdigest()[:10]}"


def validate(obj: Obj) -> list[Cause]:
    return list(amount_causes(lookup(obj, "spec", "resources"), "spec.resources"))


def validate_update(obj: Obj, old: Obj) -> list[Cause]:
    errors = validate(obj)
    for field in _FIXED:
        before = lookup(old, "spec", field)
        errors += causes.unchanged(f"spec.{field}", lookup(obj, "spec", field), before)
    before = lookup(old, "spec", "nodeName")
    if before:  # The node may be set later; then it is immutable.
        errors += causes.unchanged("spec.nodeName", lookup(obj, "spec", "nodeName"), before)
    return errors


DEFINITION = KindDefinition(
    shape=Reservation,
    about="Capacity on a node that is held for one pod while others leave the node. The scheduler creates"
    " it; its pod takes it over when it is bound, or it expires.",
    plural="reservations",
    namespaced=True,
    short_names=("rsv",),
    columns=(
        Column("Workload", "string", ".spec.workload.name"),
        Column("Slot", "integer", ".spec.slot"),
        Column("Intent", "string", ".spec.intent"),
        Column("Node", "string", ".spec.nodeName"),
        Column("Phase", "string", ".status.phase"),
    ),
    selectable=("spec.nodeName", "spec.intent", "status.phase"),
    rules=Rules(validate_create=validate, validate_update=validate_update),
    view_role_reads=True,
)
RESERVATIONS = DEFINITION.resource
