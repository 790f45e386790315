"""What the world has found in the code that it runs: each a small story, so that it stays found."""

from __future__ import annotations

import asyncio

import pytest
from tests.sim.small import config_map, passes, running, story

from fathom.client.api import Api
from fathom.client.outcomes import Committed, Outcome, Rejected
from fathom.model.conditions import DISRUPTION_TARGET, conditions_of, find_condition
from fathom.model.objects import Obj, key_of
from fathom.model.resources import BUDGETS, DEPLOYMENTS, PODS, RESOURCE_QUOTAS
from fathom.seams.process import Inside
from fathom.sim.checkers.ledgers import QuotaIsTheSum
from fathom.sim.checkers.rollouts import RolledOut
from fathom.sim.report.kept_runs import must_hold
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.scenarios.apart import PLANNER, run_apart
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.objects import pod_spec
from fathom.sim.scenarios.real import NODES, deployment, run_real_cluster, until_ready
from fathom.sim.scenarios.workloads import deployment as rolling
from fathom.sim.world.faults import (
    CommitUnknown,
    Crash,
    CrashAtWrite,
    HoldWatch,
    LoseReply,
    LoseRequest,
    Pause,
    Skew,
    SlowCommit,
    SlowRequest,
    StaleServer,
    Stop,
    StopAtWrite,
)
from fathom.sim.world.scenario import RunPlan, clock_plan_of, plan_of
from fathom.sim.world.world import World


def room(count: int) -> Obj:
    return {"metadata": {"name": "room"}, "spec": {"hard": {"count/configmaps": str(count)}}}


def test_a_quota_that_is_changed_through_a_server_that_lags_still_counts_everything() -> None:
    """1. An object and its quota are written through one server. 2. Another, which has not heard of that,
    changes the quota's limits: it reads the quota from the store, and counts objects in its own view."""

    async def main(inside: Inside) -> None:
        await asyncio.sleep(2)
        api = Api(inside.seam)
        while not isinstance(await api.patch(RESOURCE_QUOTAS, "default", "room", room(7)), Committed):
            await asyncio.sleep(0.5)

    async def limits_change_while_a_server_lags(world: World) -> None:
        world.process("worker", running(main), server=2)
        await world.apply(RESOURCE_QUOTAS, room(5))
        await world.sleep(1.5)
        await world.apply(CONFIG_MAPS, config_map("one"))
        await world.sleep(10)
        await world.heal_and_settle()
        assert [one["status"] for one in world.list("resourcequotas")] == [
            {"hard": {"count/configmaps": "7"}, "used": {"count/configmaps": "1"}}
        ]

    told = story(limits_change_while_a_server_lags, servers=2, checkers=lambda: (QuotaIsTheSum(),))
    passes(told, [StaleServer(at_s=1.0, target="api-2", for_s=4.0)])


def test_a_pod_is_not_kept_out_of_its_quota_by_room_that_is_reserved_for_itself_elsewhere() -> None:
    """1. Room is made for it on one node, and reserved. 2. Another node has room sooner. 3. Its tenant's
    quota is used up, by its own reservation: that is given back."""
    must_hold(SCENARIOS["scheduling"], plan_of(SCENARIOS["scheduling"], "300"))


def test_a_rollout_goes_on_when_its_pods_are_heard_of_after_their_counts() -> None:
    """1. A ReplicaSet reports its new pod as available. 2. Who rolls out hears of that, and not yet of the
    pod: it waits. 3. It hears of the pod, which changes no count any more."""

    async def pods_come_after_their_counts(world: World) -> None:
        run_apart(world)
        await world.apply(DEPLOYMENTS, rolling("web", 3, surge=1, missing=0))
        await world.sleep(10)
        await world.apply(DEPLOYMENTS, rolling("web", 3, tag=2, surge=1, missing=0))
        await world.sleep(10)
        await world.heal_and_settle()

    told = story(pods_come_after_their_counts, checkers=lambda: (RolledOut(),))
    passes(told, [HoldWatch(at_s=9.0, target=PLANNER, match="/pods", for_s=4.0)])


def test_a_reservation_outlives_one_renewal_that_fails() -> None:
    """1. A pod waits for a victim that leaves slowly, and is looked at once a minute. 2. Its reservation was
    renewed only in its last minute: with the last look before its end. 3. The answer to that is lost."""
    told = SCENARIOS["reserved-for-long"]
    must_hold(told, plan_of(told, "1"))


@pytest.mark.full
def test_who_reports_that_a_jobs_pods_are_refused_declares_it() -> None:
    """The Job controller writes two conditions on a WorkloadProgress, which it did not declare: nobody who
    asked which controllers can change it was told."""
    told = SCENARIOS["foreign-conditions"]
    for seed in ("0", "84"):  # With the second one, it writes the first conditions that there are.
        must_hold(told, plan_of(told, seed))


@pytest.mark.full
def test_a_namespace_that_takes_the_name_of_another_keeps_what_is_in_it_and_its_finalizer() -> None:
    """1. Two servers empty a namespace. 2. One of them is done, it is gone, and another takes its name. 3.
    The other server, which meant the first, deleted what was in the second; or took away its finalizer."""
    told = SCENARIOS["named-again-in-the-middle"]
    for seed in ("0", "2", "4"):
        must_hold(told, plan_of(told, seed))


def test_a_pod_is_available_though_another_was_waited_for() -> None:
    """1. A ReplicaSet waits for two pods to become available, and is looked at when the first would be. 2. By
    the whole second of its status the other is not available; by the fraction after it, it is. 3. Neither is
    its status written, nor is it looked at again."""
    told = SCENARIOS["pods-change-hands"]
    must_hold(told, plan_of(told, "131"))


def test_a_namespace_is_empty_only_in_a_view_that_has_heard_of_its_deletion() -> None:
    """1. One server stores an object. 2. The namespace is deleted. 3. Another server reads that from the
    store, and looks into its cache, which has not heard of 1: it called the namespace empty."""
    told = SCENARIOS["named-again-in-the-middle"]
    for seed in ("35", "43"):
        must_hold(told, plan_of(told, seed, "pct"))


def test_objects_of_a_kind_that_is_defined_again_stay() -> None:
    """As with namespaces: the slower of two servers meant the objects of the definition before."""
    told = SCENARIOS["defined-again"]
    for seed in ("4", "6"):
        must_hold(told, plan_of(told, seed))


def test_an_owner_that_is_told_twice_how_to_go_goes_as_it_was_told_last() -> None:
    """1. It is to wait for its dependents. 2. It is deleted again, in the background: it need not wait."""
    told = SCENARIOS["owners-come-and-go"]
    must_hold(told, plan_of(told, "1620"))


def test_pods_of_a_node_that_cannot_be_heard_are_taken_out_of_service() -> None:
    """1. An agent says Ready, and of which generation. 2. The node is unreachable, and "not ready" is said of
    no generation. 3. What is said of none is older than what is said of one: nothing is written."""
    must_hold(SCENARIOS["a-node-comes-back"], plan_of(SCENARIOS["a-node-comes-back"], "6"))


@pytest.mark.full
def test_the_brake_is_not_let_go_when_the_first_of_many_is_heard() -> None:
    """1. Three of five nodes are silent, and the brake holds. 2. The first is heard again. 3. Two of five are
    not many: the others, who are about to be heard, were taken for lost at once."""
    told = SCENARIOS["failure-detector-too-aggressive"]
    must_hold(told, plan_of(told, "512"))
    must_hold(told, plan_of(told, "919"))


def test_an_agent_that_comes_back_gives_nobody_the_address_of_another() -> None:
    """1. An agent ends. 2. The next one sees all pods of its node, some with addresses: who has none yet gets
    one that nobody said to have."""
    told = SCENARIOS["agents-alone"]
    must_hold(told, plan_of(told, "58"))


def test_two_nodes_that_fail_at_once_are_not_both_quarantined() -> None:
    """1. Starts fail on two nodes. 2. Each is looked at by itself, and of neither is it seen yet that the
    other is being set aside: more than may be would be."""
    told = SCENARIOS["gray-nodes"]
    must_hold(told, plan_of(told, "1"))


def test_a_gateway_that_hears_late_of_a_route_does_not_say_anew_since_when_it_is_in_force() -> None:
    """1. A route is changed, and acknowledged. 2. The gateway, whose view is from before that, says the same
    again, since now."""
    told = SCENARIOS["gateway-follows"]
    must_hold(told, plan_of(told, "1065"))


@pytest.mark.full
def test_a_step_of_a_controllers_wall_clock_taints_no_node_that_lives() -> None:
    """1. The controllers' clock is 40 s behind. 2. The process begins anew, or the clock is put right: it is
    40 s later at once, and every node looks silent for that long."""
    told = SCENARIOS["agents-begin-anew"]
    must_hold(told, plan_of(told, "27"))


@pytest.mark.full
def test_the_last_error_may_be_one_pods_and_then_anothers() -> None:
    """1. Two pods fail their probes. 2. The agent of one begins anew and knows nothing of it for a moment."""
    told = SCENARIOS["agents-begin-anew"]
    must_hold(told, plan_of(told, "39"))


def test_a_pod_that_became_ready_since_it_was_chosen_to_go_is_not_taken() -> None:
    """1. Three pods, of which our view knows one to be ready. 2. The API server begins anew; another pod is
    ready, and the view does not show it yet. 3. One too many: the one that looks unready is the ready one."""
    told = SCENARIOS["a-crash-at-any-write-of-a-rollout"]
    must_hold(told, plan_of(told, "41"))


@pytest.mark.full
def test_a_step_of_any_wall_clock_moves_nobody() -> None:
    """Of the controllers, by forty seconds and by an hour; of an agent whose pods may not run alone for long;
    of the API server."""
    told = SCENARIOS["clocks-are-set"]
    for seed in ("0", "10", "15", "2", "6"):
        must_hold(told, plan_of(told, seed))


def test_a_pod_that_goes_keeps_its_grace_when_its_agents_clock_is_set() -> None:
    """1. A pod is told to end and takes 20 s of its 30. 2. The agent's clock is set an hour forward: its
    grace is not over for that."""
    slow = deployment("slow", 1, notes={"fathom.dev/simulated": '{"stop_s": 20}'})
    slow["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30

    async def grace(world: World) -> None:
        run_real_cluster(world, nodes=NODES[:1], spare=False)
        await world.apply(DEPLOYMENTS, slow)
        await until_ready(world, "slow", 1, within_s=20)
        await world.sleep(20 - world.now_s)
        slow["spec"]["replicas"] = 0
        await world.apply(DEPLOYMENTS, slow)
        await world.sleep(18)
        assert world.list("pods", "default"), "it was killed before its time"
        await world.until(lambda: not world.list("pods", "default"), within_s=15, what="the pod is gone")

    passes(story(grace), [Skew(at_s=25.0, target=NODES[0], skew_s=3600.0)])


def test_a_replica_set_whose_quota_is_used_up_does_not_write_every_number_of_it() -> None:
    told = SCENARIOS["quota-changes"]
    must_hold(told, plan_of(told, "4"))


@pytest.mark.full
def test_an_outcome_does_not_take_the_revision_of_another_object_for_its_own() -> None:
    """1. A pod is deleted, and the answer is lost. 2. Its name is free, and a new pod gets it. 3. The name is
    read to find out: the delete is done, and the revision is the new pod's."""
    for name in ("quota-changes", "finished-jobs"):
        must_hold(SCENARIOS[name], plan_of(SCENARIOS[name], "2"))


def test_a_manager_that_leads_again_waits_for_its_caches_before_it_creates_pods_of_a_job() -> None:
    """1. Pods of a Job end, and pods 3 and 4 take their place. 2. Its manager dies, and pod 0 is removed.
    3. The next one, whose view has no pod at all, finds the name of 0 free."""
    told = SCENARIOS["jobs-seen-late"]
    must_hold(told, plan_of(told, "13", "pct"))


@pytest.mark.full
def test_a_proposal_is_tried_where_pods_that_are_evicted_end() -> None:
    """1. `why` would raise a quota for a pod. 2. In the fork, a waiting pod of higher priority preempts with
    it. 3. The fork had no agents, so the evicted pod never ended, and it seemed that nobody took the room."""
    told = SCENARIOS["pods-name-their-nodes"]
    must_hold(told, plan_of(told, "2"))


@pytest.mark.full
def test_a_pod_whose_node_dies_at_once_is_marked_for_eviction_and_otherwise_left_as_it_was_bound() -> None:
    """1. A binding stores a null in the condition PodScheduled. 2. The node dies before its agent reports the
    pod. 3. Evictions add their condition: the null is dropped, by a writer who does not declare it."""
    told = SCENARIOS["a-node-dies"]
    must_hold(told, plan_of(told, "9", "pct"))


def test_no_pod_is_evicted_for_an_override_whose_approval_an_edit_has_voided() -> None:
    """1. A drain is approved, and the controllers decide to evict a pod. 2. Its author edits it. 3. The
    eviction arrives."""
    told = SCENARIOS["approval-races-edit"]
    must_hold(told, plan_of(told, "6"))


def test_a_scheduler_that_leads_again_honours_no_override_that_has_ended_meanwhile() -> None:
    """1. Pods wait because of an override. 2. The scheduler cannot renew its lease, and does not lead when
    the override ends. 3. It leads again, and decides about them: what it had resolved before is out of
    date."""
    told = SCENARIOS["expiry-during-an-outage"]
    must_hold(told, plan_of(told, "1"))


@pytest.mark.full
def test_a_quota_that_is_created_beside_pods_counts_them_all() -> None:
    """1. A quota that is to be created counts three pods. 2. The create of a fourth is admitted: there is no
    quota. 3. The pod is stored. 4. The quota is stored."""
    told = SCENARIOS["stuck-workloads-are-explained"]
    must_hold(told, plan_of(told, "4"))


@pytest.mark.full
def test_a_progress_is_not_rewritten_for_each_message_of_a_new_scheduler() -> None:
    """1. The scheduler dies. 2. The next one writes the messages of all waiting pods anew, with other counts.
    3. The progress of their workload shows the first of them, and is written for each."""
    told = SCENARIOS["stuck-workloads-are-explained"]
    must_hold(told, plan_of(told, "20"))


@pytest.mark.full
def test_a_route_that_the_cache_did_not_have_yet_has_its_earlier_weights_at_the_end() -> None:
    """1. An override shifts traffic; the cache of routes is old, so a route is created for it. 2. The route
    that was there all along arrives, and is written too. 3. The override ends: both were its work."""
    crash = CrashAtWrite(at_s=0.0, target="api-1", times=7, for_s=1.0)
    plan = RunPlan(scenario="forgotten-override", seed="1", faults=(crash,))
    must_hold(SCENARIOS["forgotten-override"], plan)


def test_a_pod_that_becomes_ready_while_it_is_evicted_is_charged_to_its_budget() -> None:
    """1. A server that is behind the store evicts a pod that has not started there: no budget is charged.
    2. The commit fails, for the pod is ready. 3. The eviction is tried again, on the pod as it is."""
    faults = (
        CommitUnknown(at_s=0.078905, target="api-1"),
        StaleServer(at_s=0.097415, target="api-1", for_s=4.0),
    )
    plan = RunPlan(scenario="drains", seed="1", strategy="lineage", faults=faults, scale=2)
    must_hold(SCENARIOS["drains"], plan)


def test_a_pod_that_becomes_ready_between_the_mark_of_its_eviction_and_its_deletion_stays() -> None:
    """1. A pod has not started: its eviction is not charged, and it is marked. 2. It becomes ready. 3. The
    deletion arrives: the pod counts now, and its budget has nothing left."""
    outcomes: list[Outcome] = []

    async def main(inside: Inside) -> None:
        await asyncio.sleep(5)
        outcomes.append(
            await Api(inside.seam).create(PODS, "default", {"metadata": {"name": "p"}}, "eviction")
        )

    async def eviction(world: World) -> None:
        world.process("worker", running(main), server=2)
        pod = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": pod_spec()}
        await world.apply(PODS, pod)
        selector = {"matchLabels": {"a": "b"}}
        await world.apply(
            BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}}
        )
        counts = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1, "expectedPods": 1}
        await world.api.patch(
            BUDGETS, "default", "b", {"status": {**counts, "observedGeneration": 1}}, subresource="status"
        )
        await world.sleep(6.5 - world.now_s)
        (marked,) = world.list("pods")
        conditions = conditions_of(marked)
        assert find_condition(conditions, DISRUPTION_TARGET), conditions
        ready = {"phase": "Running", "conditions": [*conditions, {"type": "Ready", "status": "True"}]}
        outcome = await world.api.patch(PODS, "default", "p", {"status": ready}, subresource="status")
        assert isinstance(outcome, Committed), outcome
        await world.sleep(5)
        (evicted,) = outcomes
        assert isinstance(evicted, Rejected), evicted
        assert evicted.code == 429, evicted
        assert [key_of(each).name for each in world.list("pods")] == ["p"]

    slow = SlowCommit(at_s=4.0, target="api-2", times=2, delay_s=1.0)  # The mark's, and the deletion's.
    passes(story(eviction, servers=2), [slow])


@pytest.mark.full
def test_a_heartbeat_that_has_the_time_of_the_one_before_is_made_again() -> None:
    """1. An agent's clock is set back by as long as it waits between two statuses. 2. The next status is like
    the last one, so nothing is written. 3. Nobody has heard of the agent for twice as long."""
    told = SCENARIOS["clocks-are-set"]
    must_hold(told, plan_of(told, "5968"))


@pytest.mark.full
def test_revisions_whose_creates_arrive_late_do_not_run_beside_each_other() -> None:
    """1. The create of a ReplicaSet takes longer than its sender waits, and the template changes. 2. The next
    ReplicaSet is created, and its sender dies. 3. Both are there, and pods of both are created."""
    match = "POST /apis/apps/v1/namespaces/default/replicasets"
    faults = (
        SlowRequest(at_s=0.10465, target="manager-*", match=match, delay_s=16.0),
        CrashAtWrite(at_s=5.785, target="manager-*", match=match, for_s=0.5),
    )
    plan = RunPlan(scenario="not-all-is-well", seed="3", strategy="lineage", faults=faults, scale=3)
    must_hold(SCENARIOS["not-all-is-well"], plan)


@pytest.mark.full
def test_a_read_need_not_have_a_commit_that_its_server_has_no_answer_to() -> None:
    """1. The store commits a change, and its answer to the only server is slow. 2. A controller asks the
    server for its revision. 3. Nobody was told of the change: the controller's view may be without it."""
    faults = (
        Pause(at_s=0.003086, target="controllers-1", for_s=16.0),
        CrashAtWrite(at_s=7.327438, target="api-1", for_s=1.0),
        Crash(at_s=14.15439, target="api-1", for_s=2.0),
        StopAtWrite(
            at_s=30.865876,
            target="controllers-*",
            for_s=5.0,
            match="PATCH /api/v1/namespaces/default/events",
        ),
        Stop(at_s=44.851342, target="controllers-2", for_s=5.0),
        Stop(at_s=54.999203, target="scheduler-1", for_s=5.0),
        CrashAtWrite(at_s=65.339505, target="api-1", for_s=1.0),
    )
    plan = RunPlan(scenario="busy-but-well", seed="14", strategy="lineage", faults=faults, scale=6)
    must_hold(SCENARIOS["busy-but-well"], plan)


def test_nobody_is_evicted_for_a_pod_that_is_deleted_while_its_victim_is_marked() -> None:
    """1. A pod of high priority comes, and the scheduler marks a victim: that takes long. 2. The pod is
    deleted, and the scheduler is told. 3. The mark is answered: the victim was deleted for nobody."""
    pods = "POST /api/v1/namespaces/default/pods"
    mark = "PATCH /api/v1/namespaces/default/pods/"
    faults = (
        SlowRequest(at_s=12.03635, target="scheduler-*", for_s=4.0, match=mark, delay_s=4.0),
        LoseRequest(at_s=6.018, target="manager-*", match=pods),
        LoseReply(at_s=7.599, target="manager-*", match=pods),
    )
    plan = RunPlan(scenario="reservations", seed="4000", strategy="lineage", faults=faults, scale=11)
    must_hold(SCENARIOS["reservations"], plan)


def test_a_pod_that_becomes_ready_while_an_override_drains_its_node_may_be_the_last_healthy_one() -> None:
    """1. A pod is not ready, so it may go. 2. It becomes ready. 3. The eviction arrives."""
    told = SCENARIOS["approval-races-edit"]
    must_hold(told, clock_plan_of(told, "2219"))
