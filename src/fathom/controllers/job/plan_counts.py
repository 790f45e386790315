"""Which of a Job's pods have ended, each counted once. Pure.

A pod is counted in three steps, each of which can be repeated: its UID is listed as uncounted, its finalizer
is removed, and only then it moves from the uncounted list to the number. A pod without the finalizer is never
listed, so no pod is counted twice, whichever client deletes finished pods meanwhile:

    1. web-1 is counted and its finalizer is gone. 2. Our view still shows it with the finalizer.
    3. It is listed again.

What prevents 3: a decision waits until our own writes are visible, and a new leader counts nothing before its
view has reached the beginning of its term.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fathom.control.ownership import has_finalizer
from fathom.controllers.job.completion_indexes import index_of, is_indexed, parse_indexes, shown_indexes
from fathom.controllers.job.plan_failure_policy import delayed, failed_indexes, failure_verdict, has_failed
from fathom.controllers.pod_states import SUCCEEDED, phase_of
from fathom.model.objects import Obj, lookup, uid_of
from fathom.model.well_known import JOB_TRACKING_FINALIZER


class JobTally(msgspec.Struct, frozen=True):
    """All ended pods that are known. Lists of UIDs are in the order of the pods' names."""

    succeeded: int  # By the status.
    failed: int
    uncounted_succeeded: tuple[str, ...]
    uncounted_failed: tuple[str, ...]
    fresh_succeeded: tuple[str, ...]  # Ended, and not listed yet.
    fresh_failed: tuple[str, ...]
    through: frozenset[str]  # Listed, and their finalizer is gone: they may move to the numbers.
    to_release: tuple[Obj, ...]  # Listed or not to be counted, and their finalizer is still there.
    indexes: tuple[int, ...] | None = None  # Completed; None if the Job is not indexed.
    failed_indexes: tuple[int, ...] | None = None  # None without a limit per index.
    held: int = 0  # Failed, and listed only when their index has its next pod.

    @property
    def moves(self) -> bool:
        return bool(self.fresh_succeeded or self.fresh_failed or self.through or self.to_release)

    @property
    def succeeded_in_all(self) -> int:
        if self.indexes is not None:
            return len(self.indexes)
        return self.succeeded + len(self.uncounted_succeeded) + len(self.fresh_succeeded)

    @property
    def failed_in_all(self) -> int:
        return self.failed + len(self.uncounted_failed) + len(self.fresh_failed) + self.held


def tally(job: Obj, pods: Sequence[Obj]) -> JobTally:
    status = job.get("status") or {}
    uncounted = status.get("uncountedTerminatedPods") or {}
    succeeded = tuple(uncounted.get("succeeded") or ())
    failed = tuple(uncounted.get("failed") or ())
    listed = {*succeeded, *failed}
    tracked = {uid_of(pod): pod for pod in pods if has_finalizer(pod, JOB_TRACKING_FINALIZER)}
    unlisted = [pod for uid, pod in tracked.items() if uid not in listed]
    succeeded_pods = [pod for pod in unlisted if phase_of(pod) == SUCCEEDED]
    indexes = _indexes(job, succeeded_pods) if is_indexed(job) else None
    failed_for_good = failed_indexes(job, pods)
    delayed_uids = {uid_of(pod) for pod in delayed(job, pods, (*(indexes or ()), *(failed_for_good or ())))}
    failures = [pod for pod in unlisted if has_failed(pod, job)]
    ignored = {uid_of(pod) for pod in failures if not _counts(job, pod)}
    countable = [pod for pod in failures if uid_of(pod) not in delayed_uids]
    return JobTally(
        succeeded=int(status.get("succeeded") or 0),
        failed=int(status.get("failed") or 0),
        uncounted_succeeded=succeeded,
        uncounted_failed=failed,
        fresh_succeeded=tuple(uid_of(pod) for pod in succeeded_pods),
        fresh_failed=tuple(uid_of(pod) for pod in countable if uid_of(pod) not in ignored),
        through=frozenset(listed.difference(tracked)),
        to_release=(
            *(pod for uid, pod in tracked.items() if uid in listed),
            *(pod for pod in countable if uid_of(pod) in ignored),
        ),
        indexes=indexes,
        failed_indexes=failed_for_good,
        held=sum(uid_of(pod) in delayed_uids - ignored for pod in failures),
    )


def _counts(job: Obj, failed: Obj) -> bool:
    """A failure counts unless a rule ignores it, or its index is no longer wanted."""
    if failure_verdict(job, failed).action == "Ignore":
        return False
    index = index_of(failed)
    wanted = int(lookup(job, "spec", "completions") or 0)
    return not is_indexed(job) or (index is not None and index < wanted)


def _indexes(job: Obj, done: Iterable[Obj]) -> tuple[int, ...]:
    """Indexes beyond the present number of completions, from an earlier spec, do not count."""
    limit = int(lookup(job, "spec", "completions") or 0)
    indexes = set(parse_indexes(str(lookup(job, "status", "completedIndexes") or "")))
    indexes |= {index for pod in done if (index := index_of(pod)) is not None}
    return tuple(index for index in sorted(indexes) if index < limit)


def counted(job_tally: JobTally) -> Obj:
    """The fields of the status after this step."""
    succeeded = [uid for uid in job_tally.uncounted_succeeded if uid not in job_tally.through]
    failed = [uid for uid in job_tally.uncounted_failed if uid not in job_tally.through]
    moved = len(job_tally.uncounted_succeeded) - len(succeeded)
    # 0 is left out, as in Kubernetes: clients react to the presence of a number.
    status: Obj = {
        "succeeded": (job_tally.succeeded + moved if job_tally.indexes is None else len(job_tally.indexes))
        or None,
        "failed": job_tally.failed + len(job_tally.uncounted_failed) - len(failed) or None,
        "uncountedTerminatedPods": {
            "succeeded": [*succeeded, *job_tally.fresh_succeeded] or None,
            "failed": [*failed, *job_tally.fresh_failed] or None,
        },
    }
    if job_tally.indexes is not None:
        status["completedIndexes"] = shown_indexes(job_tally.indexes)
    if job_tally.failed_indexes is not None:
        status["failedIndexes"] = shown_indexes(job_tally.failed_indexes)
    return status
