"""The override controller: collects what a plan for an override needs, and applies `plan_override`."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import ClassVar

import msgspec

from fathom.cache.indexes import FOR_PODS, STANDARD
from fathom.cache.snapshot import Snapshot
from fathom.client.outcomes import Committed, Outcome, Rejected
from fathom.control.commit import AppliedPlan
from fathom.control.component_leases import ComponentLeases
from fathom.control.kit import Kit
from fathom.control.plan import Evict, Patch, Plan
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import (
    AUTOSCALER,
    DEPLOYMENT,
    JOB,
    NODE,
    POD,
    REPLICA_SET,
    SERVICE,
    Primary,
    Related,
    View,
    Watch,
    own,
)
from fathom.controllers.override_pauses import OVERRIDE, in_scope_of
from fathom.controllers.overrides.break_glass import fetch_made_under, fetch_role_exists
from fathom.controllers.overrides.effects import fields_of, holds_class
from fathom.controllers.overrides.events import of_override
from fathom.controllers.overrides.facts import (
    OverrideFacts,
    by_override,
    charged_override,
    nodes_of,
    owner_uid,
)
from fathom.controllers.overrides.plan import WAITS_FOR_CACHES, plan_override
from fathom.controllers.overrides.plan_evictions import belongs_to_node
from fathom.kinds import capacity_class, repair_proposal, reservation, traffic_route
from fathom.kinds.override_scope import WorkloadName, workload_names
from fathom.kinds.override_status import has_ended
from fathom.kinds.reservation import HOLDING
from fathom.kinds.scheduler_override import SchedulerOverride, expiry_ns, named
from fathom.kinds.shape import read
from fathom.model.declared import DISRUPTIONS, TENANT_QUOTAS, Reads, Timer, Writes
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.model.tenancy import ACCOUNT

RESERVATION = own(reservation.DEFINITION)
ROUTE = own(traffic_route.DEFINITION)
CAPACITY_CLASS = own(capacity_class.DEFINITION)
PROPOSAL = own(repair_proposal.DEFINITION)
WORKLOADS = {"deployment": "Deployment", "replicaset": "ReplicaSet", "job": "Job"}

# What matches may change without an event here: nodes, classes, workloads; and an acknowledger may die.
LOOK_S = 15.0
# While pods leave, and while the end is being proven.
SOON_S = 1.0
# What is left may go without an event that names it: a taint, a role.
RESIDUE_S = 5.0
# How long a pod whose eviction or new account was refused is left alone.
REFUSED_S = 30.0
# Overrides that expire together are ended one after the other, so that their targets are not woken at once.
STAGGER_S = 2.0
# The kinds in which effects are looked for.
EFFECTS = ("Pod", "Reservation", "TrafficRoute", "Node")


def _marked(obj: Obj, view: View) -> Iterable[Key]:
    """The overrides on whose account a pod or reservation is, or that its placement names."""
    marks = by_override(obj)
    if not marks:
        return ()
    overrides = view().list("SchedulerOverride")
    return tuple(
        key_of(each) for each in overrides if uid_of(each) in marks or "/".join(key_of(each)) in marks
    )


def _named_by_node(node: Obj, view: View) -> Iterable[Key]:
    """The overrides whose UID a taint or mark of the node has: it is recorded before somebody removes it."""
    fields = [field for field in fields_of(node) if field.value]
    if not fields:
        return ()
    overrides = view().list("SchedulerOverride")
    return tuple(key_of(each) for each in overrides if any(field.is_marked(uid_of(each)) for field in fields))


def _shifting(route: Obj, view: View) -> Iterable[Key]:
    overrides = view().list("SchedulerOverride", key_of(route).namespace)
    return tuple(
        key_of(each)
        for each in overrides
        if ((each.get("spec") or {}).get("changes") or {}).get("trafficWeights")
    )


class Overrides:
    name = "overrides"
    event_reports = staticmethod(of_override)
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(OVERRIDE, conditions=False),
        Related(POD, concerns=_marked, indexes={**FOR_PODS, "override": by_override}),
        Related(RESERVATION, concerns=_marked, indexes={**STANDARD, "override": by_override}),
        Related(ROUTE, concerns=_shifting),
        Related(NODE, concerns=_named_by_node),
        Related(SERVICE),
        Related(DEPLOYMENT),
        Related(REPLICA_SET),
        Related(JOB),
        Related(AUTOSCALER),
        Related(CAPACITY_CLASS),
        Related(PROPOSAL),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("SchedulerOverride"),
        Reads("Pod", ("metadata", "spec.nodeName", "status")),
        Reads("Reservation", ("metadata", "spec", "status")),
        Reads("TrafficRoute", ("metadata", "spec")),
        Reads("Node", ("metadata", "spec.taints")),
        Reads("Service", ("spec.selector",)),
        Reads("Deployment", ("metadata", "spec.template.metadata.labels")),
        Reads("ReplicaSet", ("metadata", "spec.template.metadata.labels")),
        Reads("Job", ("metadata", "spec.template.metadata.labels")),
        Reads("HorizontalPodAutoscaler", ("spec.scaleTargetRef",)),
        Reads("CapacityClass", ("spec",)),
        Reads("RepairProposal", ("metadata",)),
        Reads("Lease", ("metadata.annotations", "spec"), source="api"),
        Reads("ClusterRole", ("metadata",), source="api"),
        Reads("ClusterRoleBinding", ("metadata",), source="api"),
        Reads("Role", ("metadata",), source="api"),
        Reads("RoleBinding", ("metadata",), source="api"),
        Reads("ServiceAccount", ("metadata",), source="api"),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("SchedulerOverride", ("metadata.finalizers", "status")),
        Writes("Pod", ("metadata.annotations",), deletes=True),
        Writes("Reservation", deletes=True),
        Writes("TrafficRoute", ("metadata.annotations", "spec.routes"), creates=True, deletes=True),
    )
    takes: ClassVar[tuple[str, ...]] = (DISRUPTIONS, TENANT_QUOTAS)
    timers: ClassVar[tuple[Timer, ...]] = (Timer("what overrides match", LOOK_S),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._leases = ComponentLeases(kit.api)
        # UID of a pod -> why the server refused it, and until when it is left alone, monotonic.
        self._refused: dict[str, tuple[str, int]] = {}

    async def reconcile(self, key: Key) -> ReconcileResult:
        obj = self._kit.snapshot().get("SchedulerOverride", key)
        override = _readable(obj)
        if obj is None or override is None:
            return ReconcileResult.never()
        wait_s = self._stagger_s(override)
        if wait_s > 0:
            return ReconcileResult.in_s(wait_s, "overrides that expire together end one after the other")
        facts = await self._fetch(override)
        view = self._kit.snapshot()
        if view.get("SchedulerOverride", key) is not obj:
            return ReconcileResult.in_s(0.05, "it changed while leases and roles were read")
        plan = plan_override(
            obj,
            override,
            self._collect(override, view, facts),
            now=self._kit.now(),
            now_ns=self._kit.now_ns(),
        )
        applied = await self._kit.apply(key, plan, seen=view)
        if self._remember_refusals(plan, applied):
            return ReconcileResult.in_s(SOON_S, "the server refused a pod; the others are next")
        return ReconcileResult.after(applied, in_s=self._next_s(override, plan), why="the next check")

    def _stagger_s(self, override: SchedulerOverride) -> float:
        """How long the end of an expired override waits for its turn. A deleted one does not wait."""
        expires_ns, now_ns = expiry_ns(override), self._kit.now_ns()
        if expires_ns is None or override.metadata.deletion_timestamp or now_ns < expires_ns:
            return 0.0
        turn_s = STAGGER_S * (zlib.crc32(override.metadata.uid.encode()) % 1000) / 1000
        return turn_s - (now_ns - expires_ns) / 1e9

    async def _fetch(self, override: SchedulerOverride) -> OverrideFacts:
        """What is not cached: leases, and roles where the override grants one."""
        api, role = self._kit.api, override.spec.changes.break_glass_role
        recorded = [each for each in override.status.effects if each.effect == "role"]
        made_under_it = (
            await fetch_made_under(api, override.metadata.uid, recorded) if role or recorded else ()
        )
        if has_ended(override, self._kit.now_ns()):
            return OverrideFacts(made_under_it=made_under_it)
        leases = await self._leases.fetch()
        exists = await fetch_role_exists(api, role) if role else True
        return OverrideFacts(leases=leases, role_exists=exists, made_under_it=made_under_it)

    def _collect(self, override: SchedulerOverride, view: Snapshot, fetched: OverrideFacts) -> OverrideFacts:
        namespace, uid = override.metadata.namespace, override.metadata.uid
        nodes, workloads = tuple(view.list("Node")), _workloads(override, view)
        residents = self._residents(override, view, nodes) if override.spec.changes.drain else ()
        marks = (uid, f"{namespace}/{override.metadata.name}")
        placements = {uid_of(pod): pod for mark in marks for pod in view.by_index("Pod", "override", mark)}
        owners = dict.fromkeys(owner_uid(pod) for pod in (*residents, *placements.values()))
        return msgspec.structs.replace(
            fetched,
            nodes=nodes,
            workloads=workloads,
            in_scope=in_scope_of(view, lambda: _pods(workloads, view))(override.spec.scope),
            autoscalers=tuple(view.list("HorizontalPodAutoscaler", namespace)),
            classes=tuple(view.list("CapacityClass")),
            proposals=tuple(view.list("RepairProposal", namespace)),
            services=tuple(view.list("Service", namespace)),
            routes=tuple(view.list("TrafficRoute", namespace)),
            residents=residents,
            placements=tuple(placements.values()),
            reservations=_reservations(override, view),
            siblings={owner: tuple(view.owned("Pod", owner)) for owner in owners if owner},
            refused=self._still_refused(),
            epoch=self._kit.epoch,
            cache_revision=view.revision("SchedulerOverride"),
            seen_revision=min(view.revision(kind) for kind in EFFECTS),
        )

    def _residents(
        self, override: SchedulerOverride, view: Snapshot, nodes: tuple[Obj, ...]
    ) -> tuple[Obj, ...]:
        """Pods that a drain evicts. A DaemonSet's and the node's own belong to the node."""
        drained = nodes_of(override, nodes)
        pods = [pod for node in drained for pod in view.by_index("Pod", "node", key_of(node).name)]
        return tuple(pod for pod in pods if not is_terminal(pod) and not belongs_to_node(pod))

    def _still_refused(self) -> dict[str, str]:
        now_ns = self._kit.monotonic_ns()
        self._refused = {uid: each for uid, each in self._refused.items() if now_ns < each[1]}
        return {uid: why for uid, (why, _) in self._refused.items()}

    def _remember_refusals(self, plan: Plan, applied: AppliedPlan) -> bool:
        """Whether a pod's eviction or new account was refused: it is left alone for a while, the others are
        not. The residue and the drain's state say why."""
        outcomes: dict[str, Outcome] = dict(applied.outcomes)
        until_ns = self._kit.monotonic_ns() + round(REFUSED_S * 1e9)
        refused = {
            action.target.uid: (why, until_ns)
            for action in plan.actions
            if isinstance(action, Evict | Patch) and action.target.kind == POD.name
            if (why := _refusal(action, outcomes.get(action.line)))
        }
        self._refused |= refused
        return bool(refused)

    def _next_s(self, override: SchedulerOverride, plan: Plan) -> float | None:
        """When to look again. None: its end is proven, and events of marked objects wake it."""
        now_ns, expires_ns = self._kit.now_ns(), expiry_ns(override)
        busy = bool(plan.actions)
        if has_ended(override, now_ns):
            soon = busy or plan.statuses or plan.why == WAITS_FOR_CACHES
            return SOON_S if soon else RESIDUE_S if plan.why else None
        left_s = LOOK_S if expires_ns is None else (expires_ns - now_ns) / 1e9
        return min(SOON_S if busy else LOOK_S, max(left_s, 0.0) + 0.01)


def _refusal(action: Evict | Patch, outcome: Outcome | None) -> str:
    """Why the server did not do it; '': it did, or there was no answer. A server without fathom's ledger
    accepts another account, and so does ours for other accounts than the controllers', to no effect."""
    if isinstance(outcome, Rejected) and outcome.code in {403, 422, 429}:
        return outcome.message
    if isinstance(action, Patch) and isinstance(outcome, Committed):
        wanted = lookup(action.patch, "metadata", "annotations", ACCOUNT)
        if wanted is not None and lookup(outcome.obj, "metadata", "annotations", ACCOUNT) != wanted:
            return "the server did not move it to the ordinary account"
    return ""


def _readable(obj: Obj | None) -> SchedulerOverride | None:
    if obj is None:
        return None
    try:
        return read(SchedulerOverride, obj)
    except msgspec.ValidationError:
        return None


def _reservations(override: SchedulerOverride, view: Snapshot) -> tuple[Obj, ...]:
    """Those that hold room on the override's account, or room of the class that it lends, and those that are
    recorded; not those that are marked, for anybody may mark one."""
    uid, classes = override.metadata.uid, tuple(view.list("CapacityClass"))
    recorded = {each.uid for each in override.status.effects if each.effect == "reservation"}
    return tuple(
        obj
        for obj in view.list("Reservation", override.metadata.namespace)
        if (lookup(obj, "status", "phase") or "") in HOLDING
        if charged_override(obj) == uid
        or uid_of(obj) in recorded
        or holds_class(override, obj, _held_for(override, obj, view), classes)
    )


def _held_for(override: SchedulerOverride, reservation: Obj, view: Snapshot) -> tuple[WorkloadName, ...]:
    """The workload of a reservation, and the Deployment above it. One that is gone has the kind that the
    override asks for."""
    name = str(lookup(reservation, "spec", "workload", "name") or "")
    replica_set = view.get("ReplicaSet", Key(override.metadata.namespace, name))
    if replica_set is not None:
        return workload_names("ReplicaSet", replica_set)
    return (WorkloadName(override.spec.target.partition("/")[0], name),)


def _workloads(override: SchedulerOverride, view: Snapshot) -> tuple[Obj, ...]:
    """The workloads that the target names, each with its kind."""
    place = named(override.spec.target)
    if place is None:
        return ()
    kinds = list(WORKLOADS.values()) if place.kind == "workload" else [WORKLOADS.get(place.kind, "")]
    key = Key(override.metadata.namespace, place.name)
    workloads = [(kind, view.get(kind, key)) for kind in kinds if kind]
    return tuple({**obj, "kind": kind} for kind, obj in workloads if obj is not None)


def _pods(workloads: Iterable[Obj], view: Snapshot) -> Iterable[Obj]:
    """Pods of these workloads. Those of a Deployment are its ReplicaSets'."""
    for workload in workloads:
        sets = view.owned("ReplicaSet", uid_of(workload)) if workload["kind"] == "Deployment" else (workload,)
        for owner in sets:
            yield from view.owned("Pod", uid_of(owner))
