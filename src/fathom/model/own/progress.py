"""WorkloadProgress, RepairProposal and TrafficRoute: how far a workload is, what repair would do, where its
traffic goes."""

from __future__ import annotations

import hashlib

import msgspec

from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.own.shape import Condition, Meta, Shape

PROGRESS = "workloadprogresses.fathom.dev"
PROPOSALS = "repairproposals.fathom.dev"
ROUTES = "trafficroutes.fathom.dev"

# Phases in which nothing is done about a proposal any more.
OVER = frozenset({"Done", "Obsolete"})
# Kinds without a namespace that a proposal may be about; such a one is in our own namespace.
CLUSTER_SUBJECTS = frozenset({"Node"})


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
    since: str = ""  # Of crashes that repeat: since the first of them.


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


class RepairProposalStatus(Shape, frozen=True):
    phase: str = ""  # Proposed, Approved, Refused, Done, Obsolete
    maker: str = ""  # Stamped by the server, as are the following: no writer of status changes them.
    approved: bool | None = None  # Absent: nobody has decided. False is a refusal.
    approver: str = ""
    approved_at: str = ""
    approved_spec: str = ""  # The hash of the spec that was decided about.
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class RepairProposal(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: RepairProposalSpec = RepairProposalSpec()
    status: RepairProposalStatus = RepairProposalStatus()


def spec_hash(proposed: Obj) -> str:
    """What an approval is bound to."""
    spec = msgspec.json.encode(proposed.get("spec") or {}, order="sorted")
    return hashlib.sha256(spec).hexdigest()


def subject_fault(proposed: Obj) -> str | None:
    """Why a proposal may not be about its subject: who acts on it may reach further than who wrote it, so it
    is about its own namespace, or from ours about what has none. None: it may."""
    home = str(metadata(proposed).get("namespace") or "")
    kind, namespace = (str(lookup(proposed, "spec", "subject", name) or "") for name in ("kind", "namespace"))
    if kind not in CLUSTER_SUBJECTS:
        return None if namespace == home else f"must be the proposal's own namespace, {home}"
    if namespace:
        return f"a {kind} has no namespace"
    return None if home == SYSTEM_NAMESPACE else f"a proposal about a {kind} is made in {SYSTEM_NAMESPACE}"


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
