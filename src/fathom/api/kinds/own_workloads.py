"""WorkloadProgress, RepairProposal, TrafficRoute, ComponentSignals: as the API serves them."""

from __future__ import annotations

from fathom.api.kinds.kind import Column
from fathom.api.kinds.own_schema import (
    CONDITIONS,
    COUNT,
    FLAG,
    NAME,
    TEXT,
    TIME,
    group,
    listed,
    one_of,
    own_kind,
    said,
)

_REF = group("kind", "name", apiVersion=TEXT, kind=NAME, namespace=TEXT, name=NAME, uid=TEXT)

_PROGRESS = group(
    generation=COUNT,
    desired=COUNT,
    admitted=COUNT,
    queued=COUNT,
    scheduled=COUNT,
    bound=COUNT,
    starting=COUNT,
    ready=COUNT,
    serving=COUNT,
    pendingReasons=listed(group("reason", reason=TEXT, count=COUNT, message=TEXT, since=TIME)),
    lastAction=group(controller=TEXT, action=TEXT, decision=TEXT, time=TIME),
    lastError=group(controller=TEXT, reason=TEXT, message=TEXT, time=TIME),
    deadline=TIME,
    stuckAt=said(TEXT, "The boundary that holds it: image, probe, quota, node, ..."),
)

WORKLOAD_PROGRESS = own_kind(
    "WorkloadProgress",
    "workloadprogresses",
    namespaced=True,
    short_names=("wp",),
    columns=(
        Column("Kind", "string", ".spec.workload.kind"),
        Column("Generation", "integer", ".status.current.generation"),
        Column("Desired", "integer", ".status.current.desired"),
        Column("Bound", "integer", ".status.current.bound"),
        Column("Ready", "integer", ".status.current.ready"),
        Column("Serving", "integer", ".status.current.serving"),
        Column("Pending", "string", ".status.current.pendingReasons[*].reason"),
        Column("Stuck", "string", ".status.current.stuckAt"),
    ),
    spec=group("workload", workload=_REF),
    status=group(current=_PROGRESS, previous=_PROGRESS, observedGeneration=COUNT, conditions=CONDITIONS),
)

REPAIR_PROPOSAL = own_kind(
    "RepairProposal",
    "repairproposals",
    namespaced=True,
    approval=True,
    short_names=("repair",),
    columns=(
        Column("Subject", "string", ".spec.subject.name"),
        Column("Problem", "string", ".spec.problem"),
        Column("Action", "string", ".spec.action"),
        Column("Approved", "boolean", ".status.approved"),
        Column("Phase", "string", ".status.phase"),
        Column("Approver", "string", ".status.approver", priority=1),
    ),
    spec=group(
        "subject",
        "problem",
        "action",
        subject=_REF,
        problem=said(NAME, "What repair found, in a word: OrphanedReservation."),
        action=said(one_of("Delete", "Release", "RemoveFinalizer", "Unbind"), "What it would do."),
        evidence=listed(group("message", source=TEXT, message=TEXT, revision=COUNT, time=TIME)),
    ),
    status=group(
        phase=one_of("Proposed", "Approved", "Refused", "Done", "Obsolete"),
        maker=said(TEXT, "Who made the proposal. Stamped by the server; repair believes only its own."),
        approved=said(
            FLAG, "Absent: nobody has decided. False is a refusal. Written through the approval subresource."
        ),
        approver=said(TEXT, "Who decided. Stamped by the server."),
        approvedAt=said(TIME, "When. Stamped by the server."),
        approvedSpec=said(TEXT, "The hash of the spec that was decided about. Stamped by the server."),
        observedGeneration=COUNT,
        conditions=CONDITIONS,
    ),
)

TRAFFIC_ROUTE = own_kind(
    "TrafficRoute",
    "trafficroutes",
    namespaced=True,
    short_names=("troute",),
    columns=(
        Column("Service", "string", ".spec.service"),
        Column("Workload", "string", ".spec.workload"),
        Column("Weights", "string", ".spec.routes[*].weight"),
    ),
    spec=group(
        "routes",
        service=said(NAME, "Whose traffic; or that of a workload's pods."),
        workload=NAME,
        routes=said(
            listed(
                group(
                    "weight",
                    weight={"type": "integer", "minimum": 0, "maximum": 1_000_000},
                    region=NAME,
                    zone=NAME,
                    pool=NAME,
                )
            ),
            "Each names one region, zone or pool and its share.",
        ),
    ),
    status=group(observedGeneration=COUNT, observedBy=listed(TEXT), conditions=CONDITIONS),
)

COMPONENT_SIGNALS = own_kind(
    "ComponentSignals",
    "componentsignals",
    namespaced=False,
    short_names=("signals",),
    columns=(
        Column("Raised", "string", ".status.signals[*].name"),
        Column("Message", "string", ".status.signals[*].message"),
    ),
    spec_required=False,
    spec=group(),
    status=group(
        observedAt=said(TIME, "When this was last written."),
        signals=said(
            listed(group("name", name=NAME, message=TEXT, since=TIME)),
            "What the component notices about itself, of what is so now. None: it is well.",
        ),
    ),
)
