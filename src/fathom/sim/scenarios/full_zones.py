"""Zones full of lesser pods, and pods of higher priority that keep away from each other's zones: where one of
them is, no pod leaves for another."""

from __future__ import annotations

import copy

from fathom.controllers.repair.controller import RepairReservations
from fathom.model.objects import Obj, is_deleting, key_of, lookup
from fathom.model.resources import NODES, PODS
from fathom.model.well_known import ZONE_LABEL
from fathom.sim.scenarios.preempting import REPAIR
from fathom.sim.scenarios.scheduling import CLASSES, LEASE, SCHEDULERS, checkers, node, pod, run_scheduler
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, QUIET_S, TIMING, all_but
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

PRIORITIES = {"high": 1000, "middle": 500, "low": -10}
GRACES_S = (0, 2, 6)  # Victims use all of it.
SEVERAL = ("several", "single")  # Templates of the pods that come: most are of the first one.


@scenario(
    Menu(
        processes=(*SCHEDULERS, AGENT),
        kinds=("/pods", "/reservations", "bindingbatches"),
        seconds=30,
        most=4,
        without=all_but("crash", "hold-watch", "drop-watch", "slow-request", "lose-reply", "pause"),
    ),
    checkers=checkers,
    scale=9,
)
async def zones_full_of_lesser_pods(world: World) -> None:
    """Pods of one template, one to a zone, or evenly over zones, preempt lesser pods one after the other,
    while victims of the one before are still leaving, and some pods go by themselves: nobody is evicted on a
    node where the pod has no place afterwards, and those for which no zone is left wait."""
    for name in SCHEDULERS:
        run_scheduler(world, name, lease=LEASE, timing=TIMING)
    run_controllers(world, AGENT, SimulatedNodes)
    run_controllers(world, REPAIR, RepairReservations)
    for name, value in PRIORITIES.items():
        await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": name}, "value": value})
    await _fill_zones(world)
    templates = {app: _template(world, app) for app in SEVERAL}
    for number in range(world.scale):
        app = SEVERAL[world.rng.random() < 0.15]
        obj = copy.deepcopy(templates[app])
        obj["metadata"]["name"] = f"{app}-{number}"
        await world.apply(PODS, obj)
        await world.sleep(world.rng.choice((0.2, 4, 8)))
        if world.rng.random() < 0.2:
            await _delete_one(world)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


async def _fill_zones(world: World) -> None:
    """Some zones have more harmful victims than others, so that it matters which are tried."""
    rng = world.rng
    for zone in range(rng.choice((2, 3))):
        for number in range(rng.choice((2, 3))):
            name = f"node-{zone}-{number}"
            await world.apply(NODES, node(name, zone=f"zone-{zone}"))
            for letter in "ab":
                obj = pod(f"old-{zone}-{number}-{letter}", cpu="2", labels={"app": "old"})
                obj["spec"] |= {"nodeName": name, "terminationGracePeriodSeconds": rng.choice(GRACES_S)}
                if rng.random() < 0.5:
                    obj["spec"]["priorityClassName"] = rng.choice(("middle", "low"))
                await world.apply(PODS, obj)
        await world.sleep(1.2 * rng.random())  # Start times are recorded in whole seconds.


def _template(world: World, app: str) -> Obj:
    obj = pod(app, cpu=world.rng.choice(("1", "2", "3")), labels={"app": app}, high=True)
    chosen = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE_LABEL}
    if world.rng.random() < 0.7:
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [chosen]}
        obj["spec"]["affinity"] = {"podAntiAffinity": rule}
    else:
        spread = {**chosen, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        obj["spec"]["topologySpreadConstraints"] = [spread]
    return obj


async def _delete_one(world: World) -> None:
    """An old one, or one of those that have come: its zone is free again."""
    pods = [each for each in world.list("pods") if lookup(each, "spec", "nodeName") and not is_deleting(each)]
    if pods:
        await world.delete(PODS, key_of(world.rng.choice(pods)).name)


SCENARIOS: tuple[Scenario, ...] = (zones_full_of_lesser_pods,)
