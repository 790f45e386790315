"""What `why` proposes for a waiting pod, made in a fork, admits it."""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.client.api import Resource, own_resource
from fathom.explain.questions import why
from fathom.kinds import tenant_quota
from fathom.model.objects import Key, Obj
from fathom.sim.checkers.proposals import ProposedChangesHelp
from fathom.sim.fork_check import CheckedProposal, check_answer, check_proposal, check_proposals, unmet
from fathom.sim.fork_state import state_of_world
from fathom.sim.scenarios import scheduling
from fathom.sim.scenarios.real import run_real_cluster
from fathom.sim.scenarios.shared_agent import SharedAgent
from fathom.sim.scenarios.staff import AGENT
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.engine import Engine
from fathom.sim.world.signing_key import world_key
from fathom.sim.world.world import World
from fathom.sim.world_evidence import world_evidence

PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
QUOTAS = own_resource(tenant_quota.DEFINITION)
RULES = (
    "NodeResourcesFit",
    "NodeAffinity",
    "TaintToleration",
    "NodeUnschedulable",
    "NodePorts",
    "TenantQuota",
)


def pod(name: str, *, cpu: str = "100m", namespace: str = "default", **spec: Any) -> Obj:
    container: Obj = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": cpu}}}
    if "ports" in spec:
        container["ports"] = spec.pop("ports")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "one"}},
        "spec": {"containers": [container], **spec},
    }


def spread() -> list[Obj]:
    constraint = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    return [{**constraint, "labelSelector": {"matchLabels": {"app": "one"}}}]


async def waiting(world: World) -> None:
    """A cluster at rest with pods that wait, each for its own reason."""
    run_real_cluster(world, spare=False)
    await world.until(lambda: len(world.list("nodes")) == 5, within_s=60, what="the nodes are registered")
    await world.sleep(5)
    tainted = {"key": "team", "value": "a", "effect": "NoSchedule"}
    await world.api.patch(NODES, "", "node-1", {"spec": {"taints": [tainted]}})
    await world.api.patch(NODES, "", "node-1", {"metadata": {"labels": {"tainted": "yes"}}})
    await world.api.patch(NODES, "", "node-2", {"metadata": {"labels": {"cordoned": "yes"}}})
    await world.api.patch(NODES, "", "node-2", {"spec": {"unschedulable": True}})
    quota = {"limits": [{"resources": {"cpu": "1"}}]}
    meta = {"name": "red"}
    await world.apply(
        QUOTAS, {"apiVersion": "fathom.dev/v1alpha1", "kind": "TenantQuota", "metadata": meta, "spec": quota}
    )
    labels = {"fathom.dev/tenant": "red"}
    await world.apply(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "red", "labels": labels}}
    )
    await world.sleep(2)
    ports = [{"containerPort": 80, "hostPort": 8080}]
    pods = [
        pod("huge", cpu="100"),
        pod("selects", nodeSelector={"disk": "fast"}),
        pod("tolerates-not", nodeSelector={"tainted": "yes"}),
        pod("on-cordoned", nodeSelector={"cordoned": "yes"}),
        pod("over-quota", namespace="red", cpu="1500m"),
        *(pod(f"port-{number}", ports=ports) for number in range(4)),
    ]
    for each in pods:
        await world.apply(PODS, each, namespace=each["metadata"]["namespace"])
    await world.sleep(60)


def settled() -> World:
    engine = Engine("0", signing=world_key())
    world = World(engine)
    world.tell(waiting, deadline_s=900)
    assert engine.violation is None, engine.violation
    return world


def test_the_proposed_change_admits_each_waiting_pod() -> None:
    world = settled()
    checked = check_proposals(world)
    world.engine.end()
    assert unmet(checked) == []
    causes = " ".join(proposal.cause for proposal in checked if proposal.made)
    assert all(rule in causes for rule in RULES), causes


def test_a_proposal_that_does_not_help_is_found() -> None:
    world = settled()
    answer = why(world_evidence(world, "pods", Key("default", "huge")))
    assert answer.change is not None
    assert answer.change.what == "lower cpu of container main to 7900m"
    too_little = msgspec.structs.replace(
        answer.change, command=answer.change.command.replace("7900m", "99"), what="lower it to 99"
    )
    checked = check_answer(state_of_world(world), msgspec.structs.replace(answer, change=too_little))
    world.engine.end()
    assert unmet([checked]) == [
        CheckedProposal("default/huge", answer.cause, "lower it to 99", made=True, bound=False)
    ]


def test_the_checker_makes_the_change_for_every_pod_that_waits_when_the_scenario_ends() -> None:
    checker = ProposedChangesHelp()
    world = World(Engine("0", signing=world_key()), checkers=[checker])

    async def story(world: World) -> None:
        run_real_cluster(world, spare=False)
        await world.until(lambda: len(world.list("nodes")) == 5, within_s=60, what="nodes are registered")
        for number in range(3):  # All three get the same answer: one of them is tried.
            await world.apply(PODS, pod(f"selects-{number}", nodeSelector={"disk": "fast"}))
        await world.apply(PODS, pod("selects-another", nodeSelector={"disk": "slow"}))
        await world.apply(PODS, pod("huge", cpu="100"))
        await world.heal_and_settle()

    world.tell(story, deadline_s=900)
    assert world.engine.violation is None
    assert world.hits["a proposed change is made in a fork"] == 3
    world.engine.end()


# Nodes without agents of their own, as scenarios with one agent for all pods have them.


def checked_small_pod(*, high: bool) -> CheckedProposal:
    """A quota of 2 cpu on a node of 4: `small` lacks quota alone. With more quota `high`, of 3 cpu, could
    evict `old`, and then there is no room for `small`."""

    async def story(world: World) -> None:
        scheduling.run_scheduler(world, "scheduler-1")
        run_controllers(world, AGENT, SharedAgent)
        await world.apply(NODES, scheduling.node("node-1", zone="zone-1"))
        await world.apply(QUOTAS, scheduling.quota("default", cpu="2"))
        await world.apply(
            scheduling.CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
        )
        await world.apply(PODS, scheduling.pod("old", cpu="2"))
        await world.sleep(2)
        await world.apply(PODS, scheduling.pod("small", cpu="2"))
        if high:
            await world.apply(PODS, scheduling.pod("high", cpu="3", high=True))
        await world.sleep(10)

    world = World(Engine("0", signing=world_key()))
    world.tell(story, deadline_s=900)
    checked = check_proposal(world, Key("default", "small"))
    world.engine.end()
    assert checked.change == "raise cpu of quota/default from 2 to 4"
    return checked


def test_a_proposal_is_made_on_nodes_that_no_agent_reports_for() -> None:
    checked = checked_small_pod(high=False)
    assert (checked.made, checked.bound, checked.taken) == (True, True, False)


def test_a_pod_of_higher_priority_that_preempts_with_the_raised_quota_has_taken_the_room() -> None:
    """The pod that it evicts has to end in the fork, or it would hold the node for ever."""
    checked = checked_small_pod(high=True)
    assert (checked.made, checked.bound, checked.taken) == (True, False, True)
    assert unmet([checked]) == []
