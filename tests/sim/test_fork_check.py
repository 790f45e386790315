"""What `why` proposes for a waiting pod, made in a fork, admits it."""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.client.api import Resource, own_resource
from fathom.kinds import tenant_quota
from fathom.model.objects import Key, Obj
from fathom.schedule.decide.remedy import Remedy
from fathom.sim.fork_check import CheckedProposal, check_proposal, check_proposals, proposed, unmet
from fathom.sim.fork_state import state_of_world
from fathom.sim.scenarios.real import employ_cluster
from fathom.sim.world.engine import Engine
from fathom.sim.world.signing_key import world_key
from fathom.sim.world.world import World

PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
QUOTAS = own_resource(tenant_quota.DEFINITION)
EVERY_NODE = tuple(f"node-{number}" for number in range(1, 6))


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
    employ_cluster(world, spare=False)
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
    rules = {proposal.rule for proposal in checked if proposal.made}
    assert {
        "NodeResourcesFit",
        "NodeAffinity",
        "TaintToleration",
        "NodeUnschedulable",
        "NodePorts",
        "TenantQuota",
    } <= rules


def test_a_proposal_that_does_not_help_is_found() -> None:
    world = settled()
    huge = world.get("pods", Key("default", "huge"))
    assert huge is not None
    remedy = proposed(world, huge)
    assert isinstance(remedy, Remedy)
    too_little = msgspec.structs.replace(
        remedy, short=tuple((resource, wanted, wanted - 1) for resource, wanted, _ in remedy.short)
    )
    checked = check_proposal(state_of_world(world), Key("default", "huge"), too_little)
    world.engine.end()
    assert unmet([checked]) == [
        CheckedProposal("default/huge", remedy.rule, remedy.change, made=True, bound=False)
    ]
