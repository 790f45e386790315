"""Runs in which a scenario once called right code broken: the scenario was wrong, and the runs hold."""

from __future__ import annotations

import pytest

from fathom.sim.report.kept_runs import must_hold
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.faults import AnyFault, CommitLost, CrashAtWrite, Pause, Skew, SlowReply, SlowRequest
from fathom.sim.world.scenario import RunPlan, clock_plan_of, plan_of


def holds(name: str, *faults: AnyFault, seed: str, scale: int = 1) -> None:
    plan = RunPlan(scenario=name, seed=seed, strategy="lineage", faults=faults, scale=scale)
    must_hold(SCENARIOS[name], plan)


def test_a_delete_that_the_scenario_sent_and_the_store_never_got_is_sent_again() -> None:
    """1. The scenario deletes a Deployment. 2. The commit never reaches the store. 3. There is nothing to
    repair, for ever."""
    holds("a-persons-decision", CommitLost(at_s=0.005, target="api-1"), seed="1")


@pytest.mark.parametrize(
    ("name", "at_s", "scale"),
    [
        ("drains", 15.0397, 9),  # Without the finalizer that it adds, a pod is in deletion for 1,000 s.
        ("tokens-end", 0.0013, 1),
        ("who-waits-is-woken", 22.7443, 27),
    ],
)
def test_a_story_goes_on_when_one_of_its_own_commits_is_lost(name: str, at_s: float, scale: int) -> None:
    holds(name, *SCENARIOS[name].scripted, CommitLost(at_s=at_s, target="api-1"), seed="1", scale=scale)


def test_an_override_that_arrives_after_its_end_may_be_named_by_a_later_refusal() -> None:
    """1. A create is late, and its sender gives up. 2. The scenario ends what it can see. 3. The override
    arrives, and is in force. 4. Both overrides of the next round contradict it."""
    late = SlowRequest(
        at_s=0.262,
        target="alice*",
        match="POST /apis/fathom.dev/v1alpha1/namespaces/default/scheduleroverrides",
        delay_s=16.0,
    )
    holds("conflicting-overrides", late, Pause(at_s=7.39, target="bob", for_s=16.0), seed="2", scale=6)


PODS = "POST /api/v1/namespaces/default/pods"
STATUSES = "PATCH /apis/batch/v1/namespaces/default/jobs/"


def slow(match: str, at_s: float, delay_s: float = 16.0) -> SlowRequest:
    return SlowRequest(at_s=at_s, target="manager-*", match=match, delay_s=delay_s)


def test_a_deadline_is_noticed_late_when_the_start_of_the_job_is_stored_late() -> None:
    """1. The create of a Job's pod takes longer than its sender waits. 2. So does the status that says when
    the Job has started. 3. The next pass writes a later start."""
    holds("jobs-in-time", slow(PODS, 0.266), slow(STATUSES, 13.026), seed="1")


def test_a_pod_is_replaced_late_when_the_requests_for_it_are_late() -> None:
    """1. The create of a Job's pod is late, and so are the writes that count its failure and the create of
    the next pod. 2. For each of them its sender waits for ten seconds."""
    late = (slow(PODS, 5.007), slow(STATUSES, 13.026), slow(STATUSES, 15.015), slow(PODS, 17.019))
    holds("jobs-in-time", *late, seed="1")


def test_a_job_is_kept_from_the_end_that_is_stored_and_not_from_when_that_was_stored() -> None:
    """1. The status that says when the Job has ended arrives four seconds later. 2. It is removed when its
    time is over, four seconds sooner after that commit."""
    holds("jobs-in-time", slow(STATUSES, 25.741, 4.0), seed="1")


def test_a_paused_process_that_a_fault_ends_is_started_again_and_hears() -> None:
    """1. Both managers are paused, and an override is created. 2. A fault ends one of them. 3. The one that
    is started instead acknowledges the override, which becomes active."""
    told = SCENARIOS["one-controller-deaf"]
    must_hold(told, plan_of(told, "1125"))


def test_an_agent_whose_clock_is_behind_renews_its_lease() -> None:
    """1. The clock of an agent is set back, and stays wrong. 2. The times in its lease are old, though it
    renews that every two seconds."""
    told = SCENARIOS["stopped-while-unheard"]
    plan = clock_plan_of(told, "4390")
    assert [step.skew_s for step in plan.faults if isinstance(step, Skew)] == [3.0, -40.0]
    must_hold(told, plan)


@pytest.mark.full
def test_a_request_that_was_given_up_may_arrive_when_its_sender_is_dead() -> None:
    """1. The create of a pod takes longer than its sender waits. 2. The sender creates the pods of the next
    revision, and dies. 3. The pod arrives, before there is another leader."""
    dies = CrashAtWrite(
        at_s=14.055622,
        target="manager-*",
        for_s=0.5,
        match="PATCH /apis/fathom.dev/v1alpha1/namespaces/default/workloadprogresses/",
    )
    holds("not-all-is-well", slow(PODS, 0.436), dies, seed="5", scale=4)


@pytest.mark.full
def test_a_pod_is_available_sooner_by_a_clock_that_is_ahead() -> None:
    """1. The clock of a leader is set forward. 2. `minReadySeconds` counts from a time that an agent wrote:
    by the leader's clock, that is long ago."""
    told = SCENARIOS["not-all-is-well"]
    plan = clock_plan_of(told, "4294")
    assert [step.skew_s for step in plan.faults if isinstance(step, Skew)] == [40.0, -3.0]
    must_hold(told, plan)


def test_an_eviction_that_was_sent_while_a_pod_waited_for_the_room_may_arrive_later() -> None:
    """1. A pod of high priority waits, and its victim's eviction is sent: that takes long. 2. The pod is
    gone. 3. The eviction arrives: nobody can call it back."""
    pods = "DELETE /api/v1/namespaces/default/pods/"
    late = SlowRequest(at_s=0.375, target="scheduler-*", match=pods, delay_s=6.0, for_s=30.0, times=99)
    holds("reservations", late, seed="11", scale=14)


def test_a_pod_that_somebody_gives_to_a_replica_set_while_it_creates_one_is_one_too_many() -> None:
    """1. A ReplicaSet lacks a pod, and sends a create: that takes long. 2. Somebody gives it another pod.
    3. The create arrives."""
    late = SlowRequest(at_s=50.031, target="manager-*", match=PODS, delay_s=4.0, for_s=0.5)
    holds("pods-change-hands", late, seed="4001", scale=2)


def test_a_pod_that_somebody_gives_to_a_replica_set_while_it_creates_several_is_one_too_many() -> None:
    """1. A ReplicaSet lacks two pods, and creates the first: the answer takes long. 2. Somebody gives it
    another pod. 3. It creates the second, as it has decided before."""
    late = SlowReply(at_s=0.312, target="manager-*", match=PODS, delay_s=6.0, for_s=120.0, times=99)
    holds("pods-change-hands", late, seed="1", scale=5)


@pytest.mark.full
def test_pods_that_come_late_do_not_change_who_is_refused_by_a_quota() -> None:
    """1. Pods are created late. 2. The quota is created, and those who are to be refused come first."""
    told = SCENARIOS["stuck-workloads-are-explained"]
    must_hold(told, plan_of(told, "751"))


def test_pods_that_come_before_the_nodes_of_other_zones_are_not_what_a_story_of_zones_is_about() -> None:
    """1. Pods to be spread over zones come when one node has registered. 2. All go there. 3. The quota of
    another zone, which one pod was to wait for, is never used up."""
    told = SCENARIOS["pending-after-rollback"]
    must_hold(told, plan_of(told, "5152"))


def test_a_lease_is_judged_when_the_clock_of_its_agent_is_right_again() -> None:
    """1. An agent's clock is minutes behind. 2. It renews its lease, with the time by that clock. 3. The
    story came to rest without setting the clock right: the lease seemed to be old."""
    told = SCENARIOS["stopped-while-unheard"]
    must_hold(told, clock_plan_of(told, "2"))


def test_a_cache_need_not_have_a_commit_whose_answer_is_slow() -> None:
    """1. The store commits a pod's deletion, and the only server gets its turn two seconds later. 2. Until
    then it knows of no commit, and its bookmarks say so."""
    told = SCENARIOS["replicas-seen-late"]
    must_hold(told, plan_of(told, "35", "pct"))


@pytest.mark.parametrize("seed", ["1229", "2109"])
def test_a_manager_whose_clock_is_ahead_honours_an_override_for_a_shorter_time(seed: str) -> None:
    told = SCENARIOS["rollouts-end"]
    must_hold(told, clock_plan_of(told, seed))
