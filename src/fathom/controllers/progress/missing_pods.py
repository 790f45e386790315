"""Why pods of a workload are not created, and by when the whole workload has to be there. Pure.

Read from the workload's objects.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.control.plan import Plan, write_status
from fathom.control.reconcile_result import Failure
from fathom.controllers.deployment.plan_status import COMPLETE, PAUSED, TIMED_OUT, deadline_s_of
from fathom.controllers.housekeeping.plan_garbage import FOREGROUND, ORPHAN
from fathom.controllers.job.plan_failure_policy import has_failed
from fathom.controllers.pod_states import seconds
from fathom.controllers.progress.pod_stages import DEADLINES_S, MESSAGE_LENGTH_MAX
from fathom.controllers.refusals import REPLICA_FAILURE, refused_at, with_refusal
from fathom.model.conditions import conditions_of, find_condition, set_condition
from fathom.model.objects import Obj, is_deleting, lookup, metadata

# Objects with these finalizers wait for the garbage collector, not for a person.
OURS = (FOREGROUND, ORPHAN)


class MissingPods(msgspec.Struct, frozen=True):
    """What the missing pods wait for. Without a deadline their absence is intended."""

    boundary: str
    message: str = ""
    deadline_s: float | None = None
    reason: str = ""  # If it says more than the boundary.


def why_missing(
    workload: Obj, sets: Sequence[Obj], pods: Sequence[Obj], refusal_sources: Sequence[Obj]
) -> MissingPods:
    """`refusal_sources`: the objects that may carry the server's refusal of a pod."""
    refused = _refused(refusal_sources)
    if refused is not None:
        return refused
    if workload.get("kind") == "Job":
        return _of_job(workload, pods)
    return _of_deployment(workload, sets)


def _refused(refusal_sources: Sequence[Obj]) -> MissingPods | None:
    for obj in refusal_sources:
        condition = find_condition(conditions_of(obj), REPLICA_FAILURE)
        if condition is not None and condition.get("status") == "True":
            message = str(condition.get("message") or "")
            since_s = seconds(condition.get("lastTransitionTime"))
            return MissingPods(
                refused_at(obj), message[:MESSAGE_LENGTH_MAX], since_s + DEADLINES_S["missing"]
            )
    return None


def plan_refused(progress: Obj, failure: Failure, *, now: str) -> Plan:
    """For a workload that has no such condition itself. It is removed when all wanted pods exist."""
    conditions = set_condition(
        conditions_of(progress),
        type=REPLICA_FAILURE,
        status="True",
        reason="FailedCreate",
        message=failure.message,
        observed_generation=int(lookup(progress, "status", "observedGeneration") or 0),
        now=now,
    )
    conditions = with_refusal(conditions, failure, now=now)
    statuses = write_status("WorkloadProgress", progress, {"conditions": conditions})
    return Plan(statuses=statuses, why=failure.reason if statuses else "")


def _of_job(job: Obj, pods: Sequence[Obj]) -> MissingPods:
    failed = sorted(str(metadata(pod)["name"]) for pod in pods if has_failed(pod, job))
    if not failed:
        return MissingPods("admission", "not created yet")
    since_s = seconds(lookup(job, "status", "startTime")) or seconds(metadata(job).get("creationTimestamp"))
    message = f"failed pods: {len(failed)}, the last is {failed[-1]}; the next is created after a back-off"
    return MissingPods("crash", message, since_s + DEADLINES_S["starting"])


def _of_deployment(workload: Obj, sets: Sequence[Obj]) -> MissingPods:
    if int(lookup(workload, "status", "observedGeneration") or 0) < int(metadata(workload)["generation"]):
        return MissingPods("admission", "not created yet")  # Its status is about an older generation.
    progressing = find_condition(conditions_of(workload), "Progressing") or {}
    if lookup(workload, "spec", "paused") or progressing.get("reason") == PAUSED:
        return MissingPods("paused", str(progressing.get("message") or "") or "the rollout is paused")
    if progressing.get("reason") == TIMED_OUT:
        message = f"{progressing.get('message')} No more of its pods are created."
        return MissingPods("rollout", message, seconds(progressing.get("lastTransitionTime")))
    wanted = sum(int(lookup(replica_set, "spec", "replicas") or 0) for replica_set in sets)
    if workload.get("kind") == "Deployment" and wanted < int(lookup(workload, "spec", "replicas") or 0):
        return MissingPods("rollout", "more are created when new pods are available and old pods are gone")
    return MissingPods("admission", "not created yet")


def own_deadline_s(workload: Obj) -> float | None:
    """The workload's own deadline, by its spec."""
    if workload.get("kind") == "Job":
        started, limit = (
            lookup(workload, "status", "startTime"),
            lookup(workload, "spec", "activeDeadlineSeconds"),
        )
        return None if limit is None or not started else seconds(started) + int(limit)
    progressing = find_condition(conditions_of(workload), "Progressing")
    limit_s = deadline_s_of(workload)
    if progressing is None or progressing.get("reason") in {PAUSED, COMPLETE}:
        return None
    if progressing.get("reason") == TIMED_OUT:
        return seconds(progressing.get("lastTransitionTime"))
    return None if limit_s is None else seconds(progressing.get("lastUpdateTime")) + limit_s


def why_going(workload: Obj) -> MissingPods | None:
    """What holds a workload that is being deleted."""
    if not is_deleting(workload):
        return None
    since = str(metadata(workload)["deletionTimestamp"])
    foreign = [
        str(finalizer) for finalizer in metadata(workload).get("finalizers") or () if finalizer not in OURS
    ]
    deadline_s = seconds(since) + DEADLINES_S["going"]
    if not foreign:
        return MissingPods("deletion", f"the workload has been terminating since {since}", deadline_s)
    message = f"the workload has been terminating since {since}, held by finalizer {', '.join(foreign)}"
    return MissingPods("finalizer", message, deadline_s, f"finalizer/{foreign[0]}")
