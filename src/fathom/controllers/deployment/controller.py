"""Roll out the template of a Deployment, one ReplicaSet per revision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from fathom.cache.snapshot import Snapshot
from fathom.control.kit import Kit
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import DEPLOYMENT, NODE, POD, REPLICA_SET, Primary, Related, View, Watch
from fathom.controllers.adoption import FOR_CHILDREN, claims_of, concerned, may_adopt, owner_key
from fathom.controllers.ages import Ages
from fathom.controllers.deployment.plan import DeploymentFacts, plan_create_failure, plan_deployment
from fathom.controllers.deployment.plan_status import look_again_s, progressed_at, without_progress_s
from fathom.controllers.deployment.proportions import is_rolling
from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.controllers.override_pauses import OVERRIDE, WorkloadPause, in_scope_of, paused, workload_of
from fathom.controllers.pod_states import has_ended, is_active, is_available, seconds
from fathom.controllers.replicaset.controller import RACES
from fathom.controllers.replicaset.plan import min_ready_s_of
from fathom.controllers.workload_events import of_deployment
from fathom.model.declared import Reads, Writes
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of

# So soon a Deployment is looked at again whose ReplicaSets report other numbers than its pods show.
DIFFERS_S = 1.0


def _recreated(pod: Obj, view: View) -> Iterable[Key]:
    """A pod concerns a Deployment that waits until the last old pod is gone. Other Deployments learn of their
    pods from their ReplicaSets."""
    key = owner_key(pod, REPLICA_SET)
    if key is None:
        return ()
    seen = view()
    owner = seen.get("ReplicaSet", key)
    above = None if owner is None else owner_key(owner, DEPLOYMENT)
    deployment = None if above is None else seen.get("Deployment", above)
    return () if above is None or deployment is None or is_rolling(deployment) else (above,)


def _overridden(override: Obj, view: View) -> Iterable[Key]:
    key = workload_of(override)
    return () if key is None else (key,)


class Deployments:
    name = "deployments"
    event_reports = staticmethod(of_deployment)
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(DEPLOYMENT),
        Related(REPLICA_SET, concerns=concerned(DEPLOYMENT), indexes=FOR_CHILDREN),
        Related(POD, concerns=_recreated, indexes=FOR_CHILDREN),
        Related(OVERRIDE, concerns=_overridden),
        Related(NODE),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("Deployment", ("metadata", "spec", "status")),
        Reads("ReplicaSet", ("metadata", "spec", "status")),
        Reads("Pod", ("metadata", "spec.nodeName", "status.conditions", "status.phase")),
        Reads("SchedulerOverride", ("spec", "status")),
        Reads("Node", ("metadata.labels",)),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("Deployment", ("metadata.annotations", "spec.template", "status")),
        Writes(
            "ReplicaSet",
            ("metadata.annotations", "metadata.ownerReferences", "spec.minReadySeconds", "spec.replicas"),
            creates=True,
            deletes=True,
        ),
    )

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._floor = LeaderMinRevision(kit, DEPLOYMENT, REPLICA_SET, POD, OVERRIDE)
        self._ages = Ages()  # Of the last update of a Deployment's progress.

    async def reconcile(self, key: Key) -> ReconcileResult:
        if not await may_adopt(self._kit, DEPLOYMENT, "ReplicaSet", key):
            return ReconcileResult.in_s(1.0, "the cached Deployment was deleted or replaced")
        await self._floor.fetch()
        view, now = self._kit.snapshot(), self._kit.now()
        deployment = view.get("Deployment", key)
        if deployment is None:
            self._ages.forget(key)
            return ReconcileResult.never()
        waited_s = self._waited_s(key, deployment, now)
        pause = self._pause(view, deployment)
        facts = msgspec.structs.replace(self._facts(view, deployment, now, pause), waited_s=waited_s)
        plan = plan_deployment(deployment, facts, now=now)
        applied = await self._kit.apply(key, plan, seen=view)
        failure = applied.failure
        if plan.creates and failure is not None and failure.blame == "failed" and failure.reason not in RACES:
            name = key_of(plan.creates[0].obj).name
            failed = plan_create_failure(deployment, failure, name=name, now=now)
            await self._kit.apply(key, failed, seen=self._kit.snapshot())
        if pause is not None:
            left_s = (pause.until_ns - self._kit.now_ns()) / 1e9
            return ReconcileResult.after(applied, in_s=max(0.0, left_s) + 0.1, why="an override ends")
        if _differs(facts):
            return ReconcileResult.after(applied, in_s=DIFFERS_S, why="its ReplicaSets count other pods")
        return ReconcileResult.after(
            applied, in_s=look_again_s(deployment, now=now, waited_s=waited_s), why="the progress deadline"
        )

    def _waited_s(self, key: Key, deployment: Obj, now: str) -> float | None:
        now_ns = self._kit.monotonic_ns()
        age_s = self._ages.age_s(key, progressed_at(deployment), now=now, now_ns=now_ns)
        return without_progress_s(deployment, age_s, self._ages.seen_s(key, now_ns=now_ns))

    def _pause(self, view: Snapshot, deployment: Obj) -> WorkloadPause | None:
        key = key_of(deployment)
        overrides = view.list("SchedulerOverride", key.namespace)

        def pods() -> Iterable[Obj]:
            sets = view.owned("ReplicaSet", uid_of(deployment))
            return (pod for replica_set in sets for pod in view.owned("Pod", uid_of(replica_set)))

        in_scope, now_ns = in_scope_of(view, pods), self._kit.now_ns()
        return paused(overrides, "Deployment", key, "pause_rollout", now_ns=now_ns, in_scope=in_scope)

    def _facts(
        self, view: Snapshot, deployment: Obj, now: str, pause: WorkloadPause | None
    ) -> DeploymentFacts:
        claims, namespace = claims_of(view, "ReplicaSet", deployment), key_of(deployment).namespace
        pods = {uid_of(replica_set): view.owned("Pod", uid_of(replica_set)) for replica_set in claims.mine}
        least_s = {uid_of(replica_set): min_ready_s_of(replica_set) for replica_set in claims.mine}
        now_s = seconds(now)
        return DeploymentFacts(
            claims=claims,
            available={uid: _available(set_pods, least_s[uid], now_s) for uid, set_pods in pods.items()},
            running={uid: sum(not has_ended(pod) for pod in set_pods) for uid, set_pods in pods.items()},
            live={uid: sum(is_active(pod) for pod in set_pods) for uid, set_pods in pods.items()},
            named=lambda name: view.get("ReplicaSet", Key(namespace, name)) is not None,
            needs=self._floor.needs,
            paused_by="" if pause is None else pause.override,
            considered=() if pause is None else pause.considered,
        )


def _differs(facts: DeploymentFacts) -> bool:
    """Whether a ReplicaSet's counts are not those of its pods, as they are cached.

    1. A ReplicaSet reports a new pod as available. 2. The Deployment is woken while the pod is not in the
    cache yet: it waits. 3. The pod comes. It wakes the ReplicaSet, whose counts stay the same: nobody would
    wake the Deployment."""
    return any(
        (lookup(each, "status", "replicas") or 0) != facts.live.get(uid_of(each), 0)
        or (lookup(each, "status", "availableReplicas") or 0) != facts.available.get(uid_of(each), 0)
        for each in facts.claims.mine
    )


def _available(pods: Iterable[Obj], min_ready_s: int, now_s: float) -> int:
    return sum(is_active(pod) and is_available(pod, min_ready_s=min_ready_s, now_s=now_s) for pod in pods)
