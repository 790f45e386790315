"""Run the pods of Jobs to their end, and count them."""

from __future__ import annotations

from typing import ClassVar

from fathom.control.again import Again, Failure
from fathom.control.kit import Kit
from fathom.control.owning import has_finalizer, is_controlled_by
from fathom.control.plan import Plan
from fathom.control.watches import JOB, POD, OwnedBy, Primary, Related, Watch
from fathom.controllers.adopting import FOR_CHILDREN, owner_key
from fathom.controllers.floor import Floor
from fathom.controllers.jobtally import TRACKED
from fathom.controllers.missing import plan_refused
from fathom.controllers.news import of_job
from fathom.controllers.plan_jobs import Around, let_go, look_again_s, plan_job
from fathom.controllers.plan_progress import progress_name
from fathom.controllers.progress import WORKLOAD_PROGRESS
from fathom.controllers.replicasets import RACES
from fathom.model.objects import Key, Obj, uid_of

TRACKED_BY = "tracked-by"  # An index: pods that wait to be counted, by 'namespace/job'.


def _by_job(pod: Obj) -> tuple[str, ...]:
    key = owner_key(pod, JOB) if has_finalizer(pod, TRACKED) else None
    return () if key is None else ("/".join(key),)


class Jobs:
    name = "jobs"
    news = staticmethod(of_job)
    watches: ClassVar[tuple[Watch, ...]] = (
        # A Job's conditions are validated as a whole by Kubernetes, which knows only its own.
        Primary(JOB, conditions=False),
        OwnedBy(POD, indexes={**FOR_CHILDREN, TRACKED_BY: _by_job}),
        Related(WORKLOAD_PROGRESS),
    )

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._floor = Floor(kit, JOB, POD)

    async def reconcile(self, key: Key) -> Again:
        await self._floor.fetch()
        await self._release_orphans(key)
        view, now = self._kit.snapshot(), self._kit.now()
        job = view.get("Job", key)
        if job is None:
            return Again.never()
        pods = [pod for pod in view.owned("Pod", uid_of(job)) if is_controlled_by(pod, job)]
        around = Around(
            pods,
            occupied=lambda name: view.get("Pod", Key(key.namespace, name)) is not None,
            needs=self._floor.needs,
        )
        plan = plan_job(job, around, now=now)
        applied = await self._kit.apply(key, plan, seen=view)
        failure = applied.failure
        if plan.creates and failure is not None and failure.blame == "failed" and failure.reason not in RACES:
            await self._say(key, failure)
        return Again.after(applied, in_s=look_again_s(job, pods, now=now), why="a Job's time")

    async def _say(self, key: Key, failure: Failure) -> None:
        """That the server refuses its pods. Kubernetes' Jobs have no condition for that, so it stands where
        people look how far it is."""
        view = self._kit.snapshot()
        progress = view.get("WorkloadProgress", Key(key.namespace, progress_name("Job", key.name)))
        if progress is not None:
            await self._kit.apply(key, plan_refused(progress, failure, now=self._kit.now()), seen=view)

    async def _release_orphans(self, key: Key) -> None:
        """Pods of a Job that is gone would wait for ever to be counted. Our view of Jobs may be behind that
        of pods, so the server is asked whether it is really gone."""
        view = self._kit.snapshot()
        job = view.get("Job", key)
        left = [
            pod
            for pod in view.by_index("Pod", TRACKED_BY, "/".join(key))
            if job is None or not is_controlled_by(pod, job)
        ]
        if not left:
            return
        there = await self._kit.api.get(JOB.resource, *key)
        gone = [pod for pod in left if there is None or not is_controlled_by(pod, there)]
        if gone:
            plan = Plan(patches=let_go(gone), why="their Job is gone")
            await self._kit.apply(key, plan, seen=self._kit.snapshot())
