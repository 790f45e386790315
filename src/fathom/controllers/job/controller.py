"""Run the pods of Jobs to completion, and count them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from fathom.control.kit import Kit
from fathom.control.ownership import controller_of, has_finalizer, is_controlled_by
from fathom.control.plan import Plan
from fathom.control.reconcile_result import Failure, ReconcileResult
from fathom.control.watches import JOB, POD, Primary, Related, View, Watch
from fathom.controllers.adoption import (
    FOR_CHILDREN,
    claims_of,
    concerned,
    may_adopt,
    owner_key,
    selector_of,
)
from fathom.controllers.job.plan import JobFacts, is_finished, let_go, look_again_s, plan_job
from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.controllers.progress.controller import WORKLOAD_PROGRESS
from fathom.controllers.progress.missing_pods import plan_refused
from fathom.controllers.progress.plan import progress_name
from fathom.controllers.replicaset.controller import RACES
from fathom.controllers.workload_events import of_job
from fathom.model.declared import RESOURCE_QUOTAS, Reads, Writes
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of
from fathom.model.well_known import JOB_TRACKING_FINALIZER

JOB_NAME = "batch.kubernetes.io/job-name"  # A label.
TRACKED_BY = "tracked-by"  # An index: pods that wait to be counted, by 'namespace/job'.


def _job_of(pod: Obj) -> Key | None:
    """For a pod that waits to be counted: its Job, or the Job that its label names."""
    if not has_finalizer(pod, JOB_TRACKING_FINALIZER):
        return None
    name = labels_of(pod).get(JOB_NAME)
    if name is None or controller_of(pod) is not None:
        return owner_key(pod, JOB)
    return Key(key_of(pod).namespace, name)


def _by_job(pod: Obj) -> tuple[str, ...]:
    key = _job_of(pod)
    return () if key is None else ("/".join(key),)


def _concerned(pod: Obj, view: View) -> Iterable[Key]:
    key = _job_of(pod)
    return {*concerned(JOB)(pod, view), *(() if key is None else (key,))}


class Jobs:
    name = "jobs"
    event_reports = staticmethod(of_job)
    watches: ClassVar[tuple[Watch, ...]] = (
        # Kubernetes validates a Job's conditions as a whole, and knows only its own.
        Primary(JOB, conditions=False),
        Related(POD, concerns=_concerned, indexes={**FOR_CHILDREN, TRACKED_BY: _by_job}),
        Related(WORKLOAD_PROGRESS),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("Job", ("metadata", "spec", "status")),
        Reads("Pod", ("metadata", "spec.nodeName", "status")),
        Reads("WorkloadProgress", ("status",)),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("Job", ("status",), deletes=True),
        Writes("Pod", ("metadata.finalizers", "metadata.ownerReferences"), creates=True, deletes=True),
        Writes("WorkloadProgress", ("status.conditions",)),  # That the server refuses its pods.
    )
    takes: ClassVar[tuple[str, ...]] = (RESOURCE_QUOTAS,)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._floor = LeaderMinRevision(kit, JOB, POD)

    async def reconcile(self, key: Key) -> ReconcileResult:
        if not await may_adopt(self._kit, JOB, POD.name, key):
            return ReconcileResult.in_s(1.0, "the cached Job was deleted or replaced")
        await self._floor.fetch()
        await self._release_orphans(key)
        view, now = self._kit.snapshot(), self._kit.now()
        job = view.get("Job", key)
        if job is None:
            return ReconcileResult.never()
        claims = claims_of(view, POD.name, job)
        facts = JobFacts(
            claims.mine,
            claims=claims,
            occupied=lambda name: view.get("Pod", Key(key.namespace, name)) is not None,
            needs=self._floor.needs,
        )
        plan = plan_job(job, facts, now=now)
        applied = await self._kit.apply(key, plan, seen=view)
        failure = applied.failure
        if plan.creates and failure is not None and failure.blame == "failed" and failure.reason not in RACES:
            await self._report_refusal(key, failure)
        return ReconcileResult.after(
            applied,
            in_s=look_again_s(job, claims.mine, now=now),
            why="a deadline, back-off or TTL of the Job",
        )

    async def _report_refusal(self, key: Key, failure: Failure) -> None:
        """Reports that the server refuses its pods. Kubernetes' Jobs have no condition for that, so it is
        written to the WorkloadProgress."""
        view = self._kit.snapshot()
        progress = view.get("WorkloadProgress", Key(key.namespace, progress_name("Job", key.name)))
        if progress is not None:
            await self._kit.apply(key, plan_refused(progress, failure, now=self._kit.now()), seen=view)

    async def _release_orphans(self, key: Key) -> None:
        """Pods of a deleted Job, and pods that no Job will adopt, would wait for ever to be counted. Our view
        of Jobs may be behind that of pods, so the server is asked whether the Job is really gone."""
        view = self._kit.snapshot()
        job = view.get("Job", key)
        uncounted = [
            pod
            for pod in view.by_index("Pod", TRACKED_BY, "/".join(key))
            if job is None or not _is_for(job, pod)
        ]
        if not uncounted:
            return
        current = await self._kit.api.get(JOB.resource, *key)
        gone = [pod for pod in uncounted if current is None or not _is_for(current, pod)]
        if gone:
            plan = Plan(patches=let_go(gone), why="release pods whose Job is gone")
            await self._kit.apply(key, plan, seen=self._kit.snapshot())


def _is_for(job: Obj, pod: Obj) -> bool:
    """The Job controls it, or will adopt it."""
    if controller_of(pod) is not None:
        return is_controlled_by(pod, job)
    return not is_deleting(pod) and not is_finished(job) and selector_of(job).matches(labels_of(pod))
