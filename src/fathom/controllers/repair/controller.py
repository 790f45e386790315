"""Repair: finds leftovers of other components by ownership, never by having seen how they arose.

Caches find candidates; before anything is removed, the server itself is asked for the objects that it depends
on (the pod of a reservation, the node of a pod), and the removal names the revision that was looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from fathom.cache.indexes import FOR_PODS, STANDARD, by_owner
from fathom.cache.snapshot import Snapshot
from fathom.client.api import Api
from fathom.control.kit import Kit
from fathom.control.plan import Plan, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import (
    DEPLOYMENT,
    JOB,
    NODE,
    POD,
    REPLICA_SET,
    Primary,
    Related,
    View,
    Watch,
    WatchedKind,
    own,
)
from fathom.controllers.ages import Ages
from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.controllers.override_pauses import OVERRIDE, WorkloadPause, in_scope_of, read_override
from fathom.controllers.repair.overrides import PAUSED, SCAN_S, again_s, overrides_for, repair_pause
from fathom.controllers.repair.plan import (
    MARK_STALE_S,
    POD_NAME,
    began_at,
    loose_ends,
    marked_since,
    plan_complete,
    plan_pod,
    plan_reservation,
    void_since,
    waits_for_node_s,
)
from fathom.controllers.repair.plan_overrides import OverrideApproval, approval_by_override, held
from fathom.controllers.repair.plan_proposals import (
    APPROVED,
    over_since,
    overdue_in_s,
    plan_finalizers,
    plan_proposal,
    plan_repair,
    subject_key,
    why_not_carried_out,
)
from fathom.kinds import repair_proposal, reservation, workload_progress
from fathom.kinds.override_scope import WorkloadName, workload_names
from fathom.kinds.reservation import Reservation
from fathom.kinds.shape import read
from fathom.model.declared import NODE_ROOM, Reads, Timer, Writes
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, uid_of

RESERVATION = own(reservation.DEFINITION)
PROGRESS = own(workload_progress.DEFINITION)
PROPOSAL = own(repair_proposal.DEFINITION)

GOING, MARKED = "it is being deleted", "it is marked as evicted"


def by_intent(reservation: Obj) -> tuple[str, ...]:
    return (read(Reservation, reservation).intent,)


def _pod_named(reservation: Obj) -> str:
    return str(lookup(reservation, "metadata", "annotations", POD_NAME) or "")


def _reservations_of(pod: Obj, view: View) -> tuple[Key, ...]:
    reservations = view().by_index("Reservation", "pod", "/".join(key_of(pod)))
    return tuple(key_of(reservation) for reservation in reservations)


def by_pod(reservation: Obj) -> tuple[str, ...]:
    return (f"{key_of(reservation).namespace}/{_pod_named(reservation)}",)


class RepairReservations:
    """Releases capacity that is reserved for pods that no longer need it. A reservation whose deletion a
    foreign finalizer holds keeps its capacity: its removal is proposed."""

    name = "repair-reservations"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(RESERVATION, conditions=False, indexes={**STANDARD, "intent": by_intent, "pod": by_pod}),
        Related(POD, concerns=_reservations_of, indexes=FOR_PODS),
        Related(OVERRIDE),
        Related(NODE),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("Reservation"),
        Reads("Pod", ("metadata", "spec", "status")),
        Reads("Pod", ("metadata", "spec", "status"), source="api"),
        Reads("ReplicaSet", ("metadata.ownerReferences",), source="api"),
        Reads("SchedulerOverride", ("spec", "status")),
        Reads("Node", ("metadata.labels",)),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("Reservation", ("status",), deletes=True),
        Writes("RepairProposal", creates=True),
    )
    unwatched: ClassVar[tuple[WatchedKind, ...]] = (PROPOSAL,)
    takes: ClassVar[tuple[str, ...]] = (NODE_ROOM,)
    timers: ClassVar[tuple[Timer, ...]] = (Timer("scan", SCAN_S),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._floor = LeaderMinRevision(kit, OVERRIDE)
        self._ages = Ages()  # Of void reservations.

    async def reconcile(self, key: Key) -> ReconcileResult:
        cached = self._kit.snapshot().get("Reservation", key)
        if cached is None:
            self._ages.forget(key)
            return ReconcileResult.never()
        await self._floor.fetch()
        name = _pod_named(cached)
        pod = await self._kit.api.get(POD.resource, key.namespace, name) if name else None
        names = await self._names(cached, pod)
        view, now_ns = self._kit.snapshot(), self._kit.now_ns()
        reservation = view.get("Reservation", key)
        if reservation is not cached:
            return ReconcileResult.in_s(0.1, "it changed while its pod was read")
        if not names and overrides_for(view, key.namespace):
            return ReconcileResult.in_s(0.1, "an override came while its pod was read")
        twins = view.by_index("Reservation", "intent", read(Reservation, cached).intent)
        void_s = self._void_s(key, cached)
        plan = plan_reservation(cached, pod, twins, now_ns=now_ns, now=self._kit.now(), void_s=void_s)
        if is_deleting(cached):
            plan = plan_finalizers(RESERVATION.name, cached, now_ns=now_ns)
        acts = names and (plan.patches or plan.deletes)
        pause = repair_pause(view, cached, names, now_ns=now_ns) if acts else None
        plan = held(plan, pause, needs=self._floor.needs)
        return ReconcileResult.after(
            await self._kit.apply(key, plan, seen=view), in_s=SCAN_S, why="the next scan"
        )

    def _void_s(self, key: Key, reservation: Obj) -> float:
        now, now_ns = self._kit.now(), self._kit.monotonic_ns()
        return self._ages.age_s(key, void_since(reservation), now=now, now_ns=now_ns) or 0.0

    async def _names(self, reservation: Obj, pod: Obj | None) -> tuple[WorkloadName, ...]:
        """The workloads that it is for. They are asked for only if an override may name them."""
        namespace = key_of(reservation).namespace
        if not overrides_for(self._kit.snapshot(), namespace):
            return ()
        if pod is not None:
            return workload_names("Pod", pod)
        return await fetch_workload_names(self._kit.api, reservation)


async def fetch_workload_names(api: Api, reservation: Obj) -> tuple[WorkloadName, ...]:
    """The workload that a reservation is for, and the Deployment above it."""
    name = read(Reservation, reservation).spec.workload.name
    namespace = key_of(reservation).namespace
    replica_set = await api.get(REPLICA_SET.resource, namespace, name) if name else None
    if replica_set is not None:
        return workload_names("ReplicaSet", replica_set)
    return (WorkloadName("", name),)


def _stranded(node: Obj, view: View) -> tuple[Key, ...]:
    """The pods that a change of their node concerns: all if it is gone, else those that are being deleted."""
    snapshot, name = view(), key_of(node).name
    gone = snapshot.get("Node", Key("", name)) is None
    pods = snapshot.by_index("Pod", "node", name)
    return tuple(key_of(pod) for pod in pods if gone or is_deleting(pod))


class RepairPods:
    """Pods bound to nodes that do not exist, pods whose deletion does not finish, and pods that are marked as
    evicted and never deleted."""

    name = "repair-pods"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(POD, conditions=False, indexes=FOR_PODS),
        Related(NODE, concerns=_stranded),
        Related(OVERRIDE),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("Pod", ("metadata", "spec.nodeName", "status")),
        Reads("SchedulerOverride", ("spec", "status")),
        Reads("Node", ("metadata.labels", "spec.taints", "status.conditions")),
        Reads("Node", ("spec.taints", "status.conditions"), source="api"),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("Pod", ("status.conditions[type=DisruptionTarget]", "status.phase"), deletes=True),
        Writes("RepairProposal", creates=True),
    )
    timers: ClassVar[tuple[Timer, ...]] = (Timer("scan", SCAN_S),)
    unwatched: ClassVar[tuple[WatchedKind, ...]] = (PROPOSAL,)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._floor = LeaderMinRevision(kit, OVERRIDE)
        self._ages = Ages()  # Of pods whose nodes are not in our view.
        self._marks = Ages()  # Of pods that are marked as evicted.

    async def reconcile(self, key: Key) -> ReconcileResult:
        view, now_ns = self._kit.snapshot(), self._kit.now_ns()
        pod = view.get("Pod", key)
        if pod is None:
            self._ages.forget(key)
            self._marks.forget(key)
            return ReconcileResult.never()
        where = str(lookup(pod, "spec", "nodeName") or "")
        node = view.get("Node", Key("", where)) if where else None
        if where and node is None:
            return await self._without_node(key, pod, where, view)
        now, marked_s = self._kit.now(), self._marked_s(key, pod)
        plan = plan_pod(pod, node, node_is_gone=False, now_ns=now_ns, now=now, marked_s=marked_s or 0.0)
        stale_in_s = None if marked_s is None else max(0.0, MARK_STALE_S - marked_s) + 1.0
        return await self._carry_out(key, pod, plan, view, stale_in_s=stale_in_s)

    def _marked_s(self, key: Key, pod: Obj) -> float | None:
        since = marked_since(pod)
        if since is None:
            self._marks.forget(key)
            return None
        now, now_ns = self._kit.now(), self._kit.monotonic_ns()
        return self._marks.age_s(key, since, now=now, now_ns=now_ns)

    async def _carry_out(
        self, key: Key, pod: Obj, plan: Plan, view: Snapshot, *, stale_in_s: float | None = None
    ) -> ReconcileResult:
        """`stale_in_s`: when a mark of an eviction is too old."""
        now_ns, pause = self._kit.now_ns(), None
        if plan.patches or plan.deletes:
            await self._floor.fetch()
            pause = repair_pause(view, pod, workload_names("Pod", pod), now_ns=now_ns)
        applied = await self._kit.apply(key, held(plan, pause, needs=self._floor.needs), seen=view)
        again = overdue_in_s(pod, now_ns=now_ns) if stale_in_s is None else stale_in_s
        why = PAUSED if pause is not None else GOING if stale_in_s is None else MARKED
        return ReconcileResult.after(applied, in_s=again_s(pause, now_ns, again), why=why)

    async def _without_node(self, key: Key, pod: Obj, where: str, view: Snapshot) -> ReconcileResult:
        now, now_ns = self._kit.now(), self._kit.monotonic_ns()
        wait_s = waits_for_node_s(self._ages.age_s(key, began_at(pod), now=now, now_ns=now_ns) or 0.0)
        if wait_s > 0:
            await self._kit.apply(
                key, Plan(why=f"node {where} is not known, and may still appear"), seen=view
            )
            return ReconcileResult.in_s(wait_s, "its node may still appear")
        node = await self._kit.api.get(NODE.resource, "", where)
        view = self._kit.snapshot()
        if node is not None or view.get("Pod", key) is not pod:
            return ReconcileResult.in_s(1.0, "something changed while its node was read")
        now_ns = self._kit.now_ns()
        plan = plan_pod(pod, None, node_is_gone=True, now_ns=now_ns, now=self._kit.now())
        return await self._carry_out(key, pod, plan, view)


class _Finalizers:
    """Objects of one kind whose deletion a finalizer holds."""

    kind: ClassVar[WatchedKind]

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view, now_ns = self._kit.snapshot(), self._kit.now_ns()
        obj = view.get(self.kind.name, key)
        if obj is None or not is_deleting(obj):
            return ReconcileResult.never()
        plan = plan_finalizers(self.kind.name, obj, now_ns=now_ns)
        applied = await self._kit.apply(key, plan, seen=view)
        return ReconcileResult.after(applied, in_s=overdue_in_s(obj, now_ns=now_ns), why=GOING)


def finalizers_of(of: WatchedKind) -> type[_Finalizers]:
    class Finalizers(_Finalizers):
        kind = of
        name: ClassVar[str] = f"repair-{of.resource.plural}"
        watches: ClassVar[tuple[Watch, ...]] = (Primary(of, conditions=False),)
        unwatched: ClassVar[tuple[WatchedKind, ...]] = (PROPOSAL,)
        reads: ClassVar[tuple[Reads, ...]] = (Reads(of.name, ("metadata",)),)
        writes: ClassVar[tuple[Writes, ...]] = (Writes("RepairProposal", creates=True),)
        timers: ClassVar[tuple[Timer, ...]] = (Timer("scan", SCAN_S),)

    return Finalizers


DeploymentFinalizers = finalizers_of(DEPLOYMENT)
ReplicaSetFinalizers = finalizers_of(REPLICA_SET)
JobFinalizers = finalizers_of(JOB)

# The kinds whose objects a proposal may be about.
SUBJECTS = {kind.name: kind for kind in (POD, DEPLOYMENT, REPLICA_SET, JOB, RESERVATION)}


class _OfOverrides(msgspec.Struct, frozen=True):
    """What overrides say about one proposal."""

    approval: OverrideApproval | None = None
    pause: WorkloadPause | None = None


def _approved_by(override: Obj, view: View) -> tuple[Key, ...]:
    """The proposals that an override approves."""
    parsed = read_override(override)
    names = () if parsed is None else parsed.spec.changes.approve_repairs
    return tuple(Key(key_of(override).namespace, name) for name in names)


class RepairProposalsController:
    """Carries out what a person has approved, after checking once more."""

    name = "repair-proposals"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(PROPOSAL, conditions=False),
        Related(OVERRIDE, concerns=_approved_by),
        Related(NODE),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("RepairProposal"),
        Reads("SchedulerOverride", ("spec", "status")),
        Reads("SchedulerOverride", ("spec", "status"), source="api"),
        Reads("Node", ("metadata.labels",)),
        Reads("Pod", ("metadata", "spec", "status"), source="api"),
        Reads("Deployment", ("metadata",), source="api"),
        Reads("ReplicaSet", ("metadata",), source="api"),
        Reads("Job", ("metadata",), source="api"),
        Reads("Reservation", ("metadata",), source="api"),
        Reads("Node", ("spec.taints", "status.conditions"), source="api"),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("RepairProposal", ("status",), deletes=True),
        Writes("Pod", ("metadata.finalizers",), deletes=True),
        Writes("Deployment", ("metadata.finalizers",)),
        Writes("ReplicaSet", ("metadata.finalizers",)),
        Writes("Job", ("metadata.finalizers",)),
        Writes("Reservation", ("metadata.finalizers",), deletes=True),
    )
    timers: ClassVar[tuple[Timer, ...]] = (Timer("scan", SCAN_S),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._ages = Ages()  # Of finished proposals.

    async def reconcile(self, key: Key) -> ReconcileResult:
        proposed = self._kit.snapshot().get("RepairProposal", key)
        if proposed is None:
            self._ages.forget(key)
            return ReconcileResult.never()
        kind = SUBJECTS.get(str(lookup(proposed, "spec", "subject", "kind")))
        believed = why_not_carried_out(proposed) is None
        subject = await self._subject(kind, proposed) if kind is not None and believed else None
        node = await self._node(subject)
        names = await self._names(subject)
        view = self._kit.snapshot()
        if view.get("RepairProposal", key) is not proposed:
            return ReconcileResult.in_s(0.1, "it changed while its subject was read")
        of_overrides = self._of_overrides(view, proposed, subject, names)
        plan = self._plan(proposed, subject, node, of_overrides)
        applied = await self._kit.apply(key, plan, seen=view)
        if applied.failure is not None or plan.why != APPROVED or kind is None or subject is None:
            return ReconcileResult.after(applied, in_s=SCAN_S, why="the next scan")
        if not await self._is_still_approved(key, subject, node, of_overrides, names):
            return ReconcileResult.in_s(1.0, "the decision changed")
        by = None if lookup(proposed, "status", "approved") else of_overrides.approval
        repair = plan_repair(target(kind.name, subject, kind.resource), subject, proposed, by)
        return await self._carry_out(key, repair, view)

    async def _names(self, subject: Obj | None) -> tuple[WorkloadName, ...]:
        """The subject and its controllers; of a reservation the workload that it is for."""
        if subject is None:
            return ()
        if subject.get("kind") != RESERVATION.name:
            return workload_names(str(subject.get("kind") or ""), subject)
        return await fetch_workload_names(self._kit.api, subject)

    def _of_overrides(
        self, view: Snapshot, proposed: Obj, subject: Obj | None, names: tuple[WorkloadName, ...]
    ) -> _OfOverrides:
        namespace = key_of(proposed).namespace
        if subject is None or not overrides_for(view, namespace):
            return _OfOverrides()
        return self._judged(view, view.list("SchedulerOverride", namespace), proposed, subject, names)

    def _judged(
        self,
        view: Snapshot,
        approving: Iterable[Obj],
        proposed: Obj,
        subject: Obj,
        names: tuple[WorkloadName, ...],
    ) -> _OfOverrides:
        now_ns = self._kit.now_ns()
        in_scope = in_scope_of(view, lambda: (subject,))
        approval = approval_by_override(proposed, approving, names=names, in_scope=in_scope, now_ns=now_ns)
        return _OfOverrides(approval, repair_pause(view, subject, names, now_ns=now_ns))

    def _plan(self, proposed: Obj, subject: Obj | None, node: Obj | None, of_overrides: _OfOverrides) -> Plan:
        return plan_proposal(
            proposed,
            subject,
            node,
            now_ns=self._kit.now_ns(),
            now=self._kit.now(),
            approval=of_overrides.approval,
            pause=of_overrides.pause,
            over_s=self._over_s(proposed),
        )

    def _over_s(self, proposed: Obj) -> float:
        now, now_ns = self._kit.now(), self._kit.monotonic_ns()
        return self._ages.age_s(key_of(proposed), over_since(proposed), now=now, now_ns=now_ns) or 0.0

    async def _is_still_approved(
        self,
        key: Key,
        subject: Obj,
        node: Obj | None,
        of_overrides: _OfOverrides,
        names: tuple[WorkloadName, ...],
    ) -> bool:
        """By the server's state: our view may be older than a decision that withdraws the approval, or than
        the end of the override that gave it."""
        proposed = await self._kit.api.get(PROPOSAL.resource, *key)
        if proposed is None:
            return False
        if of_overrides.approval is not None:
            override = await self._kit.api.get(
                OVERRIDE.resource, key.namespace, of_overrides.approval.override
            )
            still = () if override is None else (override,)
            of_overrides = self._judged(self._kit.snapshot(), still, proposed, subject, names)
        return self._plan(proposed, subject, node, of_overrides).why == APPROVED

    async def _subject(self, kind: WatchedKind, proposed: Obj) -> Obj | None:
        at = subject_key(proposed)
        subject = await self._kit.api.get(kind.resource, at.namespace, at.name)
        wanted = lookup(proposed, "spec", "subject", "uid")
        return subject if subject is not None and uid_of(subject) == wanted else None

    async def _node(self, subject: Obj | None) -> Obj | None:
        """The node of a pod, as the server shows it now."""
        where = str(lookup(subject, "spec", "nodeName") or "")
        return await self._kit.api.get(NODE.resource, "", where) if where else None

    async def _carry_out(self, key: Key, plan: Plan, view: Snapshot) -> ReconcileResult:
        """`view`: in which no override paused repair."""
        applied = await self._kit.apply(key, plan, seen=view)
        return ReconcileResult.after(applied, in_s=1.0, why="check that it is done")


def by_workload(reservation: Obj) -> tuple[str, ...]:
    return (read(Reservation, reservation).spec.workload.uid,)


def by_subject(proposed: Obj) -> tuple[str, ...]:
    return (str(lookup(proposed, "spec", "subject", "uid") or ""),)


def _owners(uids: set[str], view: View) -> tuple[Key, ...]:
    """The WorkloadProgresses of the workloads with these UIDs, or of their owners."""
    seen = view()
    above = {
        uid
        for replica_set in seen.list("ReplicaSet")
        if uid_of(replica_set) in uids
        for uid in by_owner(replica_set)
    }
    progresses = [
        progress
        for uid in sorted(uids | above)
        for progress in seen.by_index("WorkloadProgress", "workload", uid)
    ]
    return tuple(key_of(progress) for progress in progresses)


def _of_reservation(reservation: Obj, view: View) -> tuple[Key, ...]:
    return _owners({*by_workload(reservation), *by_owner(reservation)}, view)


def _of_proposal(proposed: Obj, view: View) -> tuple[Key, ...]:
    pod = view().get("Pod", subject_key(proposed))
    return _owners({*by_subject(proposed), *(by_owner(pod) if pod is not None else ())}, view)


def _workload_of(progress: Obj) -> tuple[str, ...]:
    return (str(lookup(progress, "spec", "workload", "uid") or ""),)


class RepairCompletion:
    """Writes for each workload whether anything of it is left to repair."""

    name = "repair-completion"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(PROGRESS, conditions=False, indexes={**STANDARD, "workload": _workload_of}),
        Related(RESERVATION, concerns=_of_reservation, indexes={**STANDARD, "workload": by_workload}),
        Related(PROPOSAL, concerns=_of_proposal, indexes={**STANDARD, "subject": by_subject}),
        Related(REPLICA_SET),
        Related(POD, indexes=FOR_PODS),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("WorkloadProgress", ("spec", "status")),
        Reads("Reservation"),
        Reads("RepairProposal"),
        Reads("ReplicaSet", ("metadata.ownerReferences",)),
        Reads("Pod", ("metadata", "spec", "status")),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("WorkloadProgress", ("status.conditions[type=RepairComplete]",)),
    )
    timers: ClassVar[tuple[Timer, ...]] = (Timer("scan", SCAN_S),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        progress = view.get("WorkloadProgress", key)
        if progress is None:
            return ReconcileResult.never()
        uid = _workload_of(progress)[0]
        owner_uids = [uid, *(uid_of(replica_set) for replica_set in view.owned("ReplicaSet", uid))]
        pods = [pod for owner_uid in owner_uids for pod in view.owned("Pod", owner_uid)]
        reservations = [
            reservation
            for owner_uid in owner_uids
            for reservation in view.by_index("Reservation", "workload", owner_uid)
        ]
        subjects = [*owner_uids, *(uid_of(pod) for pod in pods)]
        proposed = [
            proposal
            for subject_uid in subjects
            for proposal in view.by_index("RepairProposal", "subject", subject_uid)
        ]
        loose = loose_ends(reservations, pods, proposed, now_ns=self._kit.now_ns())
        plan = plan_complete(progress, loose, now=self._kit.now())
        applied = await self._kit.apply(key, plan, seen=view)
        return ReconcileResult.after(
            applied, in_s=SCAN_S if reservations or loose else None, why="the next scan"
        )
