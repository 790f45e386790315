"""The scheduler's view of the cluster: the node table, policies, quotas, overrides and volumes.

It takes the caches' changes in any order, and gives the `PlacementContext` under which one pod is decided. It
never waits or sends, so `fathom why` and the simulator use the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fathom.kinds.capacity_class import CapacityClass
from fathom.kinds.override_scope import grant_the_same
from fathom.kinds.policy_rollout import PolicyRollout
from fathom.kinds.reservation import HOLDER_UID, HOLDING, Reservation
from fathom.kinds.scheduler_override import USED_OVERRIDES, SchedulerOverride, override_active
from fathom.kinds.scheduling_policy import SchedulingPolicy
from fathom.kinds.shape import read
from fathom.kinds.tenant_quota import TenantQuota
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup, metadata, uid_of
from fathom.model.tenancy import TENANT, tenant_of
from fathom.model.times import moment_ns
from fathom.model.trust import lost_of
from fathom.schedule.decide import rules
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.decide.delayed_claims import delayed_claim, is_bound
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.place import Decider
from fathom.schedule.decide.pods import PodView, ShapeReader
from fathom.schedule.decide.preempt import DisruptionBudget, Preempter, Preemption
from fathom.schedule.decide.resolve import (
    allowed_by,
    avoided_by,
    concerns,
    needs_of,
    other_policy,
    override_name,
    policy_for,
    quota_of,
    raised_by,
    reserved_of,
    volume_of,
)
from fathom.schedule.decide.rules import RULES, Rules
from fathom.schedule.decide.shape import Needs
from fathom.schedule.loop.consulted import ConsultedObjects
from fathom.schedule.loop.evictions import budget_of
from fathom.schedule.loop.override_ends import OverrideEnds
from fathom.schedule.loop.raised_priorities import RaisedPriorities
from fathom.schedule.loop.reservations import holder_of

CONTEXTS_MAX = 10_000
NOT_KNOWN = (0, 0)
HIGHEST = 2**31 - 1  # No pod has priority over reserved room.

_READ: Mapping[str, type[Any]] = {
    "TenantQuota": TenantQuota,
    "CapacityClass": CapacityClass,
    "SchedulingPolicy": SchedulingPolicy,
    "PolicyRollout": PolicyRollout,
    "SchedulerOverride": SchedulerOverride,
}
_EVENTS = {
    "TenantQuota": rules.QUOTA_CHANGED,
    "CapacityClass": rules.CLASS_CHANGED,
    "SchedulingPolicy": rules.POLICY_CHANGED,
    "PolicyRollout": rules.POLICY_CHANGED,
    "SchedulerOverride": rules.OVERRIDE_CHANGED,
    "PersistentVolume": rules.VOLUME_CHANGED,
    "PersistentVolumeClaim": rules.VOLUME_CHANGED,
    "StorageClass": rules.VOLUME_CHANGED,
}


class HeldRoom(msgspec.Struct, frozen=True):
    """What a Reservation holds, on which node, and for which tenant."""

    key: Key
    uid: str  # The reservation's own.
    node: str
    needs: Needs
    tenant: str
    capacity_class: str
    expires_ns: int = 0  # 0: never.

    @property
    def holder(self) -> str:
        return "/".join(("reservation", *self.key))

    def as_object(self, pod: str) -> Obj:
        """The reservation as an object, with only the fields that this package reads."""
        notes = {HOLDER_UID: pod}
        meta = {"namespace": self.key.namespace, "name": self.key.name, "uid": self.uid, "annotations": notes}
        return {"metadata": meta, "spec": {"nodeName": self.node}}


class ClusterView:
    def __init__(self, *, tie_seed: int = 0, rules: Rules = RULES) -> None:
        self.table = NodeTable()
        self.decider = Decider(self.table, rules)
        self.preempter = Preempter(self.table, rules)
        self._reader = ShapeReader()
        self._tie_seed = tie_seed
        self._own: dict[str, dict[Key, Any]] = {kind: {} for kind in _READ}
        self._volumes: dict[str, Obj] = {}
        self._claims: dict[Key, Obj] = {}
        self._classes: dict[str, Obj] | None = None  # None: nobody binds claims here.
        self._namespaces: dict[str, Obj] = {}
        self._budgets: dict[Key, DisruptionBudget] = {}
        self._users: dict[str, str] = {}  # UID of a bound pod -> the overrides that it uses.
        self._contexts: dict[
            Any, PlacementContext
        ] = {}  # By shape; dropped whenever anything in them changes.
        self._nominated: dict[str, str] = {}  # UID -> the node that we have chosen; see `nominate`.
        self._given_up: dict[str, str] = {}  # UID -> the node it does not wait for any more.
        self.held_for: dict[str, HeldRoom] = {}  # UID of a pod -> the room reserved for it.
        self._lowest = HIGHEST  # The lowest priority of any pod so far.
        self._refused_nodes: tuple[str, ...] = ()
        self._lost: dict[str, int] = {}  # Node -> lost trust; only nodes that have lost some.
        self._ends = OverrideEnds()
        # From when until when the contexts hold: no override ends in between. A clock may be set back, too.
        self._contexts_hold_ns = NOT_KNOWN
        self.raised = RaisedPriorities(self.table)
        self.consulted = ConsultedObjects()  # For records; no rule reads them.

    # Changes from the caches.

    def put(self, kind: str, before: Obj | None, after: Obj | None) -> tuple[str, ...]:
        """Apply a change of any kind but Pod. Returns the events that pods may have waited for."""
        match kind:
            case "Node":
                return self._put_node(before, after)
            case "Namespace":
                return self._put_namespace(before, after)
            case "Reservation":
                return self._put_reservation(before, after)
            case "PodDisruptionBudget":
                budget = None if after is None else budget_of(after)
                _keep(self._budgets, key_of(after or before or {}), budget)
                self.consulted.put(kind, before, after)
                return ()
            case "PersistentVolume":
                _keep(self._volumes, key_of(after or before or {}).name, after)
            case "PersistentVolumeClaim":
                _keep(self._claims, key_of(after or before or {}), after)
            case "StorageClass" if self._classes is not None:
                _keep(self._classes, key_of(after or before or {}).name, after)
            case _ if kind in _READ:
                self.consulted.put(kind, before, after)
                if (
                    before is not None
                    and after is not None
                    and _spec_and_phase(before) == _spec_and_phase(after)
                ):
                    return ()  # A status that no rule reads.
                self._put_own(kind, before, after)
            case _:
                return ()
        self._contexts.clear()
        return (_EVENTS[kind],)

    def _put_node(self, before: Obj | None, after: Obj | None) -> tuple[str, ...]:
        name = key_of(after or before or {}).name
        trusted = self._trust(name, 0 if after is None else lost_of(after).points)
        if after is None:
            self.table.remove_node(name)
            return (rules.NODE_CHANGED,)  # One domain fewer may satisfy a spread constraint.
        existed = name in self.table.row_of
        if not self.table.put_node(after):
            return trusted
        return (*trusted, rules.NODE_CHANGED if existed else rules.NODE_ADDED)

    def _trust(self, node: str, lost: int) -> tuple[str, ...]:
        if self._lost.get(node, 0) == lost:
            return ()
        _keep(self._lost, node, lost or None)
        self._contexts.clear()
        return (rules.TRUST_CHANGED,)

    def _put_namespace(self, before: Obj | None, after: Obj | None) -> tuple[str, ...]:
        name = key_of(after or before or {}).name
        _keep(self._namespaces, name, after)
        if after is None:
            return (rules.NAMESPACE_CHANGED,) if self.table.remove_namespace(name) else ()
        return (rules.NAMESPACE_CHANGED,) if self.table.put_namespace(name, labels_of(after)) else ()

    def _put_own(self, kind: str, before: Obj | None, after: Obj | None) -> None:
        try:
            struct = None if after is None else read(_READ[kind], after)
        except msgspec.ValidationError:
            struct = None  # Written by another server or a newer version: it is ignored.
        _keep(self._own[kind], key_of(after or before or {}), struct)
        if kind == "CapacityClass":
            self.table.set_reserved(
                [reserved_of(capacity_class) for capacity_class in self._objects("CapacityClass")]
            )
        elif kind == "SchedulerOverride":
            self._ends.put(self._own[kind])
            self._contexts_hold_ns = NOT_KNOWN
            self.raised.put(self._objects(kind))

    def passing(self, *, now_ns: int) -> list[tuple[Key, str]]:
        """Overrides that have ended since the last call, or that are in force again because the clock was set
        back: neither makes a cache change."""
        return self._ends.passed(now_ns)

    # Pods.

    def tenant_changed(self, before: Obj | None, after: Obj | None) -> bool:
        """Whether a namespace's pods belong to another tenant now."""
        old, new = (
            labels_of(namespace).get(TENANT) if namespace is not None else None
            for namespace in (before, after)
        )
        return old != new

    def view(self, pod: Obj) -> PodView:
        namespace = str(metadata(pod).get("namespace") or "")
        view = self._reader.view(pod, tenant=tenant_of(pod, self._namespaces.get(namespace)))
        self._lowest = min(self._lowest, view.priority)
        used = (metadata(pod).get("annotations") or {}).get(USED_OVERRIDES)
        if used and view.node:
            self._note_used_overrides(view, "" if view.finished else used)
        return view

    def put_pod(self, pod: Obj) -> PodView:
        """Count a pod where it is; for callers without a queue of waiting pods."""
        view = self.view(pod)
        self.table.put_pod(view)
        if not view.node and not view.finished:
            self.nominate(view)
        return view

    def gone(self, uid: str) -> None:
        if self._users.pop(uid, None) is not None:
            self._contexts.clear()

    def _note_used_overrides(self, view: PodView, used: str) -> None:
        if self._users.get(view.uid, "") != used:
            self._contexts.clear()
            _keep(self._users, view.uid, used or None)

    def nominate(self, view: PodView, node: str = "") -> None:
        """Claim the room that is made for the pod: on the node we have chosen, before its status says so;
        else on its reservation's node; else on the node its status names."""
        if node:
            self._nominated[view.uid] = node
            self._given_up.pop(view.uid, None)
        room = self.held_for.get(view.uid)
        told = view.nominated if self._given_up.get(view.uid) != view.nominated else ""
        chosen = self._nominated.get(view.uid) or (room.node if room is not None else told)
        if room is not None and room.node == chosen:
            self.table.unclaim(room.holder)  # The room is the pod's own, so it must not block the pod.
            self._claim(view.uid, room)
        elif chosen:
            self.table.claim(view.uid, chosen, view.shape.requests, priority=view.priority)
        elif view.uid in self.table.claims:
            self.table.unclaim(view.uid)

    def unnominate(self, uid: str) -> None:
        """Drop the pod's claim. Its reservation keeps the room taken until the reservation is gone."""
        self._nominated.pop(uid, None)
        self._given_up.pop(uid, None)
        if uid in self.table.claims:
            self.table.unclaim(uid)
        if uid in self.held_for:
            self._claim(self.held_for[uid].holder, self.held_for[uid])

    def give_up(self, uid: str, node: str) -> None:
        """Drop the claim of a pod that goes on waiting. Its status still names the node, and the pod's next
        event must not claim it again."""
        self.unnominate(uid)
        self._given_up[uid] = node

    def forget_choices(self, waiting: Iterable[PodView]) -> None:
        """When a term begins: who led since then may have chosen otherwise, as the pods' status says."""
        self._nominated.clear()
        self._given_up.clear()
        for view in waiting:
            self.nominate(view)

    def _claim(self, holder: str, room: HeldRoom) -> None:
        self.table.claim(
            holder,
            room.node,
            room.needs,
            priority=HIGHEST,
            tenant=room.tenant,
            capacity_class=room.capacity_class,
        )

    def _put_reservation(self, before: Obj | None, after: Obj | None) -> tuple[str, ...]:
        """Count the room that a reservation holds as taken, for every pod but its own."""
        room = self._held_room(after)
        old_holder = "" if before is None else holder_of(before)
        holder = "" if after is None or room is None else holder_of(after)
        freed = False
        if (
            old_holder
            and old_holder != holder
            and old_holder in self.held_for
            and self.held_for[old_holder].uid == uid_of(before or {})
        ):
            del self.held_for[old_holder]
            freed = old_holder not in self._nominated and self.table.unclaim(old_holder)
        if room is None:
            freed |= self.table.unclaim("/".join(("reservation", *key_of(after or before or {}))))
            return (rules.POD_GONE,) if freed or old_holder else ()
        if holder:
            self.held_for[holder] = room
        if holder and holder in self.table.claims and self._nominated.get(holder, room.node) == room.node:
            self.table.unclaim(room.holder)
            self._claim(holder, room)
        else:
            self._claim(room.holder, room)
        return ()

    def _held_room(self, obj: Obj | None) -> HeldRoom | None:
        """The room that a reservation holds. None: it holds nothing on a node."""
        try:
            reservation = None if obj is None else read(Reservation, obj)
        except msgspec.ValidationError:
            return None
        if (
            obj is None
            or reservation is None
            or not reservation.spec.node_name
            or reservation.status.phase not in HOLDING
        ):
            return None
        return HeldRoom(
            key=key_of(obj),
            uid=reservation.metadata.uid,
            node=reservation.spec.node_name,
            needs=needs_of(reservation.spec.resources),
            tenant=tenant_of(obj, self._namespaces.get(reservation.metadata.namespace)),
            capacity_class=reservation.spec.capacity_class,
            expires_ns=moment_ns(reservation.spec.expires_at) or 0,
        )

    # Questions of the decider.

    def preemption(self, pod: PodView, world: PlacementContext) -> Preemption:
        """Which pods to evict for a pod that no node takes."""
        if pod.shape.gates or pod.priority <= self._lowest:
            return Preemption(None)  # No pod has a lower priority: not worth a pass over all nodes.
        budgets = tuple(budget for _, budget in sorted(self._budgets.items()))
        room = self.held_for.get(pod.uid)
        nominated = self._nominated.get(pod.uid) or (room.node if room is not None else "")
        if nominated and not pod.nominated:  # Not in its status yet; do not evict a second set.
            pod = msgspec.structs.replace(pod, nominated=nominated)
        return self.preempter.preempt(pod, world, budgets)

    def context(
        self, pod: PodView, *, now_ns: int, view_age_ms: int = 0, refused_nodes: tuple[str, ...] = ()
    ) -> PlacementContext:
        """The context that the pod is decided under. The same object as before while nothing in it has
        changed, so that a pass over the nodes can go on."""
        if refused_nodes != self._refused_nodes:
            self._refused_nodes = refused_nodes
            self._contexts.clear()
        self._drop_contexts_of_another_time(now_ns)
        key = (pod.shape, "" if pod.shape.workloads else pod.key.name if self._is_personal() else "")
        context = self._contexts.get(key)
        if context is None:
            if len(self._contexts) >= CONTEXTS_MAX:
                self._contexts.clear()
            context = self._contexts[key] = self._resolve(pod, now_ns)
        holder = pod.uid if pod.uid in self.table.claims else ""
        if holder or context.policy.max_view_age_ms is not None:
            return msgspec.structs.replace(context, view_age_ms=view_age_ms, holder=holder)
        return context

    def _drop_contexts_of_another_time(self, now_ns: int) -> None:
        """`passing` is not asked while nobody leads, or while a request waits for its answer: an override
        ends then too."""
        since_ns, until_ns = self._contexts_hold_ns
        if not since_ns <= now_ns < until_ns:
            self._contexts.clear()
            self._contexts_hold_ns = self._ends.around(now_ns)

    def _is_personal(self) -> bool:
        """Whether an override or a rollout may name single pods that have no workload."""
        return bool(self._own["SchedulerOverride"] or self._own["PolicyRollout"])

    def is_alone(self, pod: PodView) -> bool:
        """Whether other pods of its shape may need another context."""
        return pod.uid in self.table.claims or (not pod.shape.workloads and self._is_personal())

    def _resolve(self, pod: PodView, now_ns: int) -> PlacementContext:
        overrides = [
            override for override in self._objects("SchedulerOverride") if override_active(override, now_ns)
        ]
        policies = {policy.metadata.name: policy for policy in self._objects("SchedulingPolicy")}
        quota = self._own["TenantQuota"].get(Key("", pod.tenant))
        return PlacementContext(
            policy=policy_for(pod, self._objects("PolicyRollout"), policies),
            quota=None if quota is None else quota_of(quota),
            avoided=tuple(avoidance for override in overrides for avoidance in avoided_by(override, pod)),
            allowed=tuple(
                allowed for override in overrides for allowed in self._allowed(override, pod, overrides)
            ),
            raised=tuple(override_name(each) for each in overrides if raised_by(each, pod) is not None),
            trust_lost=dict(self._lost),
            refused_nodes=self._refused_nodes,
            volumes=self._volumes_of(pod),
            tie_seed=self._tie_seed,
        )

    def under_other_policy(self, pod: PodView, context: PlacementContext) -> PlacementContext | None:
        """The pod's context on the other side of a canary that concerns it; None if there is none."""
        if not self._own["PolicyRollout"]:
            return None
        policies = {policy.metadata.name: policy for policy in self._objects("SchedulingPolicy")}
        policy = other_policy(pod, context.policy, self._objects("PolicyRollout"), policies)
        return None if policy is None else msgspec.structs.replace(context, policy=policy)

    def _allowed(
        self, override: SchedulerOverride, pod: PodView, active: list[SchedulerOverride]
    ) -> Iterable[Any]:
        """Pods that another override has let in which grants the pod the same count too, as at the bind."""
        if not override.spec.changes.allow_reserved_capacity_class:
            return ()
        alike = {
            override_name(each) for each in active if grant_the_same(each, override) and concerns(each, pod)
        }
        used = sum(not alike.isdisjoint(overrides.split(",")) for overrides in self._users.values())
        return allowed_by(override, pod, used=used)

    def _volumes_of(self, pod: PodView) -> dict[tuple[str, str], Any]:
        namespace = pod.key.namespace
        return {
            (namespace, claim): volume_of(
                self._claims.get(Key(namespace, claim)), self._volumes, self._classes
            )
            for claim in pod.shape.claims
        }

    def follow_storage_classes(self) -> None:
        """Others bind claims and provision volumes for the pods that are placed here."""
        self._classes = {}

    def delayed_claims(self, pod: PodView) -> list[Obj]:
        """Its claims that wait for it, and are not bound yet."""
        if self._classes is None:
            return []
        claims = [self._claims.get(Key(pod.key.namespace, name)) for name in pod.shape.claims]
        return [
            claim
            for claim in claims
            if claim is not None
            and not is_bound(claim)
            and delayed_claim(claim, self._volumes, self._classes) is not None
        ]

    def claim(self, key: Key) -> Obj | None:
        return self._claims.get(key)

    @property
    def volumes(self) -> Mapping[str, Obj]:
        return self._volumes

    def _objects(self, kind: str) -> list[Any]:
        """Sorted by key: the order must not depend on which object came first."""
        return [obj for _, obj in sorted(self._own[kind].items())]


def _keep(mapping: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value


def _spec_and_phase(obj: Obj) -> tuple[Any, ...]:
    """The parts of a fathom.dev object that rules read; not its counts and acknowledgements in status."""
    status = obj.get("status") or {}
    fields = ("active", "approval", "canary", "percent", "expiresAt", "phase")
    read_status = {name: status.get(name) for name in fields}
    return obj.get("spec"), read_status, lookup(obj, "metadata", "deletionTimestamp")
