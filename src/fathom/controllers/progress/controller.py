"""Keep a WorkloadProgress for every workload: Deployments, Jobs, and ReplicaSets without a controller.

It is computed from pods, their ReplicaSets and the slices of their Services. At most one write a second for
each workload: a rollout of a thousand pods is not a thousand commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from fathom.cache.snapshot import Snapshot
from fathom.control.kit import Kit
from fathom.control.ownership import controller_of
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import (
    DEPLOYMENT,
    JOB,
    NODE,
    POD,
    REPLICA_SET,
    SERVICE,
    OwnedBy,
    Primary,
    Related,
    View,
    Watch,
    WatchedKind,
    own,
)
from fathom.controllers.adoption import FOR_CHILDREN, claims_of, owner_key
from fathom.controllers.deployment.revisions import split
from fathom.controllers.endpoints.controller import ENDPOINT_SLICE
from fathom.controllers.endpoints.plan import selects
from fathom.controllers.job.plan import is_finished, is_true
from fathom.controllers.job.plan_failure_policy import CRITERIA_MET, FAILURE_TARGET
from fathom.controllers.observed_generation import GenerationBehind
from fathom.controllers.pod_states import is_active, seconds
from fathom.controllers.progress.crash_loops import CrashLoop, loops_of
from fathom.controllers.progress.last_actions import last_action, last_error
from fathom.controllers.progress.missing_pods import own_deadline_s, why_going, why_missing
from fathom.controllers.progress.plan import (
    NUMBERS_WAIT,
    PodCounts,
    forget,
    plan_progress,
    progress_name,
    said_to_crash_since,
)
from fathom.controllers.progress.pod_stages import PodStage, stand_of
from fathom.controllers.replicaset.plan import wanted_of
from fathom.kinds import workload_progress
from fathom.model.conditions import NUMBERS_EVERY_S, SERVING_CONDITION, conditions_of, find_condition
from fathom.model.declared import Reads, Timer, Writes
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup, metadata, uid_of
from fathom.model.well_known import SERVICE_NAME_LABEL

WORKLOAD_PROGRESS = own(workload_progress.DEFINITION)
EVERY_S = 1.0  # No workload is written more often.
NODES_S = 30.0  # How often the node of a pod that waits for it is looked at.


def _workload_key(pod: Obj, seen: Snapshot, kind: WatchedKind) -> Key | None:
    """The workload of this kind that a pod belongs to, directly or through its ReplicaSet."""
    key = owner_key(pod, kind)
    if key is not None or kind is not DEPLOYMENT:
        return key
    between = owner_key(pod, REPLICA_SET)
    replica_set = None if between is None else seen.get("ReplicaSet", between)
    return None if replica_set is None else owner_key(replica_set, DEPLOYMENT)


def watches_of(kind: WatchedKind) -> tuple[Watch, ...]:
    def of_pod(pod: Obj, view: View) -> Iterable[Key]:
        key = _workload_key(pod, view(), kind)
        return () if key is None else (key,)

    def of_slice(endpoint_slice: Obj, view: View) -> Iterable[Key]:
        seen = view()
        namespace = str(metadata(endpoint_slice).get("namespace"))
        names = [
            str(lookup(endpoint, "targetRef", "name")) for endpoint in endpoint_slice.get("endpoints") or ()
        ]
        pods = [pod for name in names if (pod := seen.get("Pod", Key(namespace, name))) is not None]
        keys = [key for pod in pods if (key := _workload_key(pod, seen, kind)) is not None]
        return tuple(dict.fromkeys(keys))

    def of_progress(progress: Obj, view: View) -> Iterable[Key]:
        """Also for a progress whose owner is gone."""
        about = lookup(progress, "spec", "workload") or {}
        if about.get("kind") != kind.name:
            return ()
        return (Key(str(metadata(progress).get("namespace")), str(about.get("name"))),)

    beside: tuple[Watch, ...] = (
        Related(POD, concerns=of_pod, indexes=FOR_CHILDREN),
        Related(ENDPOINT_SLICE, concerns=of_slice),
        Related(SERVICE),
        Related(NODE),
        Related(WORKLOAD_PROGRESS, concerns=of_progress),
    )
    above: tuple[Watch, ...] = (OwnedBy(REPLICA_SET, indexes=FOR_CHILDREN),) if kind is DEPLOYMENT else ()
    return (Primary(kind, conditions=False), *above, *beside)


def reads_of(kind: WatchedKind) -> tuple[Reads, ...]:
    above = (Reads("ReplicaSet", ("metadata", "spec", "status")),) if kind is DEPLOYMENT else ()
    return (
        Reads(kind.name, ("metadata", "spec", "status")),
        *above,
        Reads("Pod", ("metadata", "spec", "status")),
        Reads("EndpointSlice", ("endpoints", "metadata.labels")),
        Reads("Service", ("spec.selector",)),
        Reads("Node", ("status.conditions",)),
        Reads("WorkloadProgress"),
    )


class _Progress:
    """`count` is what differs between kinds of workload."""

    kind: ClassVar[WatchedKind]
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("WorkloadProgress", ("status",), creates=True, deletes=True),
    )
    timers: ClassVar[tuple[Timer, ...]] = (Timer("nodes of starting pods", NODES_S),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._behind = GenerationBehind()
        self._wrote_ns: dict[Key, int] = {}  # When each was last written.
        self._seen_ns: dict[Key, int] = {}  # When each was first looked at.

    async def reconcile(self, key: Key) -> ReconcileResult:
        view, now = self._kit.snapshot(), self._kit.now()
        workload = view.get(self.kind.name, key)
        progress = view.get("WorkloadProgress", Key(key.namespace, progress_name(self.kind.name, key.name)))
        if workload is None or not self.is_counted(workload):
            self._wrote_ns.pop(key, None)
            self._seen_ns.pop(key, None)
            self._behind.forget(key)
            is_orphan = progress is not None and (workload is not None or controller_of(progress) is None)
            applied = await self._kit.apply(key, forget(progress if is_orphan else None), seen=view)
            return ReconcileResult.after(applied)
        wait_s = self._wait_s(key)
        if wait_s > 0:
            return ReconcileResult.in_s(wait_s, "it was written within the last second")
        current, before = self.count(view, workload, now)
        behind_in_s = self._behind.wait_s(key, workload, now_ns=self._kit.monotonic_ns())
        behind = behind_in_s is not None and behind_in_s <= 0
        numbers_in_s = self._numbers_wait_s(key)
        plan = plan_progress(
            workload, progress, current, before, now=now, behind=behind, recently=numbers_in_s > 0
        )
        if plan.statuses:
            self._wrote_ns[key] = self._kit.monotonic_ns()
        applied = await self._kit.apply(key, plan, seen=view)
        waits = [_look_again_s(current, now), None if behind else behind_in_s]
        waits.append(numbers_in_s if plan is NUMBERS_WAIT else None)
        in_s = min((wait_s for wait_s in waits if wait_s is not None), default=None)
        return ReconcileResult.after(applied, in_s=in_s, why="a stage's deadline")

    def _wait_s(self, key: Key) -> float:
        wrote_ns = self._wrote_ns.get(key)
        return 0.0 if wrote_ns is None else EVERY_S - (self._kit.monotonic_ns() - wrote_ns) / 1e9

    def _numbers_wait_s(self, key: Key) -> float:
        """A new leader does not know when the last one wrote: it lets the same time pass."""
        now_ns = self._kit.monotonic_ns()
        since_ns = self._wrote_ns.get(key, self._seen_ns.setdefault(key, now_ns))
        return NUMBERS_EVERY_S - (now_ns - since_ns) / 1e9

    def is_counted(self, workload: Obj) -> bool:
        return True

    def count(self, view: Snapshot, workload: Obj, now: str) -> tuple[PodCounts, PodCounts | None]:
        raise NotImplementedError


def _look_again_s(current: PodCounts, now: str) -> float | None:
    """When the next future deadline ends. No event announces that a node recovers, so nodes are polled."""
    ends = [at_s for pod_stage in current.stands for at_s in (pod_stage.deadline_s, pod_stage.until_s)]
    ends += [current.missing.deadline_s, current.deadline_s]
    ends += [] if current.going is None else [current.going.deadline_s]
    waits = [end - seconds(now) + 1.0 for end in ends if end is not None and end > seconds(now)]
    if any(pod_stage.boundary == "node" for pod_stage in current.stands):
        waits.append(NODES_S)
    return min(waits, default=None)


def counted(
    view: Snapshot, workload: Obj, sets: Sequence[Obj], pods: Sequence[Obj], *, desired: int, now: str
) -> PodCounts:
    """`sets`: the ReplicaSets that create these pods; none for a Job."""
    key = key_of(workload)
    serving = _serving(view, key.namespace, pods)
    deletion = why_going(workload)
    progress = view.get(
        "WorkloadProgress", Key(key.namespace, progress_name(str(workload["kind"]), key.name))
    )
    # For a Job, the refusal of its pods is a condition of its WorkloadProgress.
    refusal_sources = (
        (*sets, workload) if progress is None or workload["kind"] != "Job" else (workload, progress)
    )
    active = [pod for pod in pods if is_active(pod)]
    loops = loops_of(active, kept=said_to_crash_since(progress), now_s=seconds(now))
    return PodCounts(
        desired=0 if deletion is not None else desired,
        stands=[_pod_stage(view, pod, serving, loops.get(uid_of(pod))) for pod in active],
        missing=why_missing(workload, sets, pods, refusal_sources),
        going=deletion,
        deadline_s=own_deadline_s(workload),
        last_action=last_action(workload, sets, pods),
        last_error=last_error(workload, refusal_sources, pods),
    )


def _pod_stage(view: Snapshot, pod: Obj, serving: set[str] | None, crashes: CrashLoop | None) -> PodStage:
    node = view.get("Node", Key("", str(lookup(pod, "spec", "nodeName") or "")))
    ready = find_condition(conditions_of(node), "Ready") if node is not None else None
    heard = ready is None or ready.get("status") != "Unknown"
    return stand_of(pod, serves=_serves(pod, serving), heard=heard, crashes=crashes)


def _serves(pod: Obj, serving: set[str] | None) -> bool:
    """Its Service lists it, and the gateway, if there is one, has not failed to reach it."""
    if serving is None:
        return True
    reached = find_condition(conditions_of(pod), SERVING_CONDITION) or {}
    return uid_of(pod) in serving and reached.get("status") != "False"


def _serving(view: Snapshot, namespace: str, pods: Sequence[Obj]) -> set[str] | None:
    """UIDs of pods that a Service sends traffic to; None if no Service selects them."""
    services = [
        service
        for service in view.list("Service", namespace)
        if any(selects(service, pod) for pod in pods[:1])
    ]
    if not services:
        return None
    names = [str(metadata(service)["name"]) for service in services]
    slices = [
        endpoint_slice
        for endpoint_slice in view.list("EndpointSlice", namespace)
        if labels_of(endpoint_slice).get(SERVICE_NAME_LABEL) in names
    ]
    return {
        str(lookup(endpoint, "targetRef", "uid"))
        for endpoint_slice in slices
        for endpoint in endpoint_slice.get("endpoints") or ()
        if lookup(endpoint, "conditions", "ready")
    }


class DeploymentProgress(_Progress):
    name = "deployment-progress"
    kind = DEPLOYMENT
    watches: ClassVar[tuple[Watch, ...]] = watches_of(DEPLOYMENT)
    reads: ClassVar[tuple[Reads, ...]] = reads_of(DEPLOYMENT)

    def count(self, view: Snapshot, workload: Obj, now: str) -> tuple[PodCounts, PodCounts | None]:
        sets = split(workload, claims_of(view, "ReplicaSet", workload).mine)
        new = () if sets.new is None else (sets.new,)
        old = [
            replica_set
            for replica_set in sets.old
            if wanted_of(replica_set) or lookup(replica_set, "status", "replicas")
        ]
        pods = [pod for replica_set in new for pod in view.owned("Pod", uid_of(replica_set))]
        old_pods = [pod for replica_set in old for pod in view.owned("Pod", uid_of(replica_set))]
        previous = counted(view, workload, old, old_pods, desired=sum(map(wanted_of, old)), now=now)
        return counted(view, workload, new, pods, desired=wanted_of(workload), now=now), previous


class ReplicaSetProgress(_Progress):
    name = "replicaset-progress"
    kind = REPLICA_SET
    watches: ClassVar[tuple[Watch, ...]] = watches_of(REPLICA_SET)
    reads: ClassVar[tuple[Reads, ...]] = reads_of(REPLICA_SET)

    def is_counted(self, workload: Obj) -> bool:
        return controller_of(workload) is None

    def count(self, view: Snapshot, workload: Obj, now: str) -> tuple[PodCounts, PodCounts | None]:
        pods = view.owned("Pod", uid_of(workload))
        return counted(view, workload, (workload,), pods, desired=wanted_of(workload), now=now), None


class JobProgress(_Progress):
    name = "job-progress"
    kind = JOB
    watches: ClassVar[tuple[Watch, ...]] = watches_of(JOB)
    reads: ClassVar[tuple[Reads, ...]] = reads_of(JOB)

    def count(self, view: Snapshot, workload: Obj, now: str) -> tuple[PodCounts, PodCounts | None]:
        pods = view.owned("Pod", uid_of(workload))
        return counted(view, workload, (), pods, desired=_wanted_pods(workload), now=now), None


def _wanted_pods(job: Obj) -> int:
    """How many pods should run now."""
    over = any(is_true(job, type_) for type_ in (CRITERIA_MET, FAILURE_TARGET))
    if over or is_finished(job) or lookup(job, "spec", "suspend"):
        return 0
    parallelism = int(lookup(job, "spec", "parallelism") or 0)
    completions = lookup(job, "spec", "completions")
    if completions is None:
        return parallelism
    return max(0, min(parallelism, int(completions) - int(lookup(job, "status", "succeeded") or 0)))
