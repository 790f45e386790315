"""What a ReplicaSet does about its pods, objects in and plan out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.controllers.making import NOW, at, pod, replica_set

from fathom.control.ownership import claims
from fathom.control.plan import NOTHING, Delete, Plan
from fathom.control.reconcile_result import Failure
from fathom.controllers.pod_states import available_in_s, seconds
from fathom.controllers.replicaset.plan import (
    BURST_PODS_MAX,
    ENDED_KEPT,
    NEEDS,
    REJECTED_MAX,
    RETRY_REJECTED_S,
    ReplicaSetFacts,
    plan_failure,
    plan_replicas,
    retry_in_s,
)
from fathom.controllers.replicaset.scale_down_order import leaving_first
from fathom.model.objects import Obj, labels_of
from fathom.model.well_known import DELETION_COST_ANNOTATION


def around(owner: Obj, pods: Sequence[Obj], *, others: Sequence[int] = ()) -> ReplicaSetFacts:
    names = {one["metadata"]["name"] for one in pods} | {f"web-{slot}" for slot in others}
    return ReplicaSetFacts(
        claims=claims(owner, pods, lambda one: labels_of(one).get("app") == "web"),
        occupied=lambda slot: f"web-{slot}" in names,
    )


def planned(owner: Obj, *pods: Obj, others: Sequence[int] = ()) -> Plan:
    return plan_replicas(owner, around(owner, pods, others=others), now=NOW)


def lines(plan: Plan) -> list[str]:
    return [action.line for action in plan.actions]


def test_the_lowest_free_slots_are_filled() -> None:
    owner = replica_set(replicas=4)
    plan = planned(owner, pod("web-1", owner))
    assert lines(plan) == [f"create Pod default/web-{slot}" for slot in (0, 2, 3)]
    made = plan.creates[0].obj
    assert made["metadata"]["labels"] == {"app": "web"}
    assert made["metadata"]["annotations"] == {"fathom.dev/slot": "0"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-web"
    assert made["spec"] == owner["spec"]["template"]["spec"]


def test_a_pod_that_is_going_keeps_its_slot_and_does_not_count() -> None:
    owner = replica_set(replicas=2)
    plan = planned(owner, pod("web-0", owner, going=True), pod("web-1", owner))
    assert lines(plan) == ["create Pod default/web-2"]


def test_a_name_that_is_anothers_is_left_alone() -> None:
    owner = replica_set(replicas=1)
    assert lines(planned(owner, others=(0, 1))) == ["create Pod default/web-2"]


def test_no_more_pods_are_made_in_one_pass_than_a_burst() -> None:
    assert len(planned(replica_set(replicas=10 * BURST_PODS_MAX)).creates) == BURST_PODS_MAX


def test_an_orphan_that_matches_is_adopted_instead_of_making_another() -> None:
    owner = replica_set(replicas=2)
    plan = planned(owner, pod("web-0", owner), pod("stray"))
    assert lines(plan) == ["patch Pod default/stray"]


def test_a_pod_whose_labels_no_longer_match_is_let_go_and_replaced() -> None:
    owner = replica_set(replicas=1)
    plan = planned(owner, pod("web-0", owner, labels={"app": "debug"}))
    assert lines(plan) == ["create Pod default/web-1", "patch Pod default/web-0"]
    assert plan.patches[0].patch == {"metadata": {"ownerReferences": []}}


def test_an_owner_that_is_going_does_nothing() -> None:
    owner = replica_set(replicas=2)
    owner["metadata"]["deletionTimestamp"] = at(0)
    assert planned(owner, pod("web-0", owner)) == NOTHING


def test_scaling_down_states_how_fresh_the_view_must_be() -> None:
    owner = replica_set(replicas=1)
    plan = planned(owner, pod("web-0", owner), pod("web-1", owner, ready=False))
    assert lines(plan) == ["delete Pod default/web-1"]
    assert plan.needs == NEEDS


def test_a_pod_that_goes_because_it_is_not_ready_goes_only_as_it_was_read() -> None:
    owner = replica_set(replicas=1)
    pods = [pod("web-0", owner), pod("web-1", owner), pod("web-2", owner, ready=False)]
    deletes = [one for one in planned(owner, *pods).deletes if isinstance(one, Delete)]
    found = {one.target.key.name: one.as_read for one in deletes}
    assert found == {"web-1": False, "web-2": True}


def test_ended_pods_are_replaced_and_only_the_newest_are_kept() -> None:
    owner = replica_set(replicas=1)
    ended = [pod(f"web-{n}", owner, phase="Failed", ready=False, age_s=n) for n in range(ENDED_KEPT + 2)]
    plan = planned(owner, *ended)
    assert lines(plan) == ["create Pod default/web-5", "delete Pod default/web-4", "delete Pod default/web-3"]


def rejected(owner: Obj, number: int, *, youngest_s: float) -> list[Obj]:
    words: dict[str, Any] = {
        "reason": "OutOfcpu",
        "message": "Pod was rejected: Node didn't have enough resource: cpu",
    }
    return [
        pod(f"web-{n}", owner, phase="Failed", ready=False, age_s=youngest_s + n, **words)
        for n in range(number)
    ]


def test_pods_that_nodes_refuse_are_replaced_at_once_a_few_times_and_then_slowly() -> None:
    owner = replica_set(replicas=1)
    few = rejected(owner, REJECTED_MAX - 1, youngest_s=0)
    assert lines(planned(owner, *few)) == ["create Pod default/web-2"]
    many = rejected(owner, REJECTED_MAX, youngest_s=4)
    assert lines(planned(owner, *many)) == []
    assert retry_in_s(many, now_s=seconds(NOW)) == RETRY_REJECTED_S - 4
    later = rejected(owner, REJECTED_MAX, youngest_s=RETRY_REJECTED_S)
    assert lines(planned(owner, *later)) == ["create Pod default/web-3"]
    failed = [pod(f"web-{n}", owner, phase="Failed", ready=False, age_s=1) for n in range(REJECTED_MAX)]
    assert lines(planned(owner, *failed)) == ["create Pod default/web-3"]


@pytest.mark.parametrize(
    ("sooner", "later"),
    [
        (pod("a", node=""), pod("b", phase="Pending", ready=False)),
        (pod("a", phase="Pending", ready=False), pod("b", ready=False)),
        (pod("a", ready=False), pod("b")),
        (pod("a", ready_for_s=1), pod("b", ready_for_s=100)),
        (pod("a", containerStatuses=[{"restartCount": 3}]), pod("b")),
        (pod("a", age_s=5), pod("b", age_s=900)),
        (pod("a"), pod("b")),
    ],
)
def test_those_that_do_least_go_first(sooner: Obj, later: Obj) -> None:
    assert leaving_first([later, sooner], [], lambda _: None) == [sooner, later]


def test_a_pod_that_is_cheap_to_lose_goes_before_a_young_one() -> None:
    cheap, young = pod("cheap", age_s=900), pod("young", age_s=1, ready_for_s=0)
    cheap["metadata"]["annotations"] = {DELETION_COST_ANNOTATION: "-10"}
    assert leaving_first([young, cheap], [], lambda _: None) == [cheap, young]


def test_of_pods_that_share_a_node_one_goes_before_one_that_is_alone() -> None:
    alone, first, second = pod("a", node="n2"), pod("b", node="n1"), pod("c", node="n1")
    pods = [alone, first, second]
    assert leaving_first(pods, pods, lambda _: None)[-1] == alone


def test_the_status_counts_what_is_there_for_the_generation_it_looked_at() -> None:
    owner = replica_set(replicas=3, minReadySeconds=10)
    pods = (
        pod("web-0", owner),
        pod("web-1", owner, ready_for_s=3),
        pod("web-2", owner, ready=False),
        pod("web-3", owner, going=True),
    )
    (write,) = planned(owner, *pods).statuses
    assert write.status == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "terminatingReplicas": 1,
        "observedGeneration": 1,
    }


def test_nothing_is_written_where_nothing_is_new() -> None:
    owner = replica_set(replicas=1)
    (write,) = planned(owner, pod("web-0", owner)).statuses
    assert planned({**owner, "status": write.status}, pod("web-0", owner)).statuses == ()


def test_a_refusal_with_other_numbers_is_not_said_again_at_once() -> None:
    def said(owner: Obj, used: int, *, recently: bool) -> Plan:
        refused = Failure("Forbidden", f"exceeded quota, used: pods={used}")
        return plan_failure(owner, refused, creating=True, now=NOW, recently=recently)

    owner = replica_set(replicas=1)
    (write,) = said(owner, 8, recently=False).statuses
    failed = {**owner, "status": write.status}
    assert said(failed, 7, recently=True) == NOTHING
    assert said(failed, 7, recently=False).statuses
    other = Failure("Forbidden", "no such service account")
    assert plan_failure(failed, other, creating=True, now=NOW, recently=True).statuses


def test_a_refusal_is_said_until_there_are_as_many_pods_as_wanted() -> None:
    owner = replica_set(replicas=1)
    refused = Failure("Forbidden", "exceeded quota")
    (write,) = plan_failure(owner, refused, creating=True, now=NOW).statuses
    (condition,) = write.status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
        "ReplicaFailure",
        "True",
        "FailedCreate",
        "exceeded quota",
    )
    beyond = Failure("Forbidden", "no", causes=("QuotaExceeded",))
    (write,) = plan_failure({**owner, "status": write.status}, beyond, creating=True, now=NOW).statuses
    said = [(one["type"], one["reason"]) for one in write.status["conditions"]]
    assert said == [("ReplicaFailure", "FailedCreate"), ("fathom.dev/PodsRefused", "quota")]
    failed = {**owner, "status": write.status}
    assert "conditions" not in planned(failed).statuses[0].status
    assert planned(failed, pod("web-0", failed)).statuses[0].status["conditions"] == []


@pytest.mark.parametrize(
    ("min_ready_s", "ready_for_s", "left_s"),
    [(0, 50, 0.0), (0, -400, 0.0), (30, 10, 20.0), (30, 50, 0.0), (30, -400, 30.0)],
)
def test_a_ready_pod_is_available_in_time_though_the_clock_was_set_back(
    min_ready_s: int, ready_for_s: float, left_s: float
) -> None:
    one = pod("a", ready_for_s=ready_for_s)
    assert available_in_s(one, min_ready_s=min_ready_s, now_s=seconds(NOW)) == left_s
