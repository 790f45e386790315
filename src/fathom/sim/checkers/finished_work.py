"""Jobs: finished only when none of its pods runs any more, and no success of a pod is lost."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.model.objects import Obj, is_deleting, lookup, metadata, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.resource_names import JOBS
from fathom.model.well_known import JOB_TRACKING_FINALIZER
from fathom.sim.checkers.at_rest import AtRest, Objects, of_resource
from fathom.sim.checkers.workloads import PODS, owner_uid
from fathom.sim.world.active_faults import DRIVER
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

OVER = frozenset({"Complete", "Failed"})
DECIDED = OVER | {"SuccessCriteriaMet", "FailureTarget"}


class OverWhenNothingRuns(Checker):
    """A client that waits for a Job may then use what it worked on. A pod whose create arrives after its
    sender gave up on it does not count: no controller knows of it."""

    name = "a finished Job has no running pods"
    resources = frozenset({PODS, JOBS})

    def __init__(self) -> None:
        self._running: dict[str, dict[str, None]] = {}  # Job's UID -> names of pods that have not ended.

    def commit(self, change: Seen) -> Found:
        if change.resource == PODS:
            self._follow(change)
            return None
        if change.new is None or not _is_over(change.new) or _is_over(change.old):
            return None
        running = self._running.get(uid_of(change.new))
        if not running:
            return None
        paths = tuple(f"{PODS}/{change.key.namespace}/{name}" for name in running)
        return Finding(f"Job {change.key.name} is marked finished, but {', '.join(running)} still run", paths)

    def _follow(self, change: Seen) -> None:
        running = self._running.setdefault(owner_uid(change.new or change.old or {}), {})
        if change.new is None or lookup(change.new, "status", "phase") in TERMINAL_PHASES:
            running.pop(change.key.name, None)
        elif change.old is not None or not change.late:
            running[change.key.name] = None


def _is_over(job: Obj | None) -> bool:
    return _has(job, OVER)


def _has(job: Obj | None, types: frozenset[str]) -> bool:
    conditions = lookup(job, "status", "conditions") or ()
    return any(
        condition.get("type") in types and condition.get("status") == "True" for condition in conditions
    )


class ListedBeforeLetGo(Checker):
    """A pod that has succeeded keeps its finalizer until its Job lists its UID: else a crash between the two
    would lose the success. Not for a Job whose end is decided, or that is gone or going."""

    name = "a success is listed before its pod is let go"
    resources = frozenset({PODS, JOBS})

    def __init__(self) -> None:
        self._jobs: dict[str, Obj] = {}  # By UID.
        self._listed: dict[str, set[str]] = {}  # Job's UID -> UIDs of pods that it has ever listed.

    def commit(self, change: Seen) -> Found:
        if change.resource == JOBS:
            self._follow(change)
            return None
        old, new = change.old, change.new
        if old is None or not _is_tracked(old) or (new is not None and _is_tracked(new)):
            return None
        job = self._jobs.get(owner_uid(old))
        done = lookup(old, "status", "phase") == "Succeeded"
        if not done or job is None or _has(job, DECIDED) or is_deleting(job) or change.by == DRIVER:
            return None
        if uid_of(old) in self._listed.get(uid_of(job), ()):
            return None
        return f"{change.by} let {change.key.name} go, whose success its Job has not listed"

    def _follow(self, change: Seen) -> None:
        if change.new is None:
            self._jobs.pop(uid_of(change.old or {}), None)
            return
        self._jobs[uid_of(change.new)] = change.new
        uncounted = lookup(change.new, "status", "uncountedTerminatedPods", "succeeded") or ()
        self._listed.setdefault(uid_of(change.new), set()).update(map(str, uncounted))


def _is_tracked(pod: Obj) -> bool:
    return JOB_TRACKING_FINALIZER in (metadata(pod).get("finalizers") or ())


class OnlyJobsHoldPods(AtRest):
    """At rest: the finalizer by which a Job counts its pods is only on pods of a Job that goes on. One that
    is gone, going or finished holds none, nor does a Job hold pods that are not its own."""

    name = "only a Job that goes on holds its pods when settled"
    patience_s = 120.0

    def at_rest(self, objects: Objects, now_s: float) -> Iterable[str | Finding]:
        jobs = {uid_of(job): job for job in of_resource(objects, JOBS)}
        for path, pod in objects.items():
            if not path.startswith(f"{PODS}/") or not _is_tracked(pod):
                continue
            job = jobs.get(owner_uid(pod))
            if job is None or is_deleting(job) or _is_over(job):
                yield Finding(f"{path} has the finalizer of a Job that {_became(job)}", (path,))


def _became(job: Obj | None) -> str:
    if job is None:
        return "does not exist"
    return "is being deleted" if is_deleting(job) else "has finished"
