"""WorkloadProgress, RepairProposal and TrafficRoute: how far a workload is, what repair would do, where its
traffic goes."""

from __future__ import annotations

from fathom.model.own.shape import Condition, Meta, Shape

PROGRESS = "workloadprogresses.fathom.dev"
PROPOSALS = "repairproposals.fathom.dev"
ROUTES = "trafficroutes.fathom.dev"


class ObjectRef(Shape, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class PendingReason(Shape, frozen=True):
    reason: str = ""  # 'quota/risk-zone-c', 'topology/zone'
    count: int = 0
    message: str = ""


class LastAction(Shape, frozen=True):
    controller: str = ""
    action: str = ""
    decision: str = ""
    time: str = ""


class LastError(Shape, frozen=True):
    controller: str = ""
    reason: str = ""
    message: str = ""
    time: str = ""


class Progress(Shape, frozen=True):
    """One generation of a workload, counted. A replica counts in every stage that it has reached and not left
    again: ready ones are bound ones too."""

    generation: int = 0
    desired: int = 0
    admitted: int = 0
    queued: int = 0
    scheduled: int = 0
    bound: int = 0
    starting: int = 0
    ready: int = 0
    serving: int = 0
    pending_reasons: tuple[PendingReason, ...] = ()
    last_action: LastAction | None = None
    last_error: LastError | None = None
    deadline: str | None = None
    stuck_at: str = ""  # The boundary that holds it: image, probe, quota, node, ...


class WorkloadProgressSpec(Shape, frozen=True):
    workload: ObjectRef = ObjectRef()


class WorkloadProgressStatus(Shape, frozen=True):
    current: Progress = Progress()
    previous: Progress | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class WorkloadProgress(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: WorkloadProgressSpec = WorkloadProgressSpec()
    status: WorkloadProgressStatus = WorkloadProgressStatus()


class Evidence(Shape, frozen=True):
    source: str = ""
    message: str = ""
    revision: int = 0
    time: str = ""


class RepairProposalSpec(Shape, frozen=True):
    subject: ObjectRef = ObjectRef()
    problem: str = ""
    action: str = ""  # Delete, Release, RemoveFinalizer, Unbind
    evidence: tuple[Evidence, ...] = ()
    approved: bool | None = None  # Absent: nobody has decided. False is a refusal.


class RepairProposalStatus(Shape, frozen=True):
    phase: str = ""  # Proposed, Approved, Refused, Done, Obsolete
    approver: str = ""  # Stamped by the server when `approved` is set.
    approved_at: str = ""
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class RepairProposal(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: RepairProposalSpec = RepairProposalSpec()
    status: RepairProposalStatus = RepairProposalStatus()


class Route(Shape, frozen=True):
    """One of region, zone and pool: where this share goes."""

    weight: int = 0
    region: str = ""
    zone: str = ""
    pool: str = ""


class TrafficRouteSpec(Shape, frozen=True):
    service: str = ""
    workload: str = ""
    routes: tuple[Route, ...] = ()


class TrafficRouteStatus(Shape, frozen=True):
    observed_generation: int = 0
    observed_by: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


class TrafficRoute(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: TrafficRouteSpec = TrafficRouteSpec()
    status: TrafficRouteStatus = TrafficRouteStatus()
