"""Jobs at rest, recounted from their pods: indexes that are done or have failed for good, starts of suspended
Jobs; and no pod is created for an index that is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fathom.model.objects import Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.resource_names import JOBS
from fathom.model.well_known import ACTOR_HEADER
from fathom.sim.checkers.workloads import note_of, owner_uid
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.world import World

INDEX = "batch.kubernetes.io/job-completion-index"


class IndexesRunOnce(Checker):
    """Who creates a pod of an indexed Job has seen which indexes the Job lists as completed or failed: it
    lists them itself, before it creates another pod. A create that was sent earlier may arrive late."""

    name = "no pod is created for an index that is over"
    resources = frozenset({"pods", JOBS})

    def __init__(self) -> None:
        self._over: dict[str, set[int]] = {}  # Job's UID -> the indexes that its status lists.

    def commit(self, change: Seen) -> Found:
        if change.new is None:
            return None
        if change.resource == JOBS:
            status, wanted = change.new.get("status") or {}, lookup(change.new, "spec", "completions")
            listed = {*indexes(status.get("completedIndexes")), *indexes(status.get("failedIndexes"))}
            self._over[uid_of(change.new)] = {index for index in listed if index < int(wanted or 0)}
            return None
        index = index_of(change.new)
        if change.old is not None or change.late or index is None:
            return None
        if index not in self._over.get(owner_uid(change.new), ()):
            return None
        return f"{change.by} created {change.key.name}, though index {index} is over"


class OnlyFailedIndexesFail(Checker):
    """An index is listed as failed when more of its pods have failed than may, and only then. A pod that the
    Job deletes itself, because it is suspended or runs fewer pods, has not failed; one that somebody else
    deletes has. One that ends when the Job has just given it up need not count."""

    name = "an index fails by its own pods"
    resources = frozenset({"pods", JOBS})

    def __init__(self) -> None:
        self._failed: dict[tuple[str, int], set[str]] = {}  # Job's UID and index -> UIDs of its failed pods.
        self._surely: dict[tuple[str, int], set[str]] = {}  # Those of them that wait to be counted.
        self._given_up: set[str] = set()  # UIDs of pods that the Job has deleted itself.

    def commit(self, change: Seen) -> Found:
        if change.resource == JOBS:
            return self._judge(change.old, change.new)
        self._follow(change)
        return None

    def _follow(self, change: Seen) -> None:
        pod = change.new or change.old or {}
        index, uid = index_of(pod), uid_of(pod)
        ends = change.new is None or is_deleting(change.new)
        if index is None or lookup(pod, "status", "phase") == "Succeeded":
            return
        by_its_job = dict(change.headers).get(ACTOR_HEADER) == "controllers/jobs"
        if ends and by_its_job and change.old is not None and not is_deleting(change.old):
            self._given_up.add(uid)
        if (ends or lookup(pod, "status", "phase") == "Failed") and uid not in self._given_up:
            self._failed.setdefault((owner_uid(pod), index), set()).add(uid)
            if not ends and metadata(pod).get("finalizers"):
                self._surely.setdefault((owner_uid(pod), index), set()).add(uid)

    def _judge(self, old: Obj | None, new: Obj | None) -> Found:
        limit = _limit_of(new)
        if new is None or limit is None:
            return None
        before, after = (indexes(lookup(job or {}, "status", "failedIndexes")) for job in (old, new))
        for index in sorted(after - before):
            failures = len(self._failed.get((uid_of(new), index), ()))
            if failures <= limit:
                return f"index {index} is listed as failed, but only {failures} of its pods have failed"
        return None

    def settled(self, world: World) -> Iterator[Finding]:
        for job in world.list(JOBS):
            listed, limit = indexes(lookup(job, "status", "failedIndexes")), _limit_of(job)
            for (uid, index), failed in self._surely.items():
                missing = limit is not None and len(failed) > limit and index not in listed
                if uid == uid_of(job) and missing and index < int(lookup(job, "spec", "completions") or 0):
                    path = f"{JOBS}/{key_of(job).namespace}/{key_of(job).name}"
                    yield Finding(f"index {index} has failed {len(failed)} times, and is not listed", (path,))


def _limit_of(job: Obj | None) -> int | None:
    """None where no limit decides alone."""
    if job is None or lookup(job, "spec", "podFailurePolicy"):
        return None
    limit = lookup(job, "spec", "backoffLimitPerIndex")
    return None if limit is None else int(limit)


def index_of(pod: Obj) -> int | None:
    text = note_of(pod, INDEX)
    return int(text) if text else None


def indexes(listed: object) -> set[int]:
    """'0,2-4' is 0, 2, 3 and 4."""
    found: set[int] = set()
    for part in str(listed or "").split(","):
        if part:
            first, _, last = part.partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    return found


def mismatches(job: Obj, pods: Sequence[Obj]) -> Iterator[str]:
    """What its status says that its pods do not."""
    if lookup(job, "spec", "completionMode") == "Indexed":
        yield from _of_indexes(job)
    yield from _of_suspension(job)
    ended = (lookup(pod, "status", "phase") in TERMINAL_PHASES for pod in pods)
    if (
        _has(job, "FailureTarget", "SuccessCriteriaMet")
        and not _has(job, "Complete", "Failed")
        and all(ended)
    ):
        yield "its end is decided and none of its pods runs, but it has not ended"


def _has(job: Obj, *types: str) -> bool:
    conditions = lookup(job, "status", "conditions") or ()
    return any(each.get("type") in types and each.get("status") == "True" for each in conditions)


def _reason(job: Obj, kind: str) -> str:
    conditions = lookup(job, "status", "conditions") or ()
    return next((str(each.get("reason")) for each in conditions if each.get("type") == kind), "")


def _of_indexes(job: Obj) -> Iterator[str]:
    """Whether an index has succeeded cannot be told from pods: they may be gone, or the Job may have given
    one up a moment before it succeeded. `ListedBeforeLetGo` sees to that."""
    status, wanted = job.get("status") or {}, int(lookup(job, "spec", "completions") or 0)
    completed, failed = indexes(status.get("completedIndexes")), indexes(status.get("failedIndexes"))
    if int(status.get("succeeded") or 0) != len(completed):
        yield f"it counts {status.get('succeeded')} successes, but lists the indexes {sorted(completed)}"
    if both := sorted(completed & failed):
        yield f"the indexes {both} are listed as completed and as failed"
    left = sorted(set(range(wanted)) - completed - failed)
    if left and _reason(job, "FailureTarget") == "FailedIndexes":
        yield f"it fails because of its indexes, but {left} are neither completed nor failed"


def _of_suspension(job: Obj) -> Iterator[str]:
    """A Job that is resumed starts anew: its deadline does not count the time before."""
    conditions = {each.get("type"): each for each in lookup(job, "status", "conditions") or ()}
    started, suspended = lookup(job, "status", "startTime"), conditions.get("Suspended") or {}
    if _has(job, "Complete", "Failed"):
        return
    wanted = bool(lookup(job, "spec", "suspend"))
    if wanted and started:
        yield f"it is suspended, but has started at {started}"
    if not wanted and not started:
        yield "it is not suspended, but has no start"
    if wanted != (suspended.get("status") == "True"):
        yield f"its spec.suspend is {wanted}, but its condition Suspended is {suspended.get('status')}"
    if not wanted and started and str(started) < str(suspended.get("lastTransitionTime") or ""):
        yield f"it was resumed at {suspended['lastTransitionTime']}, but says that it started at {started}"
