"""What a Job says about failures and successes beyond their number."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.controllers.making import NOW, at
from tests.controllers.test_plan_jobs import _carry_out, _delete, job, lines, planned, said, statuses, worker

from fathom.control.plan import Plan
from fathom.controllers.job.completion_indexes import INDEX
from fathom.controllers.job.plan import look_again_s
from fathom.controllers.job.plan_counts import tally
from fathom.controllers.job.plan_failure_policy import (
    FAILURES,
    IGNORED,
    FailureVerdict,
    failure_verdict,
    job_failure_message,
    met_rule,
)
from fathom.model.conditions import conditions_of
from fathom.model.objects import Obj
from fathom.model.well_known import JOB_TRACKING_FINALIZER

CODE_42 = {"containerName": "main", "operator": "In", "values": [42]}
FAILJOB = {"action": "FailJob", "onExitCodes": CODE_42}
IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
FAILINDEX = {"action": "FailIndex", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}}


def rules(*found: Obj, **spec: Any) -> Obj:
    return job(podFailurePolicy={"rules": list(found)}, podReplacementPolicy="Failed", **spec)


def fallen(
    owner: Obj, name: str, code: int = 1, *, disrupted: bool = False, notes: dict[str, str] | None = None
) -> Obj:
    ended = {"name": "main", "state": {"terminated": {"exitCode": code, "finishedAt": NOW}}}
    made = worker(owner, name, "Failed", containerStatuses=[ended])
    made["metadata"]["annotations"] = notes or {}
    if disrupted:
        made["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]
    return made


# podFailurePolicy.


@pytest.mark.parametrize(
    ("code", "disrupted", "expected"),
    [
        (1, False, FailureVerdict()),
        (42, False, FailureVerdict(
            "FailJob",
            "Container main for pod default/sum-0 failed with exit code 42 matching FailJob rule at index 0",
        )),
        (9, True, FailureVerdict(
            "Ignore", "Pod default/sum-0 has condition DisruptionTarget matching Ignore rule at index 1"
        )),
        (9, False, FailureVerdict(
            "FailIndex",
            "Container main for pod default/sum-0 failed with exit code 9 matching FailIndex rule at index 2",
        )),
    ],
)  # fmt: skip
def test_the_first_rule_that_fits_a_failed_pod_counts(
    code: int, disrupted: bool, expected: FailureVerdict
) -> None:
    owner = rules(FAILJOB, IGNORE, FAILINDEX)
    assert failure_verdict(owner, fallen(owner, "sum-0", code, disrupted=disrupted)) == expected


def test_a_rule_for_another_container_does_not_fit() -> None:
    elsewhere = {**FAILJOB, "onExitCodes": {**CODE_42, "containerName": "other"}}
    owner = rules(elsewhere)
    assert job_failure_message(owner, [fallen(owner, "sum-0", 42)]) == ""


def test_a_pod_that_dooms_the_job_is_named_before_it_is_counted() -> None:
    owner = rules(FAILJOB)
    bad, busy = fallen(owner, "sum-0", 42), worker(owner, "sum-1")
    first = planned(owner, bad, busy)
    assert lines(first) == ["patch Job default/sum/status"]
    assert said(statuses(first)[0]) == {"FailureTarget": ("True", "PodFailurePolicy")}
    told = {**owner, "status": {**owner["status"], **statuses(first)[0]}}
    second = planned(told, bad, busy)
    assert statuses(second)[0]["uncountedTerminatedPods"] == {"succeeded": None, "failed": ["uid-sum-0"]}
    counted = {**told, "status": {**told["status"], "failed": 1}}
    bad["metadata"]["finalizers"] = []
    assert lines(planned(counted, bad, busy))[-1] == "delete Pod default/sum-1"
    assert said(statuses(planned(counted, bad))[0])["Failed"] == ("True", "PodFailurePolicy")


def test_an_ignored_failure_is_let_go_without_being_counted() -> None:
    owner = rules(IGNORE, backoffLimit=0)
    plan = planned(owner, fallen(owner, "sum-0", 137, disrupted=True))
    assert lines(plan) == ["patch Pod default/sum-0", "patch Job default/sum/status"]
    assert tally(owner, [fallen(owner, "sum-0", 137, disrupted=True)]).failed_in_all == 0


# backoffLimitPerIndex.


def indexed(status: Obj | None = None, **spec: Any) -> Obj:
    given = {"completions": 3, "parallelism": 3, "backoffLimitPerIndex": 1, "backoffLimit": 2**31 - 1, **spec}
    return job(status, completionMode="Indexed", podReplacementPolicy="Failed", **given)


def test_the_first_pod_of_an_index_has_not_failed_yet() -> None:
    made = planned(indexed(status={})).creates[0].obj
    assert made["metadata"]["annotations"] == {INDEX: "0", FAILURES: "0"}


def test_a_failed_pod_is_kept_until_its_index_has_the_next_one_which_knows_of_it() -> None:
    owner = indexed(completions=1)
    first = fallen(owner, "sum-0-0", notes={INDEX: "0", FAILURES: "0"})
    assert lines(planned(owner, first)) == [], "it waits ten seconds"
    assert look_again_s(owner, [first], now=NOW) == 11.0
    (create,) = planned(owner, first, now=at(11)).creates
    assert create.obj["metadata"]["annotations"] == {INDEX: "0", FAILURES: "1"}
    second = worker(owner, "sum-0-1")
    second["metadata"]["annotations"] = {INDEX: "0", FAILURES: "1"}
    assert tally(owner, [first, second]).fresh_failed == ("uid-sum-0-0",)


def test_an_ignored_failure_of_an_index_is_remembered_as_such() -> None:
    owner = indexed(completions=1, podFailurePolicy={"rules": [IGNORE]})
    first = fallen(owner, "sum-0-0", 137, disrupted=True, notes={INDEX: "0", FAILURES: "1"})
    (create,) = planned(owner, first, now=at(60)).creates
    assert create.obj["metadata"]["annotations"] == {INDEX: "0", FAILURES: "1", IGNORED: "1"}


def test_an_index_fails_by_itself_and_the_others_go_on() -> None:
    owner = indexed()
    last = fallen(owner, "sum-1-1", notes={INDEX: "1", FAILURES: "1"})
    (status,) = statuses(planned(owner, last))
    assert (status["failedIndexes"], status["uncountedTerminatedPods"]["failed"]) == ("1", ["uid-sum-1-1"])
    known = indexed({"startTime": at(-60), "failedIndexes": "1", "failed": 1})
    assert lines(planned(known)) == ["create Pod default/sum-0-0", "create Pod default/sum-2-0"]


def test_a_rule_fails_an_index_at_once() -> None:
    owner = indexed(podFailurePolicy={"rules": [FAILINDEX]})
    assert tally(owner, [fallen(owner, "sum-1-0", 9, notes={INDEX: "1", FAILURES: "0"})]).failed_indexes == (
        1,
    )


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (indexed({"startTime": NOW, "completedIndexes": "0,2", "failedIndexes": "1"}), "FailedIndexes"),
        (indexed({"startTime": NOW, "failedIndexes": "0,1"}, maxFailedIndexes=1), "MaxFailedIndexesExceeded"),
    ],
)  # fmt: skip
def test_failed_indexes_fail_the_job_when_the_others_are_done_or_when_they_are_too_many(
    owner: Obj, reason: str
) -> None:
    assert said(statuses(planned(owner))[0])["Failed"] == ("True", reason)


# successPolicy.


@pytest.mark.parametrize(
    ("rule", "completed", "met"),
    [
        ({"succeededIndexes": "0,2-3"}, (0, 2), None),
        ({"succeededIndexes": "0,2-3"}, (0, 2, 3), 0),
        ({"succeededCount": 2}, (1,), None),
        ({"succeededCount": 2}, (1, 4), 0),
        ({"succeededIndexes": "0-2", "succeededCount": 1}, (4,), None),
        ({"succeededIndexes": "0-2", "succeededCount": 1}, (2, 4), 0),
    ],
)
def test_a_success_policy_is_met_by_indexes_by_their_number_or_both(
    rule: Obj, completed: tuple[int, ...], met: int | None
) -> None:
    assert met_rule(indexed(successPolicy={"rules": [rule]}), completed) == met


def test_a_job_whose_leader_is_done_ends_and_takes_the_others() -> None:
    policy = {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]}
    owner = indexed({"startTime": at(-60), "completedIndexes": "0"}, successPolicy=policy)
    first = planned(owner, worker(owner, "sum-1-0"))
    assert said(statuses(first)[0]) == {"SuccessCriteriaMet": ("True", "SuccessPolicy")}
    told = {**owner, "status": {**owner["status"], **statuses(first)[0]}}
    taken = ["patch Pod default/sum-1-0", "delete Pod default/sum-1-0"]
    assert lines(planned(told, worker(owner, "sum-1-0"))) == taken
    assert said(statuses(planned(told))[0])["Complete"] == ("True", "SuccessPolicy")


# Whole jobs.


@pytest.mark.parametrize("seed", range(40))
def test_no_index_is_tried_more_often_than_it_may_fail(seed: int) -> None:
    """Pods fail, and are deleted by others; any write may be the last of a pass."""
    rng = random.Random(seed)
    limit = rng.randrange(0, 3)
    owner = indexed({}, completions=rng.randrange(1, 5), backoffLimitPerIndex=limit)
    pods: dict[str, Obj] = {}
    failures: dict[str, set[str]] = {}
    made = 0
    for step in range(600):
        plan = planned(owner, *pods.values(), now=at(step * 700))
        made = _carry_out(plan, owner, pods, rng, made)
        _note(plan, pods)
        for one in pods.values():
            if one["status"]["phase"] == "Running" and rng.random() < 0.3:
                one["status"]["phase"] = "Failed" if rng.random() < 0.6 else "Succeeded"
            if one["status"]["phase"] == "Failed":
                index = one["metadata"]["annotations"][INDEX]
                failures.setdefault(index, set()).add(one["metadata"]["uid"])
        for name in [
            name for name in pods if rng.random() < 0.1 and pods[name]["status"]["phase"] == "Failed"
        ]:
            _delete(pods, name)
        assert all(len(found) <= limit + 1 for found in failures.values()), failures
        over = {one["type"] for one in conditions_of(owner)} & {"Complete", "Failed"}
        if over:
            assert ("Failed" in over) == bool(owner["status"].get("failedIndexes"))
            return
    pytest.fail(f"it did not end: {owner['status']}")


def _note(plan: Plan, pods: dict[str, Obj]) -> None:
    """Pods that were made have the annotations that they were made with."""
    for create in plan.creates:
        name = create.obj["metadata"]["name"]
        if name in pods and not pods[name]["metadata"].get("annotations"):
            pods[name]["metadata"]["annotations"] = create.obj["metadata"]["annotations"]
            assert pods[name]["metadata"]["finalizers"] == [JOB_TRACKING_FINALIZER]
