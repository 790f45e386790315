"""Overrides that pause repair, or approve what it proposes."""

from __future__ import annotations

import msgspec
import pytest
from tests.control.worlds import told
from tests.controllers.test_plan_repair import NOW, NOW_NS, PROPOSED, STUCK, decided, node, pod

from fathom.cache.needs import AtLeast
from fathom.client.api import Resource
from fathom.control.plan import NOTHING, Plan, target
from fathom.control.process import load_controller
from fathom.controllers.override_pauses import WorkloadPause, paused_at
from fathom.controllers.repair.controller import RepairPods, RepairProposalsController
from fathom.controllers.repair.plan import plan_pod
from fathom.controllers.repair.plan_overrides import OverrideApproval, approval_by_override, held
from fathom.controllers.repair.plan_proposals import plan_proposal, plan_repair
from fathom.kinds.override_scope import WorkloadName
from fathom.model.accounts import REPAIR
from fathom.model.decision import Considered
from fathom.model.objects import Key, Obj
from fathom.model.resources import DEPLOYMENTS, NODES, PODS
from fathom.sim.scenarios.failures import approve
from fathom.sim.scenarios.objects import node as node_object
from fathom.sim.scenarios.real import run_real_cluster
from fathom.sim.scenarios.staff import run_managers_and_agents
from fathom.sim.scenarios.workloads import deployment
from fathom.sim.world.world import World

OVERRIDES = Resource("fathom.dev", "v1alpha1", "scheduleroverrides")
EARLIER, LATER = "2025-12-31T23:00:00Z", "2026-01-01T00:30:00Z"
CALM = Considered("calm", 7, resource="scheduleroverrides.fathom.dev", namespace="shop", uid="u-calm")
PAUSE = WorkloadPause("calm", NOW_NS + 60 * 10**9, (CALM,))
NAMES = (WorkloadName("pod", "web-0"), WorkloadName("replicaset", "web"))
HELD_DEPLOYMENTS = load_controller("fathom.controllers.repair.controller:DeploymentFinalizers")
ZONE = "topology.kubernetes.io/zone"


def override(
    target_: str = "workload/web",
    *,
    namespace: str = "shop",
    author: str = "jane",
    made: str = LATER,
    scope: str = "cluster",
    **changes: object,
) -> Obj:
    return {
        "metadata": {
            "name": "calm",
            "namespace": namespace,
            "uid": "u-calm",
            "resourceVersion": "7",
            "creationTimestamp": made,
        },
        "spec": {"target": target_, "scope": scope, "expiresAfter": "2h", "changes": changes},
        "status": {"author": author},
    }


# Pausing.


def test_what_repair_would_do_waits_and_the_override_is_on_record() -> None:
    plan = plan_pod(pod(), None, node_is_gone=True, now_ns=NOW_NS, now=NOW)
    assert plan.deletes
    assert held(plan, None) == msgspec.structs.replace(plan, heeds_pauses=True)
    assert held(plan, PAUSE) == Plan(
        why="repair is paused by the override calm: it is bound to node n1, which does not exist",
        considered=(msgspec.structs.replace(CALM, decisive=True),),
    )
    assert held(NOTHING, PAUSE) == Plan(considered=(CALM,))


def test_a_proposal_is_made_also_while_repair_is_paused() -> None:
    plan = plan_pod(STUCK, node("Unknown"), node_is_gone=False, now_ns=NOW_NS, now=NOW)
    assert plan.creates
    assert held(plan, PAUSE).creates == plan.creates


@pytest.mark.parametrize(
    ("target_", "namespace", "paused"),
    [
        ("workload/web", "shop", True),
        ("replicaset/web", "shop", True),
        ("deployment/web", "shop", False),
        ("workload/web", "other", False),
        ("node/n1", "fathom-system", True),
        ("node/n2", "fathom-system", False),
        ("zone/a", "fathom-system", True),
        ("zone/b", "fathom-system", False),
    ],
)
def test_repair_is_paused_for_a_workload_a_node_a_zone(target_: str, namespace: str, paused: bool) -> None:
    found = paused_at(
        [override(target_, namespace=namespace, pauseRepair=True)],
        "pause_repair",
        namespace="shop",
        names=NAMES,
        node="n1",
        node_labels={ZONE: "a"},
        in_scope=lambda scope: scope == "cluster",
        now_ns=NOW_NS,
    )
    assert (found is not None) is paused


def test_an_approved_proposal_waits_while_repair_is_paused() -> None:
    approved = decided(PROPOSED, approved=True)
    plan = plan_proposal(approved, STUCK, node("Unknown"), now_ns=NOW_NS, now=NOW, pause=PAUSE)
    assert plan.why == "it is approved, and repair is paused by the override calm"
    assert plan.considered == (msgspec.structs.replace(CALM, decisive=True),)


# Approving.


def proposed(made: str = EARLIER) -> Obj:
    meta = {**PROPOSED["metadata"], "creationTimestamp": made}
    return decided({**PROPOSED, "metadata": meta})


NAME = str(PROPOSED["metadata"]["name"])
CITED = (msgspec.structs.replace(CALM, decisive=True),)
APPROVAL = OverrideApproval("calm", "jane", CITED)


def approval(by: Obj, about: Obj | None = None, *, here: bool = True) -> OverrideApproval | None:
    return approval_by_override(
        about or proposed(), [by], names=NAMES, in_scope=lambda _: here, now_ns=NOW_NS
    )


def test_an_override_approves_the_proposals_that_it_names_about_its_target() -> None:
    assert approval(override(approveRepairs=[NAME])) == APPROVAL
    assert approval(override(approveRepairs=["another"])) is None
    assert approval(override("workload/other", approveRepairs=[NAME])) is None
    assert approval(override(namespace="other", approveRepairs=[NAME])) is None
    assert approval(override(approveRepairs=[NAME]), here=False) is None


@pytest.mark.parametrize(
    "author", ["", REPAIR, "system:serviceaccount:fathom-system:helper", "system:node:n1", "system:fathom:x"]
)
def test_no_account_of_fathoms_own_approves_by_an_override(author: str) -> None:
    assert approval(override(author=author, approveRepairs=[NAME])) is None


def test_an_override_approves_only_what_its_author_could_have_read() -> None:
    young = proposed(made="2026-01-01T00:30:01Z")
    assert approval(override(made=LATER, approveRepairs=[NAME]), young) is None
    undated = proposed()
    del undated["metadata"]["creationTimestamp"]
    assert approval(override(approveRepairs=[NAME]), undated) is None


def test_an_override_that_has_ended_approves_nothing() -> None:
    ended = override(made="2025-12-31T23:00:00Z", approveRepairs=[NAME])
    assert approval(ended) is None


def test_a_proposal_approved_by_an_override_is_carried_out_in_its_name() -> None:
    plan = plan_proposal(proposed(), STUCK, node("Unknown"), now_ns=NOW_NS, now=NOW, approval=APPROVAL)
    (write,) = plan.statuses
    (said,) = write.status["conditions"]
    words = "it is being carried out, approved by the override calm of jane"
    assert (write.status["phase"], said["message"], plan.considered) == ("Approved", words, CITED)
    assert write.status["approvedByOverride"] == "calm"
    done = plan_repair(target("Pod", STUCK), STUCK, PROPOSED, APPROVAL)
    assert (done.why, done.considered) == (
        f"RepairProposal {NAME} was approved by the override calm of jane: …",
        CITED,
    )


def test_a_persons_refusal_counts_before_an_override() -> None:
    refused = decided(PROPOSED, approved=False)
    plan = plan_proposal(refused, STUCK, node("Unknown"), now_ns=NOW_NS, now=NOW, approval=APPROVAL)
    assert plan.why == "refused"


# In a cluster.


def made_by_hand(
    name: str, target_: str, *, lasts: str, namespace: str = "default", **changes: object
) -> Obj:
    spec = {
        "target": target_,
        "scope": "cluster",
        "reason": "calm",
        "expiresAfter": lasts,
        "changes": changes,
    }
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def test_a_stranded_pod_is_repaired_when_the_pause_is_over() -> None:
    async def story(world: World) -> None:
        run_managers_and_agents(world, RepairPods)
        await world.apply(NODES, node_object("node-1"))
        gone: Obj = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "pause"}], "nodeName": "node-9"},
        }
        await world.apply(PODS, gone)
        await world.apply(OVERRIDES, made_by_hand("calm", "workload/web", lasts="120s", pauseRepair=True))
        await world.sleep(100)
        assert world.get("pods", Key("default", "web")) is not None, "repair did not wait"
        await world.sleep(60)
        assert world.get("pods", Key("default", "web")) is None, "repair did not go on"

    told(story)


async def held_by_a_finalizer(world: World) -> Obj:
    """A Deployment that does not go, and what repair proposes about it."""
    run_real_cluster(world, nodes=["node-1"], controllers=[HELD_DEPLOYMENTS, RepairProposalsController])
    blocked = deployment("held", 0)
    blocked["metadata"]["finalizers"] = ["example.com/disk"]
    created = await world.apply(DEPLOYMENTS, blocked)
    await world.api.delete(DEPLOYMENTS, "default", "held", uid=created["metadata"]["uid"])
    await world.sleep(700)
    (proposal,) = world.list("repairproposals.fathom.dev")
    return proposal


@pytest.mark.slow
def test_what_a_person_approved_is_carried_out_when_the_pause_is_over() -> None:
    async def story(world: World) -> None:
        proposal = await held_by_a_finalizer(world)
        calm = made_by_hand("calm", "deployment/held", lasts="120s", pauseRepair=True)
        await world.apply(OVERRIDES, calm)
        await world.sleep(1)
        await approve(world, proposal)
        await world.sleep(60)
        assert world.get("deployments.apps", Key("default", "held")) is not None, "repair did not wait"
        (waits,) = world.list("repairproposals.fathom.dev")
        (said,) = waits["status"]["conditions"]
        assert said["message"] == "it is approved, and repair is paused by the override calm"
        await world.sleep(90)
        assert world.get("deployments.apps", Key("default", "held")) is None, "repair did not go on"

    told(story)


@pytest.mark.slow
def test_repair_does_what_an_override_approves() -> None:
    async def story(world: World) -> None:
        proposal = await held_by_a_finalizer(world)
        name = proposal["metadata"]["name"]
        other = made_by_hand("other", "workload/other", lasts="1h", approveRepairs=[name])
        await world.apply(OVERRIDES, other)
        await world.sleep(60)
        assert world.get("deployments.apps", Key("default", "held")) is not None, "it is not about the target"
        mine = made_by_hand("go", "deployment/held", lasts="1h", approveRepairs=[name])
        await world.apply(OVERRIDES, mine)
        await world.sleep(60)
        assert world.get("deployments.apps", Key("default", "held")) is None
        (proposal,) = world.list("repairproposals.fathom.dev")
        status = proposal["status"]
        assert status["phase"] == "Done"
        assert (status["approver"], status["approvedByOverride"], "approved" in status) == (
            "driver",
            "go",
            False,
        )
        assert status["approvedAt"] >= proposal["metadata"]["creationTimestamp"]

    told(story)


@pytest.mark.slow
def test_an_override_that_ends_first_is_no_approver() -> None:
    async def story(world: World) -> None:
        proposal = await held_by_a_finalizer(world)
        calm = made_by_hand("calm", "deployment/held", lasts="1h", pauseRepair=True)
        await world.apply(OVERRIDES, calm)
        await world.sleep(1)
        name = proposal["metadata"]["name"]
        go = made_by_hand("go", "deployment/held", lasts="60s", approveRepairs=[name])
        await world.apply(OVERRIDES, go)
        await world.sleep(30)
        (waits,) = world.list("repairproposals.fathom.dev")
        assert (waits["status"]["phase"], waits["status"].get("approver")) == ("Approved", "driver")
        await world.sleep(120)
        (waits,) = world.list("repairproposals.fathom.dev")
        assert waits["status"]["phase"] == "Proposed"
        assert not {"approver", "approvedAt", "approvedByOverride"} & set(waits["status"])

    told(story)


def test_a_new_leader_acts_only_by_a_view_as_new_as_its_term() -> None:
    """The one before may have acknowledged an override that the new one has not seen."""
    floor = AtLeast({"SchedulerOverride": 7})
    acts = plan_pod(pod(), None, node_is_gone=True, now_ns=NOW_NS, now=NOW)
    assert acts.deletes
    assert held(acts, None, needs=(floor,)).needs == (*acts.needs, floor)
    assert held(Plan(why="nothing to do"), None, needs=(floor,)).needs == ()
