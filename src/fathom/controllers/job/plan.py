"""Run a Job's pods until enough have succeeded, or too many failed, or its time is up. Pure.

    count ended pods ──> over? ──yes──> delete running pods ──> all gone: Complete or Failed ──> ttl: delete
                          └──no──> as many pods as parallelism and missing completions allow

A pass either counts or runs pods: counting must go on when pods cannot be created.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fathom.cache.needs import Need, NoOlderThan
from fathom.control.ownership import OwnerClaims, adopted, orphaned, with_finalizer, without_finalizer
from fathom.control.plan import (
    NOTHING,
    OWN_WRITES,
    Create,
    Delete,
    Patch,
    Plan,
    WriteStatus,
    contains,
    remove_finalizer,
    target,
)
from fathom.controllers.job.completion_indexes import number_of
from fathom.controllers.job.plan_counts import JobTally, counted, tally
from fathom.controllers.job.plan_failure_policy import (
    CRITERIA_MET,
    FAILURE_TARGET,
    FAILURES,
    has_failed,
    has_target,
    is_target,
    job_failure_message,
    last_failures,
    limit_per_index,
    met_rule,
)
from fathom.controllers.job.plan_pods import BURST_PODS_MAX, new_pods, surplus_pods
from fathom.controllers.pod_states import has_ended, is_active, is_ready, is_terminating, seconds
from fathom.model.backoff import Backoff
from fathom.model.conditions import Status, conditions_of, find_condition, set_condition
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Obj, is_deleting, lookup, metadata
from fathom.model.well_known import JOB_TRACKING_FINALIZER

COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
CONTROLLER = "kubernetes.io/job-controller"

# After a failure: 10 s, then twice as long each time; Kubernetes' numbers.
BACKOFF = Backoff(10.0, 600.0)

NEEDS: tuple[Need, ...] = (OWN_WRITES, NoOlderThan(FRESH_S, ("Job", "Pod")))


class JobVerdict(msgspec.Struct, frozen=True):
    """How the Job ends, as soon as none of its pods runs any more."""

    well: bool
    reason: str
    message: str


class JobFacts(msgspec.Struct, frozen=True):
    pods: Sequence[Obj]  # Controlled by the Job, and matching its selector.
    occupied: Callable[[str], bool] = lambda name: False  # Whether a pod of this name exists.
    needs: tuple[Need, ...] = ()  # Of a new leader, before it creates or deletes pods.
    claims: OwnerClaims = OwnerClaims()


def is_ours(job: Obj) -> bool:
    return lookup(job, "spec", "managedBy") in {None, CONTROLLER}


def is_true(job: Obj, type_: str) -> bool:
    condition = find_condition(conditions_of(job), type_)
    return condition is not None and condition.get("status") == "True"


def is_finished(job: Obj) -> bool:
    return is_true(job, COMPLETE) or is_true(job, FAILED)


def plan_job(job: Obj, facts: JobFacts, *, now: str) -> Plan:
    if not is_ours(job):
        return NOTHING
    needs = (*NEEDS, *facts.needs)
    if is_deleting(job):
        return Plan(patches=let_go(facts.pods), why="the Job is being deleted")
    if is_finished(job):
        return _finished(job, facts.pods, needs, now)
    if facts.claims.adopt or facts.claims.release:
        return _claimed(job, facts.claims)
    if (why := job_failure_message(job, facts.pods)) and not has_target(job):
        return _doomed(job, JobVerdict(False, "PodFailurePolicy", why), needs, now)
    job_tally = tally(job, facts.pods)
    if job_tally.moves:
        return _count(job, facts.pods, job_tally, needs, now)
    verdict = judge(job, facts.pods, job_tally, now)
    if verdict is not None:
        return _end(job, facts.pods, verdict, needs, now)
    return _run(job, facts, job_tally, needs, now)


def let_go(pods: Sequence[Obj]) -> tuple[Patch, ...]:
    return tuple(patch for pod in pods for patch in remove_finalizer("Pod", pod, JOB_TRACKING_FINALIZER))


def _claimed(job: Obj, claims: OwnerClaims) -> Plan:
    """Adopted pods will be counted, released pods will not."""
    return Plan(
        patches=(
            *(
                _owned(pod, adopted(pod, job), with_finalizer(pod, JOB_TRACKING_FINALIZER))
                for pod in claims.adopt
            ),
            *(
                _owned(pod, orphaned(pod, job), without_finalizer(pod, JOB_TRACKING_FINALIZER))
                for pod in claims.release
            ),
        ),
        why="adopt or release pods",
    )


def _owned(pod: Obj, owners: list[Obj] | None, finalizers: list[str] | None) -> Patch:
    """`finalizers`: None if they stay as they are."""
    kept = {} if finalizers is None else {"finalizers": finalizers}
    return Patch(target("Pod", pod), {"metadata": {"ownerReferences": owners, **kept}})


# Counting.


def _count(job: Obj, pods: Sequence[Obj], job_tally: JobTally, needs: tuple[Need, ...], now: str) -> Plan:
    status = {**_counts(job, pods), **counted(job_tally), **_started(job, now)}
    writes = () if contains(job.get("status") or {}, status) else (_status_patch(job, status),)
    return Plan(
        patches=(*let_go(job_tally.to_release), *writes),
        needs=needs,
        why=f"{job_tally.succeeded_in_all} succeeded, {job_tally.failed_in_all} failed",
    )


def _doomed(job: Obj, verdict: JobVerdict, needs: tuple[Need, ...], now: str) -> Plan:
    """Recorded before the pod is counted and released: afterwards the reason might be lost."""
    status = {"conditions": _with_condition(conditions_of(job), FAILURE_TARGET, "True", verdict, now=now)}
    return Plan(patches=(_status_patch(job, status),), needs=needs, why=verdict.message)


def _status_patch(job: Obj, status: Obj) -> Patch:
    """Counts hold only for the view they were made from, so writing them waits until that view is fresh
    enough: as a patch, not as a status, which is always written."""
    return Patch(target("Job", job), {"status": status}, subresource="status", destructive=True)


def _counts(job: Obj, pods: Sequence[Obj]) -> Obj:
    active = [pod for pod in pods if is_active(pod)]
    return {
        "active": len(active) or None,
        "ready": sum(is_ready(pod) for pod in active),
        "terminating": sum(is_terminating(pod) for pod in pods),
    }


def _started(job: Obj, now: str) -> Obj:
    if lookup(job, "spec", "suspend") or lookup(job, "status", "startTime"):
        return {}
    return {"startTime": now}


# Whether it is over.


def judge(job: Obj, pods: Sequence[Obj], job_tally: JobTally, now: str) -> JobVerdict | None:
    condition = next((c for c in conditions_of(job) if is_target(c)), None)
    if condition is not None:  # A verdict that was written stays.
        well = condition["type"] == CRITERIA_MET
        return JobVerdict(well, str(condition.get("reason")), str(condition.get("message") or ""))
    # If both apply the Job has failed, as in Kubernetes.
    return _failure(job, pods, job_tally, now) or _success(job, pods, job_tally)


def _failure(job: Obj, pods: Sequence[Obj], job_tally: JobTally, now: str) -> JobVerdict | None:
    limit = _number(job, "backoffLimit", 6)
    if job_tally.failed_in_all > limit or _restarted_too_often(job, pods, limit):
        return JobVerdict(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left_s = deadline_left_s(job, now)
    if left_s is not None and left_s <= 0:
        return JobVerdict(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    return _judge_indexes(job, job_tally)


def _success(job: Obj, pods: Sequence[Obj], job_tally: JobTally) -> JobVerdict | None:
    rule = met_rule(job, job_tally.indexes or ())
    if rule is not None:
        return JobVerdict(True, "SuccessPolicy", f"Matched rules at index {rule}")
    if _has_succeeded(job, pods, job_tally):
        return JobVerdict(True, "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _judge_indexes(job: Obj, job_tally: JobTally) -> JobVerdict | None:
    failed, most = len(job_tally.failed_indexes or ()), lookup(job, "spec", "maxFailedIndexes")
    if most is not None and failed > int(most):
        message = "Job has exceeded the specified maximal number of failed indexes"
        return JobVerdict(False, "MaxFailedIndexesExceeded", message)
    if failed and failed + job_tally.succeeded_in_all >= _number(job, "completions", 1):
        return JobVerdict(False, "FailedIndexes", "Job has failed indexes")
    return None


def _has_succeeded(job: Obj, pods: Sequence[Obj], job_tally: JobTally) -> bool:
    completions = lookup(job, "spec", "completions")
    if completions is not None:
        return job_tally.succeeded_in_all >= int(completions)
    # The pods share out the work among themselves: one success means it is done, the others finish.
    return job_tally.succeeded_in_all > 0 and not any(is_active(pod) for pod in pods)


def _restarted_too_often(job: Obj, pods: Sequence[Obj], limit: int) -> bool:
    if lookup(job, "spec", "template", "spec", "restartPolicy") != "OnFailure":
        return False
    restarts = sum(_restarts(pod) for pod in pods if not has_ended(pod))
    return restarts > 0 if limit == 0 else restarts >= limit


def _restarts(pod: Obj) -> int:
    """The sum over its containers."""
    status = pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return sum(int(container.get("restartCount") or 0) for container in statuses)


def deadline_left_s(job: Obj, now: str) -> float | None:
    """None without a deadline, and while the Job is suspended or not started."""
    deadline, started = lookup(job, "spec", "activeDeadlineSeconds"), lookup(job, "status", "startTime")
    if deadline is None or started is None or lookup(job, "spec", "suspend"):
        return None
    return seconds(started) + int(deadline) - seconds(now)


def _end(job: Obj, pods: Sequence[Obj], verdict: JobVerdict, needs: tuple[Need, ...], now: str) -> Plan:
    """First the verdict is written, then running pods are deleted; the Job is over when none is left."""
    counts = _counts(job, pods)
    conditions = _with_condition(
        conditions_of(job), CRITERIA_MET if verdict.well else FAILURE_TARGET, "True", verdict, now=now
    )
    status = {**counts, **_started(job, now), "conditions": conditions}
    if not counts["active"] and not counts["terminating"]:
        last = COMPLETE if verdict.well else FAILED
        status["conditions"] = _with_condition(conditions, last, "True", verdict, now=now)
        # API servers refuse a finished Job without a start; one that is suspended has none.
        status["startTime"] = lookup(job, "status", "startTime") or now
        if verdict.well:
            status["completionTime"] = _completed(job, now)
    writes = () if contains(job.get("status") or {}, status) else (_status_patch(job, status),)
    running = [pod for pod in pods if is_active(pod)] if has_target(job) else []
    return Plan(
        patches=(*writes, *(let_go(running) if verdict.well else ())),  # They do not count as failed.
        deletes=tuple(Delete(target("Pod", pod)) for pod in running),
        needs=needs,
        why=verdict.reason,
    )


def _completed(job: Obj, now: str) -> str:
    """Not before its start, which API servers refuse: another manager's clock, or this one before it was set
    back, may have been ahead."""
    started = lookup(job, "status", "startTime")
    return str(started) if started is not None and seconds(started) > seconds(now) else now


def _with_condition(
    conditions: Sequence[Obj], type_: str, status: Status, verdict: JobVerdict, *, now: str
) -> list[Obj]:
    before = find_condition(conditions, type_)
    if before is not None and before.get("status") == status:
        return list(conditions)
    updated = set_condition(
        conditions, type=type_, status=status, reason=verdict.reason, message=verdict.message, now=now
    )
    return [
        {**condition, "lastProbeTime": now} if condition.get("type") == type_ else condition
        for condition in updated
    ]


def _finished(job: Obj, pods: Sequence[Obj], needs: tuple[Need, ...], now: str) -> Plan:
    """Deletes late pods, removes finalizers; and deletes the Job itself after its TTL."""
    left_s = ttl_left_s(job, now)
    if left_s is not None and left_s <= 0:
        return Plan(deletes=(Delete(target("Job", job)),), needs=needs, why="its TTL has expired")
    deletes = tuple(Delete(target("Pod", pod)) for pod in pods if is_active(pod))
    return Plan(
        patches=let_go(pods), deletes=deletes, needs=needs if deletes else (), why="the Job has finished"
    )


def ttl_left_s(job: Obj, now: str) -> float | None:
    ttl = lookup(job, "spec", "ttlSecondsAfterFinished")
    ended = next(
        (c for type_ in (COMPLETE, FAILED) if (c := find_condition(conditions_of(job), type_))), None
    )
    if ttl is None or ended is None or ended.get("status") != "True":
        return None
    return seconds(ended.get("lastTransitionTime")) + int(ttl) - seconds(now)


# Running.


def _run(job: Obj, facts: JobFacts, job_tally: JobTally, needs: tuple[Need, ...], now: str) -> Plan:
    pods = facts.pods
    active = [pod for pod in pods if is_active(pod)]
    wanted = wanted_active(job, pods, job_tally)
    surplus = surplus_pods(job, active, max(0, len(active) - wanted))[:BURST_PODS_MAX]
    waits = index_waits_s(job, pods, now)
    paused_s = backoff_left_s(job, pods, now)
    missing = 0 if paused_s or surplus else max(0, wanted - len(active) - waited_for(job, pods))
    created = new_pods(job, facts.pods, facts.occupied, job_tally, missing, waiting=waits)
    creates = tuple(Create("Pod", pod) for pod in created)
    deletes = tuple(Delete(target("Pod", pod)) for pod in surplus)
    status = {**_counts(job, pods), **_suspension(job, now)}
    writes = () if contains(job.get("status") or {}, status) else (WriteStatus(target("Job", job), status),)
    return Plan(
        creates=creates,
        patches=let_go(surplus),  # Surplus pods have not failed.
        deletes=deletes,
        statuses=writes,
        needs=needs if deletes else facts.needs if creates else (),
        why=f"{len(active)} active of {wanted}; {job_tally.succeeded_in_all} succeeded"
        + _held_by(job, waits_s=paused_s),
    )


def _held_by(job: Obj, *, waits_s: float) -> str:
    if lookup(job, "spec", "suspend"):
        return "; it is suspended"
    return "; no new pod for now: pods have just failed" if waits_s else ""


def wanted_active(job: Obj, pods: Sequence[Obj], job_tally: JobTally) -> int:
    if lookup(job, "spec", "suspend"):
        return 0
    parallelism, completions = _number(job, "parallelism", 1), lookup(job, "spec", "completions")
    if completions is None:
        # After the first success no pod is added, and running ones continue.
        return sum(is_active(pod) for pod in pods) if job_tally.succeeded_in_all else parallelism
    missing = int(completions) - job_tally.succeeded_in_all - len(job_tally.failed_indexes or ())
    return max(0, min(parallelism, missing))


def waited_for(job: Obj, pods: Sequence[Obj]) -> int:
    """Terminating pods that the Job waits for: they are replaced only when they have ended."""
    return sum(is_terminating(pod) and not has_failed(pod, job) for pod in pods)


def _suspension(job: Obj, now: str) -> Obj:
    """A suspended Job starts anew when it is resumed."""
    before = conditions_of(job)
    if lookup(job, "spec", "suspend"):
        verdict = JobVerdict(True, "JobSuspended", "Job suspended")
        status: Obj = {"conditions": _with_condition(before, SUSPENDED, "True", verdict, now=now)}
        return {**status, "startTime": None} if lookup(job, "status", "startTime") else status
    if is_true(job, SUSPENDED):
        verdict = JobVerdict(True, "JobResumed", "Job resumed")
        return {
            "conditions": _with_condition(before, SUSPENDED, "False", verdict, now=now),
            "startTime": lookup(job, "status", "startTime") or now,
        }
    return _started(job, now)


def backoff_left_s(job: Obj, pods: Sequence[Obj], now: str) -> float:
    """How long to wait before the next pod: longer with each failure since the last success. With a limit per
    index, each index has a wait of its own."""
    if limit_per_index(job) is not None:
        return 0.0
    ended = sorted(
        (_ended_s(pod), str(metadata(pod)["name"]), has_failed(pod, job)) for pod in pods if has_ended(pod)
    )
    failures = 0
    for _, _, failed in ended:
        failures = failures + 1 if failed else 0
    return _left_s(failures, ended[-1][0], now) if failures else 0.0


def index_waits_s(job: Obj, pods: Sequence[Obj], now: str) -> dict[int, float]:
    """How long each failed index has to wait for its next pod."""
    if limit_per_index(job) is None:
        return {}
    waits_s = {
        index: _left_s((number_of(pod, FAILURES) or 0) + 1, _ended_s(pod), now)
        for index, pod in last_failures(job, pods).items()
    }
    return {index: wait_s for index, wait_s in waits_s.items() if wait_s > 0}


def _left_s(failures: int, last_s: float, now: str) -> float:
    wait_s = BACKOFF.whole_s(failures)
    return max(0.0, float(last_s + wait_s - seconds(now)))


def _ended_s(pod: Obj) -> float:
    """When its last container ended; if no status shows that, when its readiness last changed."""
    statuses = lookup(pod, "status", "containerStatuses") or ()
    ends = [seconds(lookup(container, "state", "terminated", "finishedAt")) for container in statuses]
    ready = find_condition(conditions_of(pod), "Ready")
    return max(ends, default=0.0) or seconds((ready or {}).get("lastTransitionTime"))


def look_again_s(job: Obj, pods: Sequence[Obj], *, now: str) -> float | None:
    """When time alone will change something."""
    if is_finished(job):
        waits_s = [ttl_left_s(job, now)]
    else:
        waits_s = [deadline_left_s(job, now), backoff_left_s(job, pods, now) or None]
        waits_s += index_waits_s(job, pods, now).values()
    times = [wait_s for wait_s in waits_s if wait_s is not None]
    return max(0.0, min(times)) + 1.0 if times else None


def _number(job: Obj, field: str, default: int) -> int:
    value = lookup(job, "spec", field)
    return default if value is None else int(value)
