"""TenantQuota, CapacityClass, Reservation: as the API serves them."""

from __future__ import annotations

from fathom.api.kinds.kind import Column
from fathom.api.kinds.own_schema import (
    AMOUNTS,
    CONDITIONS,
    COUNT,
    NAME,
    TEXT,
    TEXTS_BY_NAME,
    TIME,
    group,
    listed,
    one_of,
    own_kind,
    said,
)

TENANT_QUOTA = own_kind(
    "TenantQuota",
    "tenantquotas",
    namespaced=False,
    short_names=("tq",),
    columns=(
        Column("Limits", "string", ".spec.limits[*].zone", "The zones that have limits of their own."),
        Column("Counted-At", "integer", ".status.countedAt", priority=1),
    ),
    spec=group(
        "limits",
        limits=said(
            listed(
                group(
                    "resources",
                    zone=said(NAME, "Where it holds; without it, over all zones together."),
                    capacityClass=said(TEXT, "Of which pool; without it, over all of them together."),
                    resources=said(AMOUNTS, "The most that the tenant's bound pods may ask for in all."),
                )
            ),
            "Each must hold.",
        ),
    ),
    status=group(
        used=listed(group(zone=TEXT, capacityClass=TEXT, resources=AMOUNTS), 4096),
        countedAt=said(COUNT, "The revision of the ledger that the use was read from."),
        observedGeneration=COUNT,
        conditions=CONDITIONS,
    ),
)

CAPACITY_CLASS = own_kind(
    "CapacityClass",
    "capacityclasses",
    namespaced=False,
    short_names=("cclass",),
    columns=(
        Column("Tenants", "string", ".spec.tenants[*]"),
        Column("Description", "string", ".spec.description", priority=1),
    ),
    spec=group(
        "nodeSelector",
        nodeSelector=said(TEXTS_BY_NAME, "The nodes of the pool, by their labels."),
        resources=said(AMOUNTS, "How much of each of them is kept for the class; without it, all of it."),
        tenants=said(listed(NAME), "Who may use it at any time; * is everyone. Others need an override."),
        description=TEXT,
    ),
    status=None,
)

RESERVATION = own_kind(
    "Reservation",
    "reservations",
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
    spec_required=False,
    spec=group(
        "workload",
        "intent",
        workload=said(
            group("uid", name=TEXT, uid=TEXT, generation=COUNT),
            "Whose capacity it is, and of which generation of its spec.",
        ),
        slot=said(COUNT, "Which of the workload's replicas it is for."),
        intent=said(TEXT, "What it is for: at most one reservation is active per intent."),
        nodeName=said(TEXT, "Where the capacity is held."),
        resources=said(AMOUNTS, "How much is held."),
        capacityClass=said(TEXT, "The reserved pool it draws on; none is ordinary capacity."),
        awaits=said(
            listed(group("name", "uid", name=TEXT, namespace=TEXT, uid=TEXT)),
            "Pods that are being deleted from the node: what they still hold counts as free for this one.",
        ),
        expiresAt=said(TIME, "When it is void by itself."),
    ),
    status=group(
        phase=said(
            one_of("Active", "Bound", "Released", "Expired"), "Released and Expired hold nothing any more."
        ),
        observedGeneration=COUNT,
        conditions={
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    ),
)
