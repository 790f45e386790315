"""Where a Job turns: which end it comes to when it could come to two, and who of its pods is taken."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.making import NOW, at
from tests.controllers.test_plan_jobs import job, lines, planned, said, statuses, worker

from fathom.controllers.job.completion_indexes import INDEX
from fathom.controllers.job.plan_counts import tally
from fathom.controllers.job.plan_failure_policy import FAILURES, job_failure_message
from fathom.model.objects import Obj

MET = {"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy"}
FAILING = {"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded"}


def indexed(status: Obj | None = None, **spec: Any) -> Obj:
    return job(status, **{"completionMode": "Indexed", **spec})


def numbered(owner: Obj, index: int, phase: str = "Running", **options: Any) -> Obj:
    made = worker(owner, f"sum-{index}-{options.pop('attempt', 0)}", phase, **options)
    made["metadata"]["annotations"] = {INDEX: str(index)}
    return made


# Which end.


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (
            job({"startTime": at(-60), "succeeded": 1, "failed": 1}, completions=None, backoffLimit=0),
            "BackoffLimitExceeded",
        ),
        (job({"startTime": at(-60), "succeeded": 3}, activeDeadlineSeconds=30), "DeadlineExceeded"),
        (
            indexed(
                {"startTime": at(-60), "completedIndexes": "0", "failedIndexes": "1"},
                backoffLimitPerIndex=0,
                maxFailedIndexes=0,
                successPolicy={"rules": [{"succeededIndexes": "0"}]},
            ),
            "MaxFailedIndexesExceeded",
        ),
    ],
)
def test_a_job_that_has_failed_and_succeeded_at_once_has_failed(owner: Obj, reason: str) -> None:
    assert said(statuses(planned(owner))[0])["FailureTarget"] == ("True", reason)


def test_restarts_of_all_containers_of_all_pods_are_added_up() -> None:
    template = {"spec": {"restartPolicy": "OnFailure", "containers": []}}
    owner = job(template=template, backoffLimit=4)
    first = worker(owner, "sum-0", containerStatuses=[{"restartCount": 1}, {"restartCount": 1}])
    second = worker(owner, "sum-1", initContainerStatuses=[{"restartCount": 1}])
    assert "BackoffLimitExceeded" not in str(statuses(planned(owner, first, second)))
    second["status"]["containerStatuses"] = [{"restartCount": 1}]
    assert said(statuses(planned(owner, first, second))[0]) == {
        "FailureTarget": ("True", "BackoffLimitExceeded")
    }


# What becomes of pods that still run at the end.


def test_who_still_runs_when_enough_is_done_is_let_go_and_has_not_failed() -> None:
    owner = indexed({"startTime": at(-60), "completedIndexes": "0", "conditions": [MET]})
    assert lines(planned(owner, numbered(owner, 1)))[-2:] == [
        "patch Pod default/sum-1-0",
        "delete Pod default/sum-1-0",
    ]


def test_who_still_runs_when_a_job_fails_has_failed_with_it_even_where_ends_are_waited_for() -> None:
    owner = job({"startTime": at(-60), "conditions": [FAILING]}, podReplacementPolicy="Failed")
    never_placed = worker(owner, "sum-0", "Pending", going=True, node="")
    found = tally(owner, [never_placed])
    assert (found.failed_in_all, found.fresh_failed) == (1, ("uid-sum-0",))


def test_an_index_whose_pod_was_taken_because_the_job_failed_has_not_failed_itself() -> None:
    owner = indexed(
        {"startTime": at(-60), "failedIndexes": "0", "conditions": [FAILING]}, backoffLimitPerIndex=0
    )
    assert tally(owner, [numbered(owner, 1, going=True)]).failed_indexes == (0,)


# Who is too many.


def test_a_pod_on_its_way_out_drives_no_other_away() -> None:
    """1. Three run, two are wanted from now on: one is sent away. 2. As long as it is there it counts as one
    more that is going. 3. Another is sent away, and then the last."""
    owner = job(parallelism=2, completions=9, podReplacementPolicy="Failed")
    going = worker(owner, "sum-2", tracked=False, going=True)
    assert lines(planned(owner, worker(owner, "sum-0"), worker(owner, "sum-1"), going)) == []


def test_after_the_first_success_of_a_work_queue_those_at_work_go_on() -> None:
    owner = job({"startTime": at(-60), "succeeded": 1}, completions=None, parallelism=1)
    assert lines(planned(owner, worker(owner, "sum-1"), worker(owner, "sum-2"))) == []


def test_of_an_indexed_job_that_shrinks_those_go_whose_index_is_not_wanted_any_more() -> None:
    owner = indexed(completions=2, parallelism=2)
    old = [numbered(owner, index, ready_for_s=90) for index in (2, 3)]
    young = [numbered(owner, index, ready_for_s=1) for index in (0, 1)]
    deleted = [line for line in lines(planned(owner, *young, *old)) if line.startswith("delete")]
    assert sorted(deleted) == ["delete Pod default/sum-2-0", "delete Pod default/sum-3-0"]


def test_of_two_pods_of_one_index_one_goes() -> None:
    owner = indexed(completions=2, parallelism=2)
    twins = [numbered(owner, 0, attempt=0, ready_for_s=90), numbered(owner, 0, attempt=1, ready_for_s=1)]
    deleted = [line for line in lines(planned(owner, *twins)) if line.startswith("delete")]
    assert deleted == ["delete Pod default/sum-0-1"]


def test_a_failure_beyond_the_indexes_that_are_wanted_is_not_counted() -> None:
    owner = indexed(completions=2)
    found = tally(owner, [numbered(owner, 5, "Failed")])
    assert (found.failed_in_all, [pod["metadata"]["name"] for pod in found.to_release]) == (0, ["sum-5-0"])


# What is suspended, or made smaller.


def given_up(owner: Obj, index: int, phase: str = "Running") -> Obj:
    """A pod that the Job deleted because it is suspended: it is on its way out, and no longer tracked."""
    pod = numbered(owner, index, phase)
    pod["metadata"] |= {"deletionTimestamp": at(30), "finalizers": []}
    return pod


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_an_index_whose_pod_was_given_up_has_not_failed(phase: str) -> None:
    owner = indexed({"completedIndexes": "0"}, backoffLimitPerIndex=0, suspend=True)
    assert tally(owner, [given_up(owner, 1, phase), given_up(owner, 2, phase)]).failed_indexes == ()


def test_the_next_pod_of_an_index_does_not_count_the_one_that_was_given_up() -> None:
    owner = indexed({"startTime": at(-60)}, completions=1, parallelism=1, backoffLimitPerIndex=1)
    (create,) = planned(owner, given_up(owner, 0)).creates
    assert create.obj["metadata"]["annotations"][FAILURES] == "0"


def test_a_pod_that_was_given_up_does_not_fail_the_job_by_its_exit_code() -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}
    owner = indexed(podFailurePolicy={"rules": [rule]}, podReplacementPolicy="Failed", suspend=True)
    pod = given_up(owner, 0, "Failed")
    pod["status"]["containerStatuses"] = [{"name": "main", "state": {"terminated": {"exitCode": 143}}}]
    assert job_failure_message(owner, [pod]) == ""


def test_a_job_that_ends_while_it_is_suspended_has_a_start() -> None:
    owner = job({"conditions": [FAILING]}, suspend=True)
    (status,) = statuses(planned(owner))
    assert status["startTime"] == NOW
    assert said(status)["Failed"] == ("True", "DeadlineExceeded")
