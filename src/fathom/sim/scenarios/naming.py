"""Pods that name their node when they are created, beside schedulers that bind other pods to the same
nodes."""

from __future__ import annotations

import asyncio

from fathom.client.outcomes import Rejected
from fathom.controllers.repair.controller import RepairReservations
from fathom.model.objects import Obj
from fathom.model.resources import NODES, PODS, RESOURCE_QUOTAS
from fathom.model.times import SECOND_NS, timestamp
from fathom.sim.scenarios.failures import RESERVATIONS
from fathom.sim.scenarios.scheduling import (
    CLASSES,
    KINDS,
    NODE_COUNT,
    QUOTAS,
    SCHEDULERS,
    checkers,
    delete_some,
    node,
    own,
    pod,
    quota,
    run_scheduler,
)
from fathom.sim.scenarios.shared_agent import SharedAgent
from fathom.sim.scenarios.staff import AGENT, QUIET_S
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.process import EPOCH_NS
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

FORBIDDEN = 403
HIGH = 0.3  # The share of waiting pods that may preempt; their reservations are not charged again.


@scenario(
    Menu(processes=(*SCHEDULERS, AGENT), servers=("api-1", "api-2"), kinds=KINDS, seconds=25, most=8),
    servers=2,
    checkers=checkers,
    scale=30,
)
async def pods_name_their_nodes(world: World) -> None:
    """Pods are created with a node while two schedulers fill the same nodes: no node and no quota exceeds its
    limit, and in the end no pod waits while there is a place for it."""
    for number, name in enumerate(SCHEDULERS, start=1):
        run_scheduler(world, name, server=number)
    run_controllers(world, AGENT, SharedAgent)
    run_controllers(world, "repair", RepairReservations)
    await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    hard = {"requests.cpu": "30", "pods": "40"}
    await world.apply(RESOURCE_QUOTAS, {"metadata": {"name": "all"}, "spec": {"hard": hard}})
    for number in range(1, NODE_COUNT + 1):
        await world.apply(NODES, node(f"node-{number}", zone=f"zone-{number % 2}"))
    await world.apply(QUOTAS, quota("default", cpu="10"))
    for number in range(world.scale):
        await world.sleep(1.2 * world.rng.random())
        await _change(world, number)
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _change(world: World, number: int) -> None:
    action = world.rng.choice(("named", "named", "both", "both", "delete", "delete", "reserve"))
    if action == "delete":
        await delete_some(world)
        return
    if action == "reserve":
        await world.api.create(RESERVATIONS, "default", _reservation(world, f"r-{number}"))
        return
    pods = [_pod_with_node(world, f"n-{number}-{index}") for index in range(2)]
    if action == "both":
        pods += [
            pod(f"b-{number}-{index}", cpu=world.rng.choice(("2", "3")), high=world.rng.random() < HIGH)
            for index in range(2)
        ]
    await asyncio.gather(*(_create(world, obj) for obj in pods))


def _pod_with_node(world: World, name: str) -> Obj:
    obj = pod(name, cpu=world.rng.choice(("1", "2", "3")))
    obj["spec"]["nodeName"] = f"node-{world.rng.randrange(1, NODE_COUNT + 1)}"
    return obj


def _reservation(world: World, name: str) -> Obj:
    """A reservation that a person makes: there is no pod yet, and the namespace's quota is charged for it."""
    spec = {
        "workload": {"name": name, "uid": name},
        "intent": "hold",
        "nodeName": f"node-{world.rng.randrange(1, NODE_COUNT + 1)}",
        "resources": {"cpu": world.rng.choice(("1", "2"))},
        "expiresAt": timestamp(EPOCH_NS + world.engine.now_ns + 5 * SECOND_NS),
    }
    return own("Reservation", name, spec)


async def _create(world: World, obj: Obj) -> None:
    """Create the pod, once: if it is refused it does not exist, if the outcome is unknown it may."""
    outcome = await world.api.create(PODS, "default", obj)
    if isinstance(outcome, Rejected) and outcome.code != FORBIDDEN:
        world.broken("the scenario's own requests are accepted", f"{obj['metadata']['name']}: {outcome}")


SCENARIOS: tuple[Scenario, ...] = (pods_name_their_nodes,)
