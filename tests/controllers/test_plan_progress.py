"""How far workloads and their pods have come, objects in and status out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.controllers.making import NOW, NOW_S, at, meta, pod, replica_set

from fathom.control.ownership import controller_ref
from fathom.control.plan import NOTHING, Plan
from fathom.control.reconcile_result import Failure
from fathom.controllers.progress.last_actions import last_action, last_error
from fathom.controllers.progress.missing_pods import (
    MissingPods,
    own_deadline_s,
    plan_refused,
    why_going,
    why_missing,
)
from fathom.controllers.progress.plan import NUMBERS_WAIT, PodCounts, forget, plan_progress, progress_of
from fathom.controllers.progress.pod_stages import (
    ADMITTED,
    BOUND,
    QUEUED,
    READY,
    SERVING,
    STAGES,
    STARTING,
    PodStage,
    stand_of,
)
from fathom.kinds.workload_progress import LastAction, PendingReason
from fathom.model.objects import Obj


def unplaced(*conditions: Obj, **spec: Any) -> Obj:
    made = pod("a", node="", phase="Pending")
    made["status"]["conditions"] = list(conditions)
    made["spec"] |= spec
    return made


def unscheduled(message: str = "as kube-scheduler words it") -> Obj:
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}


def retrying(reason: str) -> Obj:
    return {"type": "SchedulingRetrying", "status": "True", "reason": reason, "message": "later"}


def starting(reason: str, message: str = "", **status: Any) -> Obj:
    made = pod("a", ready=False, phase="Pending", startTime=at(-20), **status)
    said = {"type": "Starting", "status": "True", "reason": reason, "message": message}
    made["status"]["conditions"].append(said)
    return made


def unready(reason: str, *, for_s: float = 50) -> Obj:
    made = pod("a", ready=False, ready_for_s=for_s, startTime=at(-9000))
    made["status"]["conditions"][0]["reason"] = reason
    return made


@pytest.mark.parametrize(
    ("one", "stage", "boundary", "reason"),
    [
        (unplaced(schedulingGates=[{"name": "budget"}]), ADMITTED, "gate", "gate/budget"),
        (unplaced(), QUEUED, "scheduler", "scheduler"),
        (unplaced(unscheduled(), retrying("quota/a-eu.west")), QUEUED, "quota", "quota/a-eu.west"),
        (unplaced(unscheduled(), retrying("capacity")), QUEUED, "capacity", "capacity"),
        (unplaced(unscheduled(), retrying("license/cad")), QUEUED, "license", "license/cad"),
        (pod("a", phase="Pending", ready=False), BOUND, "node", "node/node-1"),
        (starting("ImagePullBackOff", "no such image"), STARTING, "image", "image"),
        (starting("WaitingForProbe", "connection refused"), STARTING, "probe", "probe"),
        (starting("CrashLoopBackOff", "ended with code 1"), STARTING, "crash", "crash"),
        (starting("CreateContainerConfigError", "no secret"), STARTING, "config", "config"),
        (pod("a", ready=False), STARTING, "probe", "probe"),
        (unplaced(schedulerName="mine"), QUEUED, "scheduler", "scheduler/mine"),
        (unready("ReadinessGatesNotReady"), STARTING, "gate", "gate"),
        (unready("NodeUnreachable"), STARTING, "node", "node"),
    ],
)  # fmt: skip
def test_a_pod_stands_where_the_next_boundary_holds_it(
    one: Obj, stage: int, boundary: str, reason: str
) -> None:
    stand = stand_of(one, serves=False)
    assert (stand.stage, stand.boundary, stand.reason) == (stage, boundary, reason)


def test_a_ready_pod_serves_when_its_service_says_so() -> None:
    assert stand_of(pod("a"), serves=False).stage == READY
    assert stand_of(pod("a"), serves=True) == PodStage(SERVING, NOW_S - 50)


@pytest.mark.parametrize("said", [(), (retrying("Unschedulable"),)])
def test_a_schedulers_sentence_is_for_people(said: tuple[Obj, ...]) -> None:
    """Of another scheduler, or of one from before reasons were data: no boundary is read out of its words."""
    one = unplaced(unscheduled("0/2 nodes are available: 1 Insufficient cpu, 1 quota/web."), *said)
    found = stand_of(one, serves=False)
    assert (found.boundary, found.reason) == ("scheduler", "scheduler")
    assert "Insufficient cpu" in found.message


def stand(stage: int, *, age_s: float = 5, reason: str = "") -> PodStage:
    return PodStage(stage, NOW_S - age_s, reason.partition("/")[0], reason, f"why {reason}" if reason else "")


def test_a_replica_counts_in_every_stage_that_it_has_reached() -> None:
    stands = [stand(SERVING), stand(READY, reason="endpoints"), stand(QUEUED, reason="quota/eu")]
    found = progress_of(PodCounts(desired=4, stands=stands), generation=7, now=NOW)
    assert (found.generation, found.desired) == (7, 4)
    counts = tuple(getattr(found, stage) for stage in STAGES)
    assert counts == (3, 3, 2, 2, 2, 2, 1)
    assert found.pending_reasons == (
        PendingReason("admission", 1, ""),
        PendingReason("endpoints", 1, "why endpoints"),
        PendingReason("quota/eu", 1, "why quota/eu"),
    )
    assert (found.deadline, found.stuck_at) == (at(25), "")


def test_a_stage_that_lasts_too_long_is_stuck_at_its_boundary() -> None:
    stands = [stand(STARTING, age_s=1000, reason="image"), stand(QUEUED, age_s=61, reason="topology")]
    assert progress_of(PodCounts(2, stands), generation=1, now=NOW).stuck_at == "topology"
    refusal = MissingPods("quota", "exceeded quota", NOW_S - 1.0)
    assert progress_of(PodCounts(3, stands, missing=refusal), generation=1, now=NOW).stuck_at == "quota"


def planned(
    there: Obj | None,
    current: PodCounts,
    before: PodCounts | None = None,
    generation: int = 1,
    *,
    recently: bool = False,
) -> Plan:
    owner = replica_set(replicas=2)
    owner["metadata"]["generation"] = generation
    return plan_progress(owner, there, current, before, now=NOW, recently=recently)


def test_it_is_made_once_and_belongs_to_its_workload() -> None:
    (create,) = planned(None, PodCounts(2, [])).creates
    assert create.obj["metadata"]["name"] == "replicaset-web"
    assert create.obj["metadata"]["ownerReferences"][0]["uid"] == "uid-web"
    assert create.obj["spec"]["workload"]["kind"] == "ReplicaSet"


def there(status: Obj | None = None) -> Obj:
    owners = [controller_ref(replica_set(replicas=2))]
    return {"metadata": {**meta("replicaset-web"), "ownerReferences": owners}, "status": stored(status or {})}


def test_what_does_not_belong_to_its_workload_goes_and_is_made_anew() -> None:
    """`kubectl delete --cascade=orphan` lets it go too; nobody would ever remove it."""
    orphan = {**there(), "metadata": meta("replicaset-web")}
    plan = planned(orphan, PodCounts(2, []))
    assert [one.line for one in plan.actions] == ["delete WorkloadProgress default/replicaset-web"]
    assert forget(orphan) == plan
    assert forget(None) == NOTHING


def stored(patch: Obj) -> Obj:
    """As a server keeps it: without what a merge patch takes away."""
    return {
        name: stored(value) if isinstance(value, dict) else value
        for name, value in patch.items()
        if value is not None
    }


def test_the_status_names_the_generation_and_is_not_repeated() -> None:
    current = PodCounts(2, [stand(SERVING), stand(QUEUED, reason="quota/eu")])
    (write,) = planned(there(), current, generation=3).statuses
    assert (write.status["observedGeneration"], write.status["current"]["generation"]) == (3, 3)
    said = {one["type"]: (one["status"], one["observedGeneration"]) for one in write.status["conditions"]}
    assert said == {
        "Bound": ("False", 3),
        "SchedulingRetrying": ("True", 3),
        "Ready": ("False", 3),
        "Stuck": ("False", 3),
    }
    assert planned(there(write.status), current, generation=3) == NOTHING


def test_who_is_stuck_says_so_in_a_sentence() -> None:
    late = PodStage(QUEUED, NOW_S - 500, "capacity", "capacity/cpu", "0/2 nodes have room", NOW_S - 400)
    (write,) = planned(there(), PodCounts(2, [stand(SERVING), late])).statuses
    (stuck,) = [each for each in write.status["conditions"] if each["type"] == "Stuck"]
    assert (stuck["status"], stuck["reason"], stuck["message"]) == (
        "True",
        "Capacity",
        "capacity/cpu: 0/2 nodes have room",
    )


def waiting(message: str) -> PodCounts:
    return PodCounts(2, [stand(SERVING), PodStage(QUEUED, NOW_S - 5, "capacity", "capacity/cpu", message)])


def test_other_numbers_in_a_message_are_not_written_within_a_minute() -> None:
    (write,) = planned(there(), waiting("0/2 nodes are available: 2 Insufficient cpu.")).statuses
    later = waiting("0/3 nodes are available: 3 Insufficient cpu.")
    assert planned(there(write.status), later, recently=True) is NUMBERS_WAIT
    assert planned(there(write.status), later).statuses
    other_words = waiting("0/2 nodes are available: 2 Insufficient memory.")
    assert planned(there(write.status), other_words, recently=True).statuses
    other_counts = PodCounts(2, [stand(SERVING), stand(SERVING)])
    assert planned(there(write.status), other_counts, recently=True).statuses


def test_a_view_that_is_behind_the_status_writes_no_counts_beside_newer_conditions() -> None:
    (write,) = planned(there(), PodCounts(2, [stand(SERVING), stand(SERVING)]), generation=3).statuses
    assert planned(there(write.status), PodCounts(3, [stand(SERVING)]), generation=2) == NOTHING


def test_the_generation_before_is_kept_and_counted_on_where_it_can_be_told_apart() -> None:
    old, new = (
        PodCounts(2, [stand(SERVING), stand(SERVING)]),
        PodCounts(2, [stand(QUEUED, reason="scheduler")]),
    )
    (first,) = planned(there(), old, generation=1).statuses
    (second,) = planned(there(first.status), new, generation=2).statuses
    assert second.status["previous"]["generation"] == 1
    assert second.status["previous"]["serving"] == 2
    left = PodCounts(2, [stand(SERVING)])
    (third,) = planned(there(second.status), new, left, generation=2).statuses
    assert (third.status["previous"]["generation"], third.status["previous"]["serving"]) == (1, 1)


def test_a_first_report_in_the_middle_of_a_rollout_shows_the_pods_of_the_generation_before() -> None:
    left, new = PodCounts(2, [stand(SERVING)]), PodCounts(2, [stand(QUEUED, reason="scheduler")])
    (first,) = planned(there(), new, left, generation=3).statuses
    assert (first.status["previous"]["generation"], first.status["previous"]["serving"]) == (2, 1)
    (alone,) = planned(there(), new, PodCounts(2, []), generation=3).statuses
    assert "previous" not in alone.status


def test_what_an_earlier_action_had_is_taken_back() -> None:
    bound = LastAction(controller="scheduler", action="bind Pod web-0 to node-1", decision="d-1", time=NOW)
    (first,) = planned(there(), PodCounts(1, [stand(SERVING)], last_action=bound)).statuses
    made = LastAction(controller="replicasets", action="create Pod web-1", time=NOW)
    (second,) = planned(there(first.status), PodCounts(1, [stand(SERVING)], last_action=made)).statuses
    assert second.status["current"]["lastAction"] == {
        "controller": "replicasets",
        "action": "create Pod web-1",
        "decision": None,
        "time": NOW,
    }


def test_a_bind_within_the_second_of_its_create_comes_after_it() -> None:
    owner = replica_set()
    bound = pod("web-0", owner, age_s=40)
    bound["status"]["conditions"].append(
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(-40)}
    )
    action = last_action(owner, (), (bound,))
    assert action is not None
    assert action.action == "bind Pod web-0 to node-1"


def test_what_was_last_done_and_what_last_went_wrong_are_told_from_the_objects() -> None:
    owner = replica_set()
    bound = pod("web-0", owner, age_s=50)
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(-40)}
    bound["status"]["conditions"].append(scheduled)
    bound["metadata"]["annotations"] = {"fathom.dev/decision": "d-1"}
    action = last_action(owner, (owner,), (bound,))
    assert action is not None
    assert (action.controller, action.action, action.decision, action.time) == (
        "scheduler",
        "bind Pod web-0 to node-1",
        "d-1",
        at(-40),
    )
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
               "message": "exceeded quota: small", "lastTransitionTime": at(-10)}  # fmt: skip
    owner["status"]["conditions"] = [failure]
    error = last_error(owner, (owner,), (bound,))
    assert error is not None
    assert (error.controller, error.reason) == ("replicasets", "FailedCreate")
    missing = MissingPods("admission", "exceeded quota: small", NOW_S + 20)
    assert why_missing(owner, (owner,), (), (owner,)) == missing  # No boundary is read out of the words.
    by_quota = {"type": "fathom.dev/PodsRefused", "status": "True", "reason": "quota", "message": ""}
    owner["status"]["conditions"].append(by_quota)
    assert why_missing(owner, (owner,), (), (owner,)) == msgspec.structs.replace(missing, boundary="quota")


def test_who_was_ready_is_not_stuck_at_once_when_it_is_not_ready() -> None:
    assert stand_of(unready("ContainersNotReady"), serves=True).since_s == NOW_S - 50


def test_whose_node_cannot_be_heard_waits_for_the_node_and_not_for_a_probe() -> None:
    stand = stand_of(starting("WaitingForProbe", "c: readiness probe failed"), serves=True, heard=False)
    assert (stand.boundary, stand.reason, stand.message) == (
        "node",
        "node/node-1",
        "node node-1 is unreachable",
    )


def test_a_ready_pod_that_the_gateway_does_not_reach_says_so() -> None:
    made = pod("a")
    made["status"]["conditions"].append(
        {"type": "fathom.dev/Serving", "status": "False", "message": "the gateway cannot connect to the pod"}
    )
    stand = stand_of(made, serves=False)
    assert (stand.stage, stand.boundary, stand.message) == (
        READY,
        "gateway",
        "the gateway cannot connect to the pod",
    )


def deployment(*conditions: Obj, **spec: Any) -> Obj:
    made = replica_set(**spec)
    status = {"conditions": list(conditions), "observedGeneration": 1}
    return {**made, "kind": "Deployment", "status": status}


def progressing(reason: str, status: str, message: str = "") -> Obj:
    return {
        "type": "Progressing", "status": status, "reason": reason, "message": message,
        "lastUpdateTime": at(-30), "lastTransitionTime": at(-20),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("workload", "sets", "boundary"),
    [
        (deployment(paused=True), (), "paused"),
        (deployment(progressing("DeploymentPaused", "Unknown", "by override x")), (), "paused"),
        (deployment(progressing("ReplicaSetUpdated", "True")), (replica_set(replicas=1),), "rollout"),
        (deployment(progressing("ReplicaSetUpdated", "True")), (replica_set(replicas=3),), "admission"),
        (deployment(progressing("ProgressDeadlineExceeded", "False", "Too late.")), (), "rollout"),
        ({**deployment(paused=True), "status": {}}, (), "admission"),
        ({**deployment(), "kind": "Job"}, (), "admission"),
    ],
)
def test_pods_that_nobody_refused_are_missing_for_a_reason_too(
    workload: Obj, sets: tuple[Obj, ...], boundary: str
) -> None:
    assert why_missing(workload, sets, (), (workload, *sets)).boundary == boundary


def job(*conditions: Obj, **spec: Any) -> Obj:
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": meta("sum"),
        "spec": {"backoffLimit": 6, **spec}, "status": {"conditions": list(conditions), "startTime": at(-40)},
    }  # fmt: skip


def test_a_job_whose_pods_fail_waits_for_the_back_off_and_says_with_which_code() -> None:
    ended = {"exitCode": 7, "reason": "Error", "finishedAt": at(-9)}
    failed = pod("sum-0", job(), phase="Failed", containerStatuses=[{"state": {"terminated": ended}}])
    missing = why_missing(job(), (), (failed,), (job(),))
    assert (missing.boundary, missing.deadline_s) == ("crash", NOW_S + 260)
    assert missing.message == "failed pods: 1, the last is sum-0; the next is created after a back-off"
    error = last_error(job(), (), (failed,))
    assert error is not None
    assert (error.reason, error.message) == ("Error", "sum-0: exit code 7 (Error)")


def test_a_job_that_failed_says_why_when_nothing_of_it_is_left() -> None:
    said = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long",
            "lastTransitionTime": at(-5)}  # fmt: skip
    error = last_error(job(said), (), ())
    assert error is not None
    assert (error.controller, error.reason, error.message) == ("jobs", "DeadlineExceeded", "sum: too long")


def test_init_containers_and_probes_that_fail_are_errors_too() -> None:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s"}
    last = {"terminated": {"exitCode": 2, "reason": "Error", "finishedAt": at(-3)}}
    init = pod("a", ready=False, initContainerStatuses=[{"state": {"waiting": waiting}, "lastState": last}])
    error = last_error(replica_set(), (), (init,))
    assert error is not None
    assert (error.reason, error.message) == ("CrashLoopBackOff", "a: exit code 2 (Error); back-off 10s")
    probed = last_error(replica_set(), (), (starting("WaitingForProbe", "c: readiness probe failed: no"),))
    assert probed is not None
    assert (probed.reason, probed.message) == ("WaitingForProbe", "a: c: readiness probe failed: no")
    assert last_error(replica_set(), (), (starting("ProbePending", "c: no probe has passed yet"),)) is None


def test_a_workloads_own_deadline_ends_every_stages_time() -> None:
    probing = [stand(STARTING, reason="probe")]
    over = PodCounts(2, probing, MissingPods("rollout", "", NOW_S - 20.0), deadline_s=NOW_S - 20.0)
    found = progress_of(over, generation=1, now=NOW)
    assert (found.stuck_at, found.deadline) == ("probe", at(-20))
    arrived = PodCounts(1, [stand(SERVING)], deadline_s=NOW_S - 20.0)
    assert progress_of(arrived, generation=1, now=NOW).deadline is None


def test_whose_own_deadline_it_is() -> None:
    assert own_deadline_s(job(activeDeadlineSeconds=60)) == NOW_S + 20
    assert own_deadline_s(job()) is None
    rolling = progressing("ReplicaSetUpdated", "True")
    assert own_deadline_s(deployment(rolling, progressDeadlineSeconds=600)) == NOW_S + 570
    assert own_deadline_s(deployment(rolling, progressDeadlineSeconds=2**31 - 1)) is None
    assert own_deadline_s(deployment(progressing("NewReplicaSetAvailable", "True"))) is None
    assert own_deadline_s(deployment(progressing("ProgressDeadlineExceeded", "False"))) == NOW_S - 20


def test_a_workload_that_does_not_go_says_what_holds_it() -> None:
    owner = replica_set(replicas=2)
    owner["metadata"] |= {"deletionTimestamp": at(-90), "finalizers": ["example.com/x", "foregroundDeletion"]}
    going = why_going(owner)
    assert going is not None
    assert (going.reason, going.deadline_s) == ("finalizer/example.com/x", NOW_S - 30)
    (write,) = plan_progress(owner, there(), PodCounts(0, [], going=going), None, now=NOW).statuses
    current = write.status["current"]
    assert (current["stuckAt"], current["pendingReasons"][0]["reason"]) == (
        "finalizer",
        "finalizer/example.com/x",
    )
    assert plan_progress(owner, None, PodCounts(0, [], going=going), None, now=NOW) == NOTHING


def test_a_job_whose_pods_are_refused_says_so_in_its_progress_until_all_are_there() -> None:
    failure = Failure("Forbidden", 'pods "sum-1" is forbidden: few', causes=("QuotaExceeded",))
    (said,) = plan_refused(there({"observedGeneration": 1}), failure, now=NOW).statuses
    progress = there(said.status)
    missing = why_missing(job(), (), (), (job(), progress))
    assert (missing.boundary, missing.deadline_s) == ("quota", NOW_S + 30)
    error = last_error(job(), (job(), progress), ())
    assert error is not None
    assert (error.controller, error.reason) == ("jobs", "FailedCreate")
    (lacking,) = planned(progress, PodCounts(2, [stand(SERVING)], missing)).statuses
    (whole,) = planned(progress, PodCounts(1, [stand(SERVING)], missing)).statuses
    types = [[one["type"] for one in write.status["conditions"]] for write in (lacking, whole)]
    assert ["ReplicaFailure" in some for some in types] == [True, False]
    assert ["fathom.dev/PodsRefused" in some for some in types] == [True, False]
