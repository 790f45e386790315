"""Why a Job is not done: failed, suspended, refused, or its pods wait."""

from __future__ import annotations

from fathom.controllers.job.plan import (
    COMPLETE,
    FAILED,
    backoff_left_s,
    deadline_left_s,
    is_ours,
    wanted_active,
)
from fathom.controllers.job.plan_counts import tally
from fathom.controllers.pod_states import is_active, phase_of
from fathom.explain.evidence import Evidence
from fathom.explain.why.answer import CauseGroup, Change, Explanation
from fathom.explain.why.commands import Operation, job_replaced, word
from fathom.explain.why_of.answering import SubjectTrouble, answered
from fathom.explain.why_of.control_plane import CONTROLLERS, part_trouble, restart
from fathom.explain.why_of.lookups import PODS, PROGRESS, ExplainPod, last_writer, owned_by, written_by
from fathom.explain.why_of.pod_causes import causes_of, grouped
from fathom.explain.why_of.refusals import change_of_refusal, quota_ref, refusal_of
from fathom.explain.why_of.replicas import ReplicaFacts, unready
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Obj, key_of, lookup, uid_of
from fathom.model.resource_names import JOBS
from fathom.model.times import timestamp

CONTROLLER = "jobs"


def explain_job(evidence: Evidence, job: Obj, explain_pod: ExplainPod | None = None) -> Explanation:
    pods = owned_by(evidence, PODS, job)
    trouble = _trouble(evidence, job, pods, explain_pod)
    succeeded, wanted = _counts(job)
    return answered(
        evidence,
        job,
        trouble,
        stage="jobs",
        verdict=_verdict(job, trouble),
        controller=CONTROLLER,
        ready=succeeded,
        wanted=wanted,
    )


def _counts(job: Obj) -> tuple[int, int | None]:
    """Completions: done, and wanted if the Job says how many."""
    wanted = lookup(job, "spec", "completions")
    return int(lookup(job, "status", "succeeded") or 0), None if wanted is None else int(wanted)


def _verdict(job: Obj, trouble: SubjectTrouble | None) -> str:
    succeeded, wanted = _counts(job)
    counts = f"{succeeded} of {wanted} completions" if wanted is not None else f"{succeeded} completions"
    if trouble is not None:
        return f"{trouble.verdict} with {counts}"
    done = _is_true(job, COMPLETE)
    return f"is complete with {counts}" if done else f"is running with {counts}"


def _is_true(job: Obj, type_: str) -> bool:
    return (find_condition(conditions_of(job), type_) or {}).get("status") == "True"


def _trouble(
    evidence: Evidence, job: Obj, pods: list[Obj], explain_pod: ExplainPod | None
) -> SubjectTrouble | None:
    if _is_true(job, COMPLETE):
        return None
    if _is_true(job, FAILED) or _is_true(job, "FailureTarget"):
        return _failed(evidence, job, pods)
    if lookup(job, "spec", "suspend"):
        return _suspended(evidence, job)
    if not is_ours(job):
        manager = lookup(job, "spec", "managedBy")
        return SubjectTrouble("is not run by fathom", f"spec.managedBy names the controller {manager}")
    if lookup(job, "spec", "parallelism") == 0:
        return _without_parallelism(evidence, job)
    return _waits(evidence, job, pods, explain_pod)


# Failed.


def _failed(evidence: Evidence, job: Obj, pods: list[Obj]) -> SubjectTrouble:
    condition = find_condition(conditions_of(job), FAILED) or find_condition(
        conditions_of(job), "FailureTarget"
    )
    reason, message = str((condition or {}).get("reason")), str((condition or {}).get("message") or "")
    causes = grouped(evidence, causes_of(evidence, [pod for pod in pods if phase_of(pod) == "Failed"]))
    first = f"; last failure: {causes[0].message}" if causes else ""
    return SubjectTrouble("has failed", f"{reason}: {message}{first}", _after_failure(job, reason), causes)


def _after_failure(job: Obj, reason: str) -> Change:
    who = f"the owner of job/{key_of(job).name}"
    if reason == "DeadlineExceeded":
        seconds = int(lookup(job, "spec", "activeDeadlineSeconds") or 0)
        longer: Operation = {"op": "replace", "path": "/spec/activeDeadlineSeconds", "value": 2 * seconds}
        what = (
            f"raise activeDeadlineSeconds above {seconds}, for example to {2 * seconds}, and replace the Job"
        )
        return Change(what, job_replaced(job, [longer]), who)
    if reason == "BackoffLimitExceeded":
        return Change("correct what its pods run, and replace the Job", job_replaced(job), who)
    return Change("correct what failed, and replace the Job", job_replaced(job), who)


def _suspended(evidence: Evidence, job: Obj) -> SubjectTrouble:
    name = key_of(job).name
    writer = written_by(last_writer(evidence, job, JOBS, "spec.suspend"))
    change = Change("resume the Job", _patch(job, '{"spec":{"suspend":false}}'), f"the owner of job/{name}")
    cause = f"spec.suspend is true {writer}".rstrip()
    return SubjectTrouble("is suspended", cause, change, kind="intended")


def _without_parallelism(evidence: Evidence, job: Obj) -> SubjectTrouble:
    name = key_of(job).name
    writer = written_by(last_writer(evidence, job, JOBS, "spec.parallelism"))
    change = Change(
        "raise parallelism", _patch(job, '{"spec":{"parallelism":1}}'), f"the owner of job/{name}"
    )
    cause = f"spec.parallelism is 0, so it runs no pods {writer}".rstrip()
    return SubjectTrouble("is held", cause, change, kind="intended")


# Waiting.


def _waits(
    evidence: Evidence, job: Obj, pods: list[Obj], explain_pod: ExplainPod | None
) -> SubjectTrouble | None:
    active = [pod for pod in pods if is_active(pod)]
    missing = max(0, wanted_active(job, pods, tally(job, pods)) - len(active))
    facts = ReplicaFacts(
        owner=job,
        creator=None,
        target=f"job/{key_of(job).name}",
        wanted=len(active) + missing,
        pods=active,
        controller=CONTROLLER,
    )
    if missing and (refused := _refused(evidence, job, facts)):
        return refused
    waiting = unready(evidence, facts, explain_pod)
    if waiting is not None:
        return waiting
    if missing:
        return _uncreated(evidence, job, pods, missing)
    return None


def _refused(evidence: Evidence, job: Obj, facts: ReplicaFacts) -> SubjectTrouble | None:
    progress = [
        obj
        for obj in evidence.objects.list(PROGRESS, key_of(job).namespace)
        if lookup(obj, "spec", "workload", "uid") == uid_of(job)
    ]
    refusal = refusal_of(evidence, [job, *progress])
    if refusal is None:
        return None
    change = change_of_refusal(evidence, job, refusal, missing=facts.missing, target=facts.target)
    return SubjectTrouble(
        f"is refused by {refusal.boundary}",
        f"{facts.missing} pods are not created: {refusal.message}",
        change,
        (CauseGroup(refusal.boundary, facts.missing, (), refusal.message),),
        quota_ref(evidence, key_of(job).namespace, refusal),
    )


def _uncreated(evidence: Evidence, job: Obj, pods: list[Obj], missing: int) -> SubjectTrouble:
    now = timestamp(evidence.now_ns)
    wait_s = backoff_left_s(job, pods, now)
    if wait_s:
        causes = grouped(evidence, causes_of(evidence, [pod for pod in pods if phase_of(pod) == "Failed"]))
        failed = int(lookup(job, "status", "failed") or 0)
        limit = lookup(job, "spec", "backoffLimit")
        cause = f"{failed} pods failed (backoffLimit {limit}); the next is created in {wait_s:.0f} s"
        first = f": {causes[0].message}" if causes else ""
        change = Change(
            "correct why its pods fail, or wait", _logs(job), f"the owner of job/{key_of(job).name}"
        )
        return SubjectTrouble("is backing off", cause + first, change, causes)
    trouble = part_trouble(evidence, CONTROLLERS)
    left_s = deadline_left_s(job, now)
    if left_s is not None and left_s <= 0:
        trouble = trouble or "its deadline is over, and its controller has not ended it yet"
    why = trouble or "its controller has not created them yet"
    return SubjectTrouble(
        "is not created", f"{missing} pods are not created: {why}", restart(trouble, CONTROLLERS)
    )


def _patch(job: Obj, patch: str) -> str:
    namespace, name = key_of(job)
    return f"kubectl patch job {word(name)} -n {word(namespace)} --type=merge -p {word(patch)}"


def _logs(job: Obj) -> str:
    namespace, name = key_of(job)
    return f"kubectl logs job/{word(name)} -n {word(namespace)}"
