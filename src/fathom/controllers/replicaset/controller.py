"""Keep as many pods as a ReplicaSet asks for. Deletion is simply absence."""

from __future__ import annotations

from typing import ClassVar

from fathom.cache.indexes import OWNER
from fathom.cache.snapshot import Snapshot
from fathom.control.kit import Kit
from fathom.control.ownership import child_name, controller_of
from fathom.control.reconcile_result import Failure, ReconcileResult
from fathom.control.watches import POD, REPLICA_SET, Primary, Related, Watch
from fathom.controllers.adoption import FOR_CHILDREN, claims_of, concerned, may_adopt
from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.controllers.pod_states import is_active, next_available_s, seconds
from fathom.controllers.replicaset.plan import (
    ReplicaSetFacts,
    min_ready_s_of,
    plan_failure,
    plan_replicas,
    retry_in_s,
    wanted_of,
)
from fathom.controllers.workload_events import of_replica_set
from fathom.model.conditions import NUMBERS_EVERY_S
from fathom.model.declared import RESOURCE_QUOTAS, Reads, Writes
from fathom.model.objects import Key, Obj, key_of, uid_of

# Failure reasons that are no refusal: another pass will do.
RACES = frozenset({"Conflict", "OutcomeUnknown", "NameTaken"})


class ReplicaSets:
    name = "replicasets"
    event_reports = staticmethod(of_replica_set)
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(REPLICA_SET),
        Related(POD, concerns=concerned(REPLICA_SET), indexes=FOR_CHILDREN),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("ReplicaSet", ("metadata.ownerReferences", "spec", "status")),
        Reads("Pod", ("metadata", "spec.nodeName", "status")),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("ReplicaSet", ("status",)),
        Writes("Pod", ("metadata.ownerReferences",), creates=True, deletes=True),
    )
    takes: ClassVar[tuple[str, ...]] = (RESOURCE_QUOTAS,)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._floor = LeaderMinRevision(kit, REPLICA_SET, POD)
        self._failed_ns: dict[Key, int] = {}  # When each last reported a failed create or delete.

    async def reconcile(self, key: Key) -> ReconcileResult:
        if not await may_adopt(self._kit, REPLICA_SET, "Pod", key):
            return ReconcileResult.in_s(1.0, "the cached ReplicaSet was deleted or replaced")
        await self._floor.fetch()
        view = self._kit.snapshot()
        owner = view.get("ReplicaSet", key)
        if owner is None:
            self._failed_ns.pop(key, None)
            return ReconcileResult.never()
        now = self._kit.now()
        plan = plan_replicas(owner, self._facts(view, owner), now=now)
        applied = await self._kit.apply(key, plan, seen=view)
        failure = applied.failure
        if failure is not None and failure.blame == "failed" and failure.reason not in RACES:
            await self._report_failure(key, owner, failure, creating=bool(plan.creates))
        return ReconcileResult.after(
            applied, in_s=_wait_s(owner, view, now=now), why="a pod becomes available"
        )

    async def _report_failure(self, key: Key, owner: Obj, failure: Failure, *, creating: bool) -> None:
        now_ns = self._kit.monotonic_ns()
        recently = now_ns - self._failed_ns.get(key, -(2**62)) < NUMBERS_EVERY_S * 1e9
        plan = plan_failure(owner, failure, creating=creating, now=self._kit.now(), recently=recently)
        if plan.statuses:
            self._failed_ns[key] = now_ns
        await self._kit.apply(key, plan, seen=self._kit.snapshot())

    def _facts(self, view: Snapshot, owner: Obj) -> ReplicaSetFacts:
        key = key_of(owner)
        return ReplicaSetFacts(
            claims=claims_of(view, "Pod", owner),
            related=_siblings(view, owner),
            occupied=lambda slot: view.get("Pod", Key(key.namespace, child_name(key.name, slot))) is not None,
            needs=self._floor.needs,
        )


def _wait_s(owner: Obj, view: Snapshot, *, now: str) -> float | None:
    """By the whole second that the status was judged by: a pod that is not available in it is waited for,
    though it may be by the fraction of a second after it."""
    all_pods = list(view.owned("Pod", uid_of(owner)))
    active = [pod for pod in all_pods if is_active(pod)]
    ready_s = next_available_s(active, min_ready_s=min_ready_s_of(owner), now_s=seconds(now))
    retry_s = retry_in_s(all_pods, now_s=seconds(now)) if len(active) < wanted_of(owner) else 0.0
    waits = [wait_s for wait_s in (ready_s, retry_s) if wait_s]
    return min(waits) + 1.0 if waits else None  # Timestamps are whole seconds.


def _siblings(view: Snapshot, owner: Obj) -> list[Obj]:
    """The pods of all ReplicaSets of the same workload."""
    above = controller_of(owner)
    if above is None:
        return []
    sets = view.by_index("ReplicaSet", OWNER, str(above.get("uid")))
    return [pod for replica_set in sets for pod in view.owned("Pod", uid_of(replica_set)) if is_active(pod)]
