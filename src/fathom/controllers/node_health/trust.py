"""Tracks which nodes fail to start what other nodes start; see `plan_trust`."""

from __future__ import annotations

from typing import ClassVar

from fathom.cache.indexes import FOR_NODES, FOR_PODS
from fathom.cache.snapshot import Snapshot
from fathom.control.kit import Kit
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import NODE, POD, Primary, Related, View, Watch
from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.controllers.node_health.events import of_quarantine
from fathom.controllers.node_health.plan_trust import failing, may_quarantine, plan_trust
from fathom.model.conditions import is_true
from fathom.model.declared import QUARANTINED_NODES, Reads, Timer, Writes
from fathom.model.objects import Key, Obj, lookup
from fathom.model.trust import lost_of

LOOK_S = 60.0  # While some trust is lost: it comes back with time.


def _node_of_failing_pod(pod: Obj, view: View) -> tuple[Key, ...]:
    name = lookup(pod, "spec", "nodeName")
    return (Key("", str(name)),) if name and failing(pod) else ()


class Trust:
    name = "node-trust"
    event_reports = staticmethod(of_quarantine)
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(NODE, conditions=False, indexes=FOR_NODES),
        Related(POD, concerns=_node_of_failing_pod, indexes=FOR_PODS),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("Node", ("metadata.annotations", "spec.taints", "status.conditions")),
        Reads("Pod", ("metadata.ownerReferences", "spec.nodeName", "status")),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes(
            "Node",
            (
                "metadata.annotations[fathom.dev/trust-lost]",
                "spec.taints",
                "status.conditions[type=fathom.dev/Quarantined]",
            ),
        ),
    )
    takes: ClassVar[tuple[str, ...]] = (QUARANTINED_NODES,)
    timers: ClassVar[tuple[Timer, ...]] = (Timer("lost trust comes back", LOOK_S),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._floor = LeaderMinRevision(kit, NODE)
        # Nodes whose quarantine may not be visible yet: they count towards the limit meanwhile.
        self._under_way: set[str] = set()

    async def reconcile(self, key: Key) -> ReconcileResult:
        await self._floor.fetch()
        view = self._kit.snapshot()
        node = view.get("Node", key)
        if node is None:
            return ReconcileResult.never()
        plan = plan_trust(
            node,
            view.by_index("Pod", "node", key.name),
            lambda uid: runs_elsewhere(view, uid, key.name),
            now_ns=self._kit.now_ns(),
            now=self._kit.now(),
            is_allowed=lambda: may_quarantine(node, view.list("Node"), self._under_way),
            needs=self._floor.needs,
        )
        self._under_way.discard(key.name)
        if any(patch.destructive for patch in plan.patches):
            self._under_way.add(key.name)
        applied = await self._kit.apply(key, plan, seen=view)
        if applied.failure is not None and applied.failure.reason != "OutcomeUnknown":
            self._under_way.discard(key.name)
        return ReconcileResult.after(
            applied, in_s=LOOK_S if lost_of(node).points else None, why="lost trust decays"
        )


def runs_elsewhere(view: Snapshot, workload: str, node: str) -> bool:
    return any(
        is_true(pod, "Ready") and lookup(pod, "spec", "nodeName") != node
        for pod in view.owned("Pod", workload)
    )
