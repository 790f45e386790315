"""fathom's own kinds, in the group fathom.dev/v1alpha1: built in here, installed as CRDs elsewhere.

Only what code already reads or writes is here; DESIGN has the list that is to come.
"""

from __future__ import annotations

from typing import Any

from fathom.api.kinds.kind import Column, Kind

GROUP, VERSION = "fathom.dev", "v1alpha1"

_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _described(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}


RESERVATION = Kind(
    group=GROUP,
    version=VERSION,
    kind="Reservation",
    plural="reservations",
    singular="reservation",
    namespaced=True,
    list_kind="ReservationList",
    short_names=("rsv",),
    categories=("fathom",),
    subresources=("status",),
    generation=True,
    columns=(
        Column("Workload", "string", ".spec.workload.name"),
        Column("Slot", "integer", ".spec.slot"),
        Column("Intent", "string", ".spec.intent"),
        Column("Node", "string", ".spec.nodeName"),
        Column("Phase", "string", ".status.phase"),
        Column("Age", "date", ".metadata.creationTimestamp"),
    ),
    selectable=("spec.nodeName", "spec.intent", "status.phase"),
    schema=_object(
        apiVersion=_TEXT,
        kind=_TEXT,
        metadata={"type": "object"},
        spec=_object(
            ("workload", "intent"),
            workload=_described(
                _object(("uid",), name=_TEXT, uid=_TEXT, generation=_COUNT),
                "Whose capacity it is, and of which generation of its spec.",
            ),
            slot=_described(_COUNT, "Which of the workload's replicas it is for."),
            intent=_described(_TEXT, "What it is for: at most one reservation is active per intent."),
            nodeName=_described(_TEXT, "Where the capacity is held."),
            resources=_described(
                {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
                "How much is held.",
            ),
            capacityClass=_described(_TEXT, "The reserved pool it draws on; none is ordinary capacity."),
            expiresAt=_described({"type": "string", "format": "date-time"}, "When it is void by itself."),
        ),
        status=_object(
            phase=_described(
                {"type": "string", "enum": ["Active", "Bound", "Released", "Expired"]},
                "Released and Expired hold nothing any more.",
            ),
            observedGeneration=_COUNT,
            conditions={
                "type": "array",
                "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        ),
    ),
)

OWN_KINDS: tuple[Kind, ...] = (RESERVATION,)
