"""Overrides drain nodes that have all replicas of workloads without disruption budgets: one of each stays
until another is ready elsewhere."""

from __future__ import annotations

from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import labels_of, lookup
from fathom.model.resources import DEPLOYMENTS, NODES
from fathom.sim.scenarios.staff import QUIET_S
from fathom.sim.scenarios.steering import (
    KINDS,
    OVERRIDES,
    PROCESSES,
    checkers,
    end_override,
    in_zone,
    override,
    ready_pods,
    run_cluster,
    workload,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

SIZES = {"single": 1, "pair": 2, "many": 4}
OLD, NEW = "node-old", "node-new"


@scenario(Menu(processes=PROCESSES, kinds=KINDS, seconds=60, most=4), checkers=checkers)
async def drained_by_an_override(world: World) -> None:
    """All replicas are on one node, which an override drains, while there is no room elsewhere, or little, or
    enough: the last ready one of each stays until another is ready, and when there is room all move but that
    of the workload that has one replica."""
    run_cluster(world)
    await world.apply(NODES, in_zone(OLD, "a", cpu="16"))
    for name, replicas in SIZES.items():
        await world.apply(DEPLOYMENTS, workload(name, replicas))
    await world.until(lambda: _ready(world) == SIZES, within_s=60, what="all replicas are ready")
    await world.apply(NODES, in_zone(NEW, "b", cpu=world.rng.choice(("0", "1", "2", "16"))))
    target = world.rng.choice(("zone/a", f"node/{OLD}"))
    drain = override("drain", {"drain": True}, target=target, lasts="1h")
    await world.apply(OVERRIDES, drain, SYSTEM_NAMESPACE)
    await world.sleep(30 + 30 * world.rng.random())
    await world.apply(NODES, in_zone("node-more", "b", cpu="16"))
    world.heal()
    await world.until(lambda: _apps_on(world, OLD) == {"single"}, within_s=300, what="the node is drained")
    await world.until(lambda: _ready(world) == SIZES, within_s=120, what="all replicas are ready again")
    await end_override(world, "drain", SYSTEM_NAMESPACE)
    await world.settle(quiet_s=QUIET_S, within_s=900)


def _ready(world: World) -> dict[str, int]:
    return {name: len(ready_pods(world, name)) for name in SIZES}


def _apps_on(world: World, node: str) -> set[str]:
    pods = [pod for pod in world.list("pods", "default") if lookup(pod, "spec", "nodeName") == node]
    return {str(labels_of(pod).get("app")) for pod in pods}


SCENARIOS: tuple[Scenario, ...] = (drained_by_an_override,)
