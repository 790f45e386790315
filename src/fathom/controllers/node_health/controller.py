"""Watches every node's heartbeats, and reacts when they stop. Level-based, per node.

The times of heartbeats are kept here, on the monotonic clock of the leading process: setting a wall clock
changes nothing, and a new leader gives every node a new grace period. So does a leader whose own watch
stalled: while our view of the leases is old, the silence of nodes does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from fathom.cache.indexes import FOR_NODES, FOR_PODS
from fathom.cache.needs import NoOlderThan
from fathom.cache.snapshot import Snapshot
from fathom.control.kit import Kit
from fathom.control.plan import Delete, Plan, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import CONFIG_MAP, LEASE, NODE, POD, Primary, Related, View, Watch, WatchedKind
from fathom.controllers.node_health.api_connections import Connections
from fathom.controllers.node_health.brake import BrakeLimits, BrakeState, Permit, eased, limits_of, permit
from fathom.controllers.node_health.events import of_node_states
from fathom.controllers.node_health.evidence import (
    Assessment,
    EvidenceLimits,
    HeartbeatTimes,
    NodeReport,
    NodeState,
    assess,
    next_limit_s,
)
from fathom.controllers.node_health.gateway_reports import GatewayReports
from fathom.controllers.node_health.plan import (
    NEEDS,
    HeldBack,
    entered,
    plan_node,
    plan_out_of_service,
    state_of,
    zone_of,
)
from fathom.controllers.node_health.plan_evictions import (
    DECLARED,
    OUT_OF_SERVICE,
    SILENCE,
    Beside,
    Eviction,
    beside,
    leaving,
    marks,
    no_execute,
)
from fathom.controllers.workload_events import of_eviction
from fathom.model.brake import BRAKE
from fathom.model.conditions import conditions_of
from fathom.model.decision import Considered, considered
from fathom.model.declared import AGENTS, NODE_BRAKE, Reads, Timer, Writes
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Key, Obj, key_of, lookup, metadata
from fathom.model.times import SECOND_NS
from fathom.model.well_known import NODE_LEASE_NAMESPACE

SIGNS_OF_LIFE = WatchedKind(LEASE.name, LEASE.resource, NODE_LEASE_NAMESPACE)
BRAKE_LIMITS = WatchedKind(CONFIG_MAP.name, CONFIG_MAP.resource, BRAKE.namespace)

# Between two looks at a node: an unhealthy one, and a healthy one. A renewed lease wakes the controller for
# an unhealthy node only: thousands of healthy ones renew theirs every ten seconds.
ILL_S, WELL_S = 5.0, 10.0
NEEDS_TO_EVICT = (NoOlderThan(FRESH_S, ("Node", "Pod")),)
HEARING_S = 40  # A lease's duration: a live node renews within it.
PODS_AT_ONCE = 50  # Pods of one node that are taken out of service or evicted in one pass.


def _tainted_node_of_lease(lease: Obj, view: View) -> tuple[Key, ...]:
    return _if_tainted(key_of(lease).name, view)


def _tainted_node_of_pod(pod: Obj, view: View) -> tuple[Key, ...]:
    """A pod that has just been bound to an unhealthy node must not be missed."""
    name = lookup(pod, "spec", "nodeName")
    return _if_tainted(str(name), view) if name else ()


def _if_tainted(name: str, view: View) -> tuple[Key, ...]:
    node = view().get("Node", Key("", name))
    return (Key("", name),) if node is not None and lookup(node, "spec", "taints") else ()


class _LastHeartbeats(msgspec.Struct):
    """The last heartbeats of a node, and when we saw them, on the monotonic clock."""

    lease: object
    lease_ns: int
    status: object
    status_ns: int
    renewed_ns: int | None = None
    many_ns: int | None = None  # When the brake last held it for being one of many.


class Nodes:
    name = "nodes"
    event_reports = staticmethod(of_node_states)
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(NODE, conditions=False, indexes=FOR_NODES),
        Related(SIGNS_OF_LIFE, concerns=_tainted_node_of_lease),
        Related(POD, concerns=_tainted_node_of_pod, indexes=FOR_PODS),
        Related(BRAKE_LIMITS),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("Node", ("metadata", "spec", "status.conditions")),
        Reads("Lease", ("spec.renewTime",)),
        Reads("Pod", ("spec.nodeName", "status")),
        Reads("ConfigMap", ("data",)),
        Reads("NodeConnection", source="api"),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("Node", ("spec.taints", "status.conditions")),
        Writes("Pod", ("status.conditions",)),
    )
    takes: ClassVar[tuple[str, ...]] = (NODE_BRAKE,)
    calls: ClassVar[tuple[str, ...]] = (AGENTS,)
    timers: ClassVar[tuple[Timer, ...]] = (Timer("silent nodes", ILL_S), Timer("healthy nodes", WELL_S))

    def __init__(self, kit: Kit, limits: EvidenceLimits | None = None) -> None:
        self._kit = kit
        self._limits = limits or EvidenceLimits()
        self._last_heartbeats: dict[str, _LastHeartbeats] = {}
        # By node: since when it is in a state, as we saw it. A new leader counts from now: it brakes more.
        self._entered: dict[str, dict[NodeState, tuple[str, int]]] = {}
        self._connections = Connections(kit)
        self._gateway_reports = GatewayReports()
        self._stale_view_ns = 0  # When our own view was last stale; silence before that does not count.

    async def reconcile(self, key: Key) -> ReconcileResult:
        view, now_ns = self._kit.snapshot(), self._kit.monotonic_ns()
        node = view.get("Node", key)
        if node is None:
            self._forget(key.name)
            return ReconcileResult.never()
        heard = self._heard(view, node, now_ns)
        assessment = assess(heard, now_ns=now_ns, limits=self._limits)
        self._collect_other_evidence(view, key.name, assessment.state, now_ns)
        allowed = self._held(node, self._permit(view, node, assessment, now_ns))
        held = HeldBack(allowed.reason, allowed.said) if allowed.said else None
        plan = plan_node(node, assessment, allowed.allowed, held, now=self._kit.now())
        plan = msgspec.structs.replace(plan, considered=_brake_limits(view, decisive=bool(allowed.said)))
        applied = await self._kit.apply(key, plan, seen=view)
        if applied.failure is not None or allowed.allowed < NodeState.UNREACHABLE or assessment.spared:
            look_s = ILL_S if assessment.state > NodeState.HEALTHY else WELL_S
            next_s = min(look_s, next_limit_s(heard, now_ns=now_ns, limits=self._limits))
            return ReconcileResult.after(applied, in_s=next_s, why="check heartbeats again", by_clock=False)
        return await self._take_out_of_service(key)

    async def _take_out_of_service(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        pods = view.by_index("Pod", "node", key.name)
        statuses = plan_out_of_service(pods, now=self._kit.now())[:PODS_AT_ONCE]
        why = "the node is unreachable" if statuses else ""
        applied = await self._kit.apply(key, Plan(statuses=statuses, needs=NEEDS, why=why), seen=view)
        wait_s = ILL_S if len(statuses) < PODS_AT_ONCE else 0.1
        return ReconcileResult.after(applied, in_s=wait_s, why="check heartbeats again", by_clock=False)

    def _forget(self, name: str) -> None:
        self._last_heartbeats.pop(name, None)
        self._entered.pop(name, None)
        self._connections.forget(name)
        self._gateway_reports.forget(name)

    # Heartbeats.

    def _heard(self, view: Snapshot, node: Obj, now_ns: int) -> HeartbeatTimes:
        if max(view.age("Lease"), view.age("Node")) > FRESH_S:
            self._stale_view_ns = now_ns
        last = self._note_heartbeats(view, node, now_ns)
        return HeartbeatTimes(
            max(last.lease_ns, self._stale_view_ns),
            max(last.status_ns, self._stale_view_ns),
            self._reports(node, now_ns),
            renewed_ns=last.renewed_ns,
            before=state_of(node),
        )

    def _note_heartbeats(self, view: Snapshot, node: Obj, now_ns: int) -> _LastHeartbeats:
        name = key_of(node).name
        lease = view.get("Lease", Key(NODE_LEASE_NAMESPACE, name))
        renewed = lookup(lease, "spec", "renewTime") if lease is not None else None
        beats = heartbeats(node)
        last = self._last_heartbeats.setdefault(name, _LastHeartbeats(renewed, now_ns, beats, now_ns))
        if last.lease != renewed:
            last.lease, last.lease_ns, last.renewed_ns = renewed, now_ns, now_ns
        if last.status != beats:
            last.status, last.status_ns, last.renewed_ns = beats, now_ns, now_ns
        return last

    def _reports(self, node: Obj, now_ns: int) -> tuple[NodeReport, ...]:
        name = key_of(node).name
        reports = (
            operators_word(node),
            self._connections.report(name),
            self._gateway_reports.report(name, now_ns),
        )
        return tuple(report for report in reports if report is not None)

    def _collect_other_evidence(self, view: Snapshot, name: str, state: NodeState, now_ns: int) -> None:
        """Collects other evidence about a node in doubt. For a healthy node no other source is asked."""
        if state == NodeState.HEALTHY:
            self._connections.forget(name)
            self._gateway_reports.forget(name)
            return
        self._connections.ask(name)
        self._gateway_reports.listen(name, view.by_index("Pod", "node", name), now_ns)

    # Braking.

    def _held(self, node: Obj, allowed: Permit) -> Permit:
        """While this process's own trouble is the likelier cause, no node gets a stronger reaction."""
        current = max(NodeState.SUSPECT, state_of(node))
        if allowed.allowed <= current or operators_word(node) is not None:
            return allowed
        own_trouble = "; ".join(self._kit.own_trouble().values())
        return (
            Permit(current, f"the controller itself may be the cause: {own_trouble}")
            if own_trouble
            else allowed
        )

    def _permit(self, view: Snapshot, node: Obj, assessment: Assessment, now_ns: int) -> Permit:
        if assessment.state <= NodeState.SUSPECT:
            return Permit(assessment.state)
        state = self._brake_state_of(node, assessment.state, now_ns, self._silent_ns(node, assessment))
        states = [self._brake_state(view, each, now_ns) for each in view.list("Node")]
        allowed = permit(state, states, now_ns=now_ns, limits=self._brake(view))
        if operators_word(node) is not None:
            return allowed
        last = self._last_heartbeats[key_of(node).name]
        if allowed.many:
            last.many_ns = now_ns
        return eased(allowed, many_ns=last.many_ns, now_ns=now_ns, wait_s=self._limits.unreachable_s)

    def _brake_state(self, view: Snapshot, node: Obj, now_ns: int) -> BrakeState:
        """By the current evidence; for a node without recorded heartbeats, by its conditions."""
        if key_of(node).name not in self._last_heartbeats:
            return self._brake_state_of(node, state_of(node), now_ns)
        assessment = assess(self._heard(view, node, now_ns), now_ns=now_ns, limits=self._limits)
        return self._brake_state_of(node, assessment.state, now_ns, self._silent_ns(node, assessment))

    def _silent_ns(self, node: Obj, assessment: Assessment) -> int | None:
        """Since when its lease is not renewed, if that is part of the evidence: it may be one of many."""
        is_silent = any(evidence.signal == "lease" for evidence in assessment.evidence)
        return (
            max(self._last_heartbeats[key_of(node).name].lease_ns, self._stale_view_ns) if is_silent else None
        )

    def _brake_state_of(
        self, node: Obj, assessed: NodeState, now_ns: int, silent_ns: int | None = None
    ) -> BrakeState:
        return BrakeState(
            key_of(node).name,
            zone_of(node),
            assessed,
            flipped_ns=self._entered_ns(node, NodeState.UNREACHABLE, now_ns),
            evicted_ns=self._entered_ns(node, NodeState.LOST, now_ns),
            silent_ns=silent_ns,
        )

    def _entered_ns(self, node: Obj, state: NodeState, now_ns: int) -> int | None:
        """When we first saw it in this state. The condition's own timestamp is from a wall clock."""
        seen, stamp = self._entered.setdefault(key_of(node).name, {}), entered(node, state)
        if stamp is None:
            seen.pop(state, None)
            return None
        if state not in seen or seen[state][0] != stamp:
            seen[state] = (stamp, now_ns)
        return seen[state][1]

    def _brake(self, view: Snapshot) -> BrakeLimits:
        config = view.get("ConfigMap", BRAKE)
        return limits_of((config or {}).get("data") or {})[0]  # `brake_status` shows what is wrong with it.


def heartbeats(node: Obj) -> list[object]:
    """The heartbeat times of the agent's own conditions: only the agent writes those."""
    return [
        condition["lastHeartbeatTime"]
        for condition in conditions_of(node)
        if condition.get("lastHeartbeatTime") and not str(condition.get("type")).startswith("fathom.dev/")
    ]


def _brake_limits(view: Snapshot, *, decisive: bool) -> tuple[Considered, ...]:
    """The ConfigMap with the brake's limits, if there is one: without it the defaults hold."""
    config = view.get("ConfigMap", BRAKE)
    return () if config is None else (considered("configmaps", config, decisive=decisive),)


def operators_word(node: Obj) -> NodeReport | None:
    """An operator's declaration: our annotation, or Kubernetes' taint for a machine that is off."""
    notes = metadata(node).get("annotations") or {}
    taints = lookup(node, "spec", "taints") or ()
    if notes.get(DECLARED):
        return NodeReport("operator", "gone", str(notes[DECLARED]))
    if any(taint.get("key") == OUT_OF_SERVICE for taint in taints):
        return NodeReport("operator", "gone", "the node is tainted out-of-service")
    return None


def _why_evicted(due: Sequence[Eviction]) -> str:
    taints = ", ".join(sorted({eviction.taint for eviction in due}))
    return f"evicted by NoExecute taint {taints}" if due else "its pods tolerate the NoExecute taints for now"


class Evictions:
    """Evicts pods by NoExecute taints, whichever client set them."""

    name = "taint-evictions"
    event_reports = staticmethod(of_eviction)
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(NODE, conditions=False, indexes=FOR_NODES),
        Related(POD, concerns=_tainted_node_of_pod, indexes=FOR_PODS),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("Node", ("metadata", "spec.taints", "status.conditions")),
        Reads("Pod", ("metadata", "spec.nodeName", "spec.tolerations", "status")),
        Reads("Node", ("metadata", "spec.taints", "status.conditions"), source="api"),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("Pod", ("status.conditions[type=DisruptionTarget]",), deletes=True),
    )
    takes: ClassVar[tuple[str, ...]] = (NODE_BRAKE,)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        # By node: since when we see each pod with each taint. Timestamps in objects are from wall clocks.
        self._since: dict[str, Beside] = {}
        # Until then silence is no reason to evict: a node that is back has time to send a heartbeat.
        self._stale_view_ns = kit.monotonic_ns()

    async def reconcile(self, key: Key) -> ReconcileResult:
        evictions = self._evictions(key)
        if not evictions:
            return ReconcileResult.never()
        if evictions[0].after_s <= 0:
            # An eviction cannot be undone: use the node as the server has it, not as our view does.
            node = await self._kit.api.get(NODE.resource, "", key.name)
            cached = self._kit.snapshot().get("Node", key)
            if node is None or cached is None or no_execute(node) != no_execute(cached):
                return ReconcileResult.in_s(1.0, "the cached Node is out of date")
            evictions = self._evictions(key)
        view = self._kit.snapshot()
        due = [eviction for eviction in evictions if eviction.after_s <= 0][:PODS_AT_ONCE]
        plan = Plan(
            patches=marks(due, now=self._kit.now()),
            deletes=tuple(Delete(target("Pod", eviction.pod)) for eviction in due),
            needs=NEEDS_TO_EVICT,
            why=_why_evicted(due),
        )
        applied = await self._kit.apply(key, plan, seen=view)
        later = [eviction.after_s for eviction in evictions if eviction.after_s > 0]
        return ReconcileResult.after(applied, in_s=min(later, default=None), why="a toleration ends")

    def _evictions(self, key: Key) -> list[Eviction]:
        view, now_ns = self._kit.snapshot(), self._kit.monotonic_ns()
        node = view.get("Node", key)
        if node is None or not no_execute(node):
            self._since.pop(key.name, None)
            return []
        if max(view.age("Node"), view.age("Pod")) > FRESH_S:
            self._stale_view_ns = now_ns
        pods = view.by_index("Pod", "node", key.name)
        since = self._since[key.name] = beside(node, pods, self._since.get(key.name, {}), now_ns=now_ns)
        not_before = dict.fromkeys(SILENCE, self._stale_view_ns + HEARING_S * SECOND_NS)
        if operators_word(node) is not None:
            not_before = {}
        return leaving(node, pods, since, now_ns=now_ns, not_before=not_before)
