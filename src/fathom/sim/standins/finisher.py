"""Runs a Job's pods and counts those that succeeded, each once. Stands in for the job controller.

A pod is counted in three steps, of which each can be repeated: its UID is put down as uncounted, its
finalizer is taken away, and only then it moves from the uncounted to the number. A pod without the finalizer
is never put down, so nobody is counted twice, whoever deletes finished pods meanwhile:

    1. web-1 is counted and its finalizer is gone. 2. Our view still shows it with the finalizer.
    3. It is put down again.

The loop's wait for own writes is what keeps 3 from happening; and after a change of leaders, that the view of
pods must be as new as the Job's status is: whatever the number counts was let go before it was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fathom.cache.snapshot import Snapshot
from fathom.control.again import Again, Failure
from fathom.control.kit import Kit
from fathom.control.owning import child_name, controller_of, free_slots, has_finalizer, owned, taken_slots
from fathom.control.plan import Create, Patch, Plan, WriteStatus, remove_finalizer, target
from fathom.control.watches import JOB, POD, OwnedBy, Primary, Watch
from fathom.model.objects import Key, Obj, is_deleting, lookup, metadata, uid_of, with_metadata
from fathom.sim.standins.replicator import is_live
from fathom.sim.standins.term import Floor

TRACKED = "batch.kubernetes.io/job-tracking"
BEHIND = Failure(
    "BehindRevision", "pods are seen as of before the job's status", blame="held", lacks=("Pod",)
)


def plan_job(job: Obj, pods: Sequence[Obj], *, now: str) -> Plan:
    if is_deleting(job):
        return Plan(patches=_let_go(pods), why="the job goes")
    counted = int(lookup(job, "status", "succeeded") or 0)
    uncounted: list[str] = lookup(job, "status", "uncountedTerminatedPods", "succeeded") or []
    tracked = {uid_of(pod): pod for pod in pods if has_finalizer(pod, TRACKED)}
    fresh = [uid for uid, pod in tracked.items() if _succeeded(pod) and uid not in uncounted]
    through = [uid for uid in uncounted if uid not in tracked]
    done = [pod for uid, pod in tracked.items() if uid in uncounted or _failed(pod)]
    kept = [uid for uid in uncounted if uid in tracked]
    missing = _missing(job, pods, ended=counted + len(uncounted) + len(fresh))
    slots = free_slots(taken_slots(pods, job), missing)
    return Plan(
        creates=tuple(Create("Pod", pod_of(job, slot)) for slot in slots),
        patches=_let_go(done),
        statuses=_status(job, pods, counted + len(through), [*kept, *fresh], now),
        why=f"{counted} counted, {len(uncounted)} uncounted, {len(fresh)} new",
    )


def too_old(job: Obj, view: Snapshot, floor: int) -> bool:
    """Whether pods are seen as of before what the Job's status says of them, or either as of before our
    term."""
    written = int(metadata(job)["resourceVersion"])
    return view.revision("Pod") < max(written, floor) or view.revision("Job") < floor


def pod_of(job: Obj, slot: int) -> Obj:
    template = lookup(job, "spec", "template") or {}
    meta = {
        **(template.get("metadata") or {}),
        "name": child_name(metadata(job)["name"], slot),
        "namespace": metadata(job)["namespace"],
    }
    pod = owned({"metadata": meta, "spec": template["spec"]}, job)
    return with_metadata(pod, finalizers=[TRACKED])


def _missing(job: Obj, pods: Sequence[Obj], *, ended: int) -> int:
    active = sum(is_live(pod) for pod in pods)
    left = int(lookup(job, "spec", "completions") or 1) - ended
    return max(0, min(int(lookup(job, "spec", "parallelism") or 1), left) - active)


def _succeeded(pod: Obj) -> bool:
    return str(lookup(pod, "status", "phase")) == "Succeeded"


def _failed(pod: Obj) -> bool:
    return str(lookup(pod, "status", "phase")) == "Failed"


def _let_go(pods: Sequence[Obj]) -> tuple[Patch, ...]:
    return tuple(patch for pod in pods for patch in remove_finalizer("Pod", pod, TRACKED))


def _status(
    job: Obj, pods: Sequence[Obj], succeeded: int, uncounted: Sequence[str], now: str
) -> tuple[WriteStatus, ...]:
    before = job.get("status") or {}
    status: Obj = {
        "active": sum(is_live(pod) for pod in pods),
        "succeeded": succeeded,
        "uncountedTerminatedPods": {"succeeded": sorted(uncounted)} if uncounted else None,
        "startTime": before.get("startTime") or now,
    }
    if all((before.get(name) or 0) == (value or 0) for name, value in status.items()):
        return ()
    return (WriteStatus(target("Job", job), status),)


def strangers(key: Key, job: Obj | None, pods: Sequence[Obj]) -> list[Obj]:
    """Pods that are still held for a Job of this name that is gone: nobody else will let them go."""
    found = []
    for pod in pods:
        owner = controller_of(pod) or {}
        of_that_name = owner.get("kind") == "Job" and owner.get("name") == key.name
        if of_that_name and has_finalizer(pod, TRACKED) and (job is None or owner["uid"] != uid_of(job)):
            found.append(pod)
    return found


class Finisher:
    name = "finisher"
    watches: ClassVar[tuple[Watch, ...]] = (Primary(JOB, conditions=False), OwnedBy(POD))

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._floor = Floor(kit)

    async def reconcile(self, key: Key) -> Again:
        floor = await self._floor.revision()
        view = self._kit.snapshot()
        job = view.get("Job", key)
        if strangers(key, job, view.list("Pod", key.namespace)):
            return await self._let_strangers_go(key)
        if job is None:
            return Again.never()
        if too_old(job, view, floor):
            return Again(failure=BEHIND)
        plan = plan_job(job, view.owned("Pod", uid_of(job)), now=self._kit.now())
        return Again.after(await self._kit.apply(key, plan, seen=view))

    async def _let_strangers_go(self, key: Key) -> Again:
        """Our view of Jobs may be behind that of pods: the server is asked whose they are."""
        job = await self._kit.api.get(JOB.resource, key.namespace, key.name)
        view = self._kit.snapshot()
        pods = strangers(key, job, view.list("Pod", key.namespace))
        plan = Plan(patches=_let_go(pods), why="their job is gone")
        return Again.after(await self._kit.apply(key, plan, seen=view), in_s=0.5, why="the job of that name")
