"""What a Job does next, objects in and plan out; and whole Jobs, played through by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from tests.controllers.making import NOW, at, meta, pod

from fathom.control.ownership import controller_ref
from fathom.control.plan import NOTHING, Plan, contains
from fathom.controllers.job.completion_indexes import INDEX, parse_indexes, shown_indexes
from fathom.controllers.job.plan import JobFacts, look_again_s, plan_job
from fathom.controllers.job.plan_counts import tally
from fathom.model.conditions import conditions_of
from fathom.model.objects import Obj
from fathom.model.well_known import JOB_TRACKING_FINALIZER


def job(status: Obj | None = None, **spec: Any) -> Obj:
    template = {"metadata": {"labels": {"job-name": "sum"}}, "spec": {"containers": [{"name": "main"}]}}
    given = {"parallelism": 2, "completions": 3, "backoffLimit": 2, "template": template, **spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta("sum"),
        "spec": given,
        "status": {"startTime": at(-60)} if status is None else status,
    }


def worker(owner: Obj, name: str, phase: str = "Running", *, tracked: bool = True, **options: Any) -> Obj:
    made = pod(name, owner, phase=phase, ready=phase == "Running", **options)
    made["metadata"]["ownerReferences"] = [controller_ref(owner)]
    if tracked:
        made["metadata"]["finalizers"] = [JOB_TRACKING_FINALIZER]
    return made


def planned(owner: Obj, *pods: Obj, now: str = NOW) -> Plan:
    names = {one["metadata"]["name"] for one in pods}
    return plan_job(owner, JobFacts(pods, names.__contains__), now=now)


def lines(plan: Plan) -> list[str]:
    return [action.line for action in plan.actions]


def statuses(plan: Plan) -> list[Obj]:
    patched = [one.patch["status"] for one in plan.patches if one.subresource == "status"]
    return [*patched, *(one.status for one in plan.statuses)]


def said(status: Obj) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status.get("conditions") or ()}


# Running.


def test_as_many_pods_run_as_parallelism_allows() -> None:
    plan = planned(job(status={}))
    assert lines(plan) == ["create Pod default/sum-0", "create Pod default/sum-1"]
    assert plan.creates[0].obj["metadata"]["finalizers"] == [JOB_TRACKING_FINALIZER]
    assert statuses(plan) == [{"active": None, "ready": 0, "terminating": 0, "startTime": NOW}]


def test_no_more_run_than_are_missing() -> None:
    owner = job({"startTime": at(-60), "succeeded": 2})
    assert lines(planned(owner, worker(owner, "sum-2"))) == []


def test_who_is_too_many_is_sent_away_and_does_not_count_as_failed() -> None:
    owner = job(parallelism=1)
    plan = planned(owner, worker(owner, "sum-0", age_s=90), worker(owner, "sum-1", age_s=9, ready_for_s=1))
    assert lines(plan) == ["patch Pod default/sum-1", "delete Pod default/sum-1"]
    assert plan.patches[0].patch == {"metadata": {"finalizers": []}}


def test_a_suspended_job_runs_nothing_and_starts_anew() -> None:
    owner = job(suspend=True)
    plan = planned(owner, worker(owner, "sum-0"))
    assert lines(plan) == ["patch Pod default/sum-0", "delete Pod default/sum-0"]
    (status,) = statuses(plan)
    assert (said(status), status["startTime"]) == ({"Suspended": ("True", "JobSuspended")}, None)
    suspended = {"conditions": status["conditions"]}
    (resumed,) = statuses(planned(job(suspended)))
    assert (said(resumed), resumed["startTime"]) == ({"Suspended": ("False", "JobResumed")}, NOW)


def test_a_failure_is_not_repeated_at_once() -> None:
    owner = job()
    ended = worker(owner, "sum-0", "Failed", tracked=False, ready_for_s=3)
    assert lines(planned(owner, ended)) == []
    assert look_again_s(owner, [ended], now=NOW) == 8.0
    assert lines(planned(owner, ended, now=at(8))) == ["create Pod default/sum-1", "create Pod default/sum-2"]


def test_another_controllers_job_is_left_alone() -> None:
    assert planned(job(managedBy="example.com/mine")) == NOTHING


# Counting.


def test_a_pod_is_put_down_then_let_go_then_counted() -> None:
    owner = job()
    done = worker(owner, "sum-0", "Succeeded")
    first = planned(owner, done)
    assert lines(first) == ["patch Job default/sum/status"]
    assert statuses(first)[0]["uncountedTerminatedPods"] == {"succeeded": ["uid-sum-0"], "failed": None}
    # Clients ask whether there is a number at all: Kubernetes does not write one that is nought.
    assert [statuses(first)[0][name] for name in ("active", "succeeded", "failed")] == [None, None, None]
    put_down = {**owner, "status": {**owner["status"], **statuses(first)[0]}}
    second = planned(put_down, done)
    assert lines(second)[0] == "patch Pod default/sum-0"
    released = worker(owner, "sum-0", "Succeeded", tracked=False)
    third = planned(put_down, released)
    assert statuses(third)[0]["succeeded"] == 1
    assert statuses(third)[0]["uncountedTerminatedPods"] == {"succeeded": None, "failed": None}
    counted = {**owner, "status": {"startTime": at(-60), "succeeded": 1}}
    assert not tally(counted, [released]).moves


def test_counting_goes_before_making_pods() -> None:
    owner = job()
    assert planned(owner, worker(owner, "sum-0", "Succeeded")).creates == ()


def test_a_pod_that_is_going_has_failed_unless_its_end_is_waited_for() -> None:
    assert tally(job(), [worker(job(), "sum-0", going=True)]).failed_in_all == 1
    patient = job(podReplacementPolicy="Failed")
    going = worker(patient, "sum-0", going=True)
    assert tally(patient, [going]).failed_in_all == 0
    assert lines(planned(patient, going)) == ["create Pod default/sum-1"], "it still takes up its place"


# The end.


def test_enough_successes_end_it_and_what_still_runs_is_taken() -> None:
    owner = job({"startTime": at(-60), "succeeded": 3})
    running = worker(owner, "sum-9")
    first = planned(owner, running)
    assert (lines(first), said(statuses(first)[0])) == (
        ["patch Job default/sum/status"],
        {"SuccessCriteriaMet": ("True", "CompletionsReached")},
    )
    told = {**owner, "status": {**owner["status"], **statuses(first)[0]}}
    assert lines(planned(told, running)) == ["patch Pod default/sum-9", "delete Pod default/sum-9"]
    (last,) = statuses(planned(told))
    assert said(last) == {
        "SuccessCriteriaMet": ("True", "CompletionsReached"),
        "Complete": ("True", "CompletionsReached"),
    }
    assert last["completionTime"] == NOW


def test_a_job_whose_start_a_faster_clock_has_stored_is_complete_at_its_start_and_not_before() -> None:
    """API servers refuse a completion before the start: it would wait until the clock has reached it."""
    (last,) = statuses(planned(job({"startTime": at(400), "succeeded": 3})))
    assert (said(last)["Complete"], last["completionTime"]) == (("True", "CompletionsReached"), at(400))


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (job({"startTime": at(-60), "failed": 3}), "BackoffLimitExceeded"),
        (job(activeDeadlineSeconds=30), "DeadlineExceeded"),
    ],
)
def test_too_many_failures_or_too_much_time_fail_it(owner: Obj, reason: str) -> None:
    (status,) = statuses(planned(owner))
    assert said(status) == {"FailureTarget": ("True", reason), "Failed": ("True", reason)}


def test_restarts_within_a_pod_count_towards_the_limit() -> None:
    template = {"spec": {"restartPolicy": "OnFailure", "containers": []}}
    owner = job(template=template, backoffLimit=3)
    again = worker(owner, "sum-0", containerStatuses=[{"restartCount": 3}])
    assert said(statuses(planned(owner, again))[0]) == {"FailureTarget": ("True", "BackoffLimitExceeded")}


def test_without_completions_one_success_and_no_other_at_work_end_it() -> None:
    owner = job({"startTime": at(-60), "succeeded": 1}, completions=None)
    assert lines(planned(owner, worker(owner, "sum-1"))) == []
    assert "Complete" in said(statuses(planned(owner))[0])


def test_a_finished_job_lets_go_of_late_pods_and_goes_when_its_time_is_over() -> None:
    over = {"type": "Complete", "status": "True", "lastTransitionTime": at(-100)}
    owner = job({"startTime": at(-200), "conditions": [over]}, ttlSecondsAfterFinished=120)
    late = worker(owner, "sum-7")
    assert lines(planned(owner, late)) == ["patch Pod default/sum-7", "delete Pod default/sum-7"]
    assert look_again_s(owner, [], now=NOW) == 21.0
    assert lines(planned(owner, now=at(20))) == ["delete Job default/sum"]


def test_a_job_that_goes_lets_its_pods_go() -> None:
    owner = job()
    owner["metadata"]["deletionTimestamp"] = NOW
    assert lines(planned(owner, worker(owner, "sum-0", "Succeeded"))) == ["patch Pod default/sum-0"]


# Indexes.


def test_each_index_is_completed_once() -> None:
    owner = job({"startTime": at(-60), "completedIndexes": "1"}, completionMode="Indexed", completions=4)
    busy = worker(owner, "sum-0-0")
    busy["metadata"]["annotations"] = {INDEX: "0"}
    plan = planned(owner, busy)
    (create,) = plan.creates
    made = create.obj
    assert made["metadata"]["name"] == "sum-2-0"
    assert (made["metadata"]["annotations"][INDEX], made["spec"]["hostname"]) == ("2", "sum-2")
    assert made["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"


def test_two_successes_of_one_index_are_one() -> None:
    owner = job(completionMode="Indexed", completions=4)
    twins = [worker(owner, f"sum-2-{n}", "Succeeded") for n in range(2)]
    for twin in twins:
        twin["metadata"]["annotations"] = {INDEX: "2"}
    status = statuses(planned(owner, *twins))[0]
    assert (status["succeeded"], status["completedIndexes"]) == (1, "2")


def test_lists_of_indexes_are_written_as_ranges() -> None:
    assert shown_indexes([0, 2, 3, 4, 9]) == "0,2-4,9"
    assert shown_indexes([0, 1, 5, 6, 7]) == "0,1,5-7"  # Kubernetes shows two as two.
    assert parse_indexes("0,2-4,9") == [0, 2, 3, 4, 9]
    assert parse_indexes("") == parse_indexes("x,-1") == []


# Whole jobs.


@pytest.mark.parametrize("seed", range(40))
def test_a_job_counts_every_pod_once_and_ends(seed: int) -> None:
    """Pods end in any order, some fail, some are deleted by others; any write may be the last of a pass."""
    rng = random.Random(seed)
    owner = job({}, completions=rng.randrange(1, 6), parallelism=rng.randrange(1, 4), backoffLimit=100)
    pods: dict[str, Obj] = {}
    succeeded: set[str] = set()
    made = 0
    for step in range(400):
        plan = planned(owner, *pods.values(), now=at(step * 700))
        made = _carry_out(plan, owner, pods, rng, made)
        for one in pods.values():
            if one["status"]["phase"] == "Running" and rng.random() < 0.3:
                one["status"]["phase"] = "Succeeded" if rng.random() < 0.7 else "Failed"
            if one["status"]["phase"] == "Succeeded":
                succeeded.add(one["metadata"]["uid"])
        for name in [name for name in pods if rng.random() < 0.05]:
            _delete(pods, name)
        assert int(owner["status"].get("succeeded") or 0) <= len(succeeded)
        if any(one["type"] == "Complete" for one in conditions_of(owner)):
            assert owner["status"]["succeeded"] >= owner["spec"]["completions"]
            return
    pytest.fail(f"it did not end: {owner['status']}")


def _carry_out(plan: Plan, owner: Obj, pods: dict[str, Obj], rng: random.Random, made: int) -> int:
    actions: Sequence[Any] = [*plan.actions, *plan.statuses]
    for action in actions[: rng.randrange(len(actions) + 1)]:
        verb, kind, _ = action.line.split()
        if verb == "create":
            made += 1
            new = worker(owner, action.obj["metadata"]["name"], ready_for_s=10**9)
            new["metadata"]["uid"] = f"uid-{made}"
            pods[new["metadata"]["name"]] = new
        elif verb == "delete":
            _delete(pods, action.target.key.name)
        elif kind == "Pod":
            pods[action.target.key.name]["metadata"]["finalizers"] = []
            if "deletionTimestamp" in pods[action.target.key.name]["metadata"]:
                del pods[action.target.key.name]
        else:
            status = action.status if verb == "status" else action.patch["status"]
            owner["status"] = _merged(owner["status"], status)
            assert contains(owner["status"], status)
    return made


def _delete(pods: dict[str, Obj], name: str) -> None:
    if pods[name]["metadata"].get("finalizers"):
        pods[name]["metadata"]["deletionTimestamp"] = NOW
    else:
        del pods[name]


def _merged(before: Obj, patch: Obj) -> Obj:
    found = dict(before)
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict):
            found[name] = _merged(before.get(name) or {}, value)
        else:
            found[name] = value
    return found
