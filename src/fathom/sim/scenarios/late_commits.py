"""An API server judges a write, and its commit takes long to reach the store: what was judged has changed by
then, through the other server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fathom.client.api import Api
from fathom.model.objects import Key, is_deleting, key_of, metadata, uid_of
from fathom.model.resources import NAMESPACES, NODES, PODS
from fathom.model.user import MASTERS, User
from fathom.seams.process import Inside
from fathom.seams.streams import Streams
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.scheduling import (
    KINDS,
    NODE_COUNT,
    QUOTAS,
    SCHEDULERS,
    checkers,
    node,
    pod,
    quota,
    run_scheduler,
)
from fathom.sim.scenarios.shared_agent import SharedAgent
from fathom.sim.scenarios.staff import AGENT, QUIET_S
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, SlowCommit
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

FILLER, SPACE = "filler", "space"


class Filler:
    """Creates objects in a namespace, through the server whose commits are late."""

    def __init__(self, inside: Inside) -> None:
        self._api, self._rng = Api(inside.seam), inside.streams.stream("fill")
        inside.domain.create_task(self._run(), name=FILLER)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0.4 * self._rng.random())
            meta = {"generateName": "filled-", "namespace": SPACE}
            await self._api.create(CONFIG_MAPS, SPACE, {"metadata": meta})


def slow_commits(seed: str) -> Sequence[AnyFault]:
    rng = Streams(seed).stream("slow commits")
    return [
        SlowCommit(
            at_s=30 * rng.random(),
            target="api-2",
            for_s=0.5,
            times=4,
            delay_s=round(0.2 + 2 * rng.random(), 3),
        )
        for _ in range(16)
    ]


@scenario(
    Menu(processes=(FILLER, SCHEDULERS[0]), kinds=KINDS),
    faults_of=slow_commits,
    servers=2,
    checkers=checkers,
    scale=40,
)
async def judged_and_then_late(world: World) -> None:
    """Pods are bound and objects created through a server whose commits are late, while nodes are cordoned
    and deleted, quotas lowered and a namespace removed through the other one: nothing is stored that was
    judged by what is no longer so."""
    run_scheduler(world, SCHEDULERS[0], server=2)
    run_controllers(world, AGENT, SharedAgent)
    world.process(FILLER, Filler, server=2, account=User("person", (MASTERS,)))
    for number in range(1, NODE_COUNT + 1):
        await world.apply(NODES, node(f"node-{number}"))
    for number in range(world.scale):
        await world.sleep(world.rng.random())
        await _change(world, number)
    world.kill(FILLER)
    for number in range(1, NODE_COUNT + 1):
        await world.apply(NODES, node(f"node-{number}"))
    await world.apply(QUOTAS, quota("default", cpu="100"))
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _change(world: World, number: int) -> None:
    name = f"node-{world.rng.randrange(1, NODE_COUNT + 1)}"
    await world.apply(PODS, pod(f"p-{number}", cpu="500m"))
    action = world.rng.choice(("cordon", "node", "quota", "space", "space", "delete"))
    if action == "cordon":
        await world.apply(NODES, node(name, cordoned=world.rng.random() < 0.6))
    elif action == "node":
        await _replace_node(world, name)
    elif action == "quota":
        await world.apply(QUOTAS, quota("default", cpu=world.rng.choice(("1", "2", "9"))))
    elif action == "space":
        await _replace_space(world)
    else:
        for obj in world.list("pods", "default")[:3]:
            await world.api.delete(PODS, *key_of(obj), uid=uid_of(obj))


async def _replace_node(world: World, name: str) -> None:
    current = world.get("nodes", Key("", name))
    if current is None:
        await world.apply(NODES, node(name))
    elif not any(obj["spec"].get("nodeName") == name for obj in world.list("pods", "default")):
        await world.api.delete(NODES, "", name, uid=uid_of(current))


async def _replace_space(world: World) -> None:
    current = world.get("namespaces", Key("", SPACE))
    if current is None:
        await world.api.create(NAMESPACES, "", {"metadata": {"name": SPACE}})
    elif not is_deleting(current):
        await world.api.delete(NAMESPACES, "", SPACE, uid=metadata(current)["uid"])


SCENARIOS: tuple[Scenario, ...] = (judged_and_then_late,)
