"""Nodes that send heartbeats but start no pods: they lose trust, one of them is quarantined, and it is
forgiven when nothing fails on it any more."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.model.resources import DEPLOYMENTS, PODS
from fathom.model.resources import NODES as NODE_KIND
from fathom.model.trust import ANNOTATION
from fathom.sim.scenarios.real import (
    DECIDERS,
    NODES,
    ZONES,
    deployment,
    run_real_cluster,
    standard,
    until_ready,
)
from fathom.sim.scenarios.staff import run_agent
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

SOUND, GRAY = NODES[:3], NODES[3:]
REPLICAS = 15
TAINT, SAID = "fathom.dev/quarantine", "fathom.dev/Quarantined"
# A tenth of the nodes, and at least one.
MOST = 1


class FewAreQuarantined(Checker):
    """When many nodes seem to fail, the cause is rather something that they share. A node that starts its
    pods is never quarantined."""

    name = "few nodes are quarantined, and only bad ones"
    resources = frozenset({"nodes"})

    def __init__(self) -> None:
        self._quarantined: set[str] = set()

    def commit(self, change: Seen) -> Found:
        name = change.key.name
        if change.new is None or not _is_quarantined(change.new):
            self._quarantined.discard(name)
            return None
        self._quarantined.add(name)
        if name in SOUND:
            return f"{change.by} quarantined {name}, where every pod starts"
        many = len(self._quarantined) > MOST
        return f"{', '.join(sorted(self._quarantined))} are quarantined at once" if many else None


def _is_quarantined(node: Obj) -> bool:
    return any(taint.get("key") == TAINT for taint in lookup(node, "spec", "taints") or ())


def checkers() -> Sequence[Checker]:
    return [*standard(), FewAreQuarantined()]


@scenario(
    Menu(processes=DECIDERS, kinds=("/pods", "/nodes"), seconds=40, most=6, without=("skew",)),
    checkers=checkers,
)
async def gray_nodes(world: World) -> None:
    """Pods fail to start on two of five nodes: one node is quarantined, with its reason, and no node is
    blamed for a workload that fails everywhere. Deleted pods start elsewhere, and the node is forgiven when a
    person resets its trust."""
    run_real_cluster(world, nodes=SOUND)
    for index, name in enumerate(GRAY):
        run_agent(world, name, zone=ZONES[index], script={"fail": "start"})
    await world.sleep(5)
    await world.apply(
        DEPLOYMENTS, deployment("bad", REPLICAS, notes={"fathom.dev/simulated": '{"fail": "start"}'})
    )
    await world.apply(DEPLOYMENTS, deployment("web", REPLICAS))
    await world.sleep(40)
    world.heal()
    await _until_one_is_quarantined(world)
    (aside,) = _quarantined(world)
    await world.until(
        lambda: _quarantine_condition(world, aside) == ("True", "StartsFail"),
        within_s=60,
        what=f"the conditions of {aside} say StartsFail",
    )
    await _delete_pods_on_gray_nodes(world)
    await until_ready(world, "web", REPLICAS, within_s=600)
    for name in GRAY:
        await world.apply(NODE_KIND, {"metadata": {"name": name, "annotations": {ANNOTATION: None}}})
    await world.until(
        lambda: _quarantine_condition(world, aside) == ("False", "Forgiven"),
        within_s=60,
        what=f"{aside} is forgiven",
    )


async def _until_one_is_quarantined(world: World) -> None:
    """Pods that were created late avoid the gray nodes, and then too few fail there: a workload that must be
    spread over all nodes follows."""
    for _ in range(60):
        if _quarantined(world):
            return
        await world.sleep(1)
    await world.apply(DEPLOYMENTS, _spread("wide", REPLICAS))
    await world.until(lambda: bool(_quarantined(world)), within_s=300, what="a gray node is quarantined")
    await world.delete(DEPLOYMENTS, "wide")


def _spread(name: str, replicas: int) -> Obj:
    """As many pods on each node."""
    spread = deployment(name, replicas)
    spread["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": name}},
        }
    ]
    return spread


def _quarantined(world: World) -> list[str]:
    return [key_of(node).name for node in world.list("nodes") if _is_quarantined(node)]


def _quarantine_condition(world: World, name: str) -> tuple[str, str]:
    condition = find_condition(conditions_of(world.get("nodes", Key("", name)) or {}), SAID) or {}
    return str(condition.get("status")), str(condition.get("reason"))


async def _delete_pods_on_gray_nodes(world: World) -> None:
    """A person deletes all pods on the gray nodes until none is left there: the scheduler chooses gray nodes
    last."""
    for _ in range(40):
        stuck = [pod for pod in world.list("pods", "default") if lookup(pod, "spec", "nodeName") in GRAY]
        if not stuck:
            return
        for pod in stuck:
            await world.api.delete(PODS, *key_of(pod), uid=uid_of(pod))
        await world.sleep(15)


SCENARIOS: tuple[Scenario, ...] = (gray_nodes,)
