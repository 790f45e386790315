"""Controllers have to list again while they write: what they have just created is newer than the list."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.resources import REPLICA_SETS
from fathom.seams.streams import Streams
from fathom.sim.checkers import at_home
from fathom.sim.checkers.workloads import ChildrenWithinBounds, OnePodPerSlot
from fathom.sim.scenarios.objects import replica_set
from fathom.sim.scenarios.replicas import look_at_the_end, shoot_one
from fathom.sim.scenarios.staff import MANAGERS, come_to_rest, run_managers_and_agents
from fathom.sim.world.fault_menu import Menu, draw
from fathom.sim.world.faults import AnyFault, SlowReply
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

KINDS = ("/pods", "/replicasets")
WORKLOADS = ("web", "api")
OF_PODS = "GET /api/v1/pods?"
MENU = Menu(processes=MANAGERS, kinds=KINDS, seconds=30, most=3)


def checkers() -> Sequence[Checker]:
    return [*at_home(), ChildrenWithinBounds(), OnePodPerSlot()]


def slow_lists(seed: str) -> Sequence[AnyFault]:
    """The answers to lists of pods come late, again and again; and some of the usual faults."""
    rng = Streams(seed).stream("lists")
    slow = [
        SlowReply(at_s=3.0 * turn, target=name, match=OF_PODS, delay_s=0.2 + 2 * rng.random(), times=2)
        for turn in range(12)
        for name in MANAGERS
    ]
    return sorted([*slow, *draw(rng, MENU)], key=lambda fault: fault.at_s)


@scenario(MENU, faults_of=slow_lists, checkers=checkers, scale=6)
async def listed_while_it_writes(world: World) -> None:
    """What controllers missed is compacted, so that they list pods again; the list comes late, while they
    create and delete pods: none of these leaves their caches because an older list lacks it."""
    troubles = run_managers_and_agents(world, ReplicaSets, kinds=KINDS)
    for name in WORKLOADS:
        await world.apply(REPLICA_SETS, replica_set(name, 2))
    await world.sleep(2)
    for _ in range(world.scale):
        await _fall_behind(world)
        for _ in range(4):
            await world.sleep(0.6 * world.rng.random())
            await _change(world)
    await come_to_rest(world, troubles)
    for name in WORKLOADS:
        await look_at_the_end(world, name)


async def _fall_behind(world: World) -> None:
    """Managers hear nothing of pods, and what they miss is compacted: in the store, and in the server, which
    starts anew."""
    for name in MANAGERS:
        world.engine.network.drop_watches(name, "/pods")
    async with world.held("/pods?watch=true"):
        await _change(world)
        await world.sleep(1)
        world.engine.store.compact_now()
        world.crash("api-1", restart_after_s=0.1)
        await world.sleep(0.5)


async def _change(world: World) -> None:
    name = world.rng.choice(WORKLOADS)
    if world.rng.random() < 0.3:
        await shoot_one(world, name)
    else:
        await world.apply(REPLICA_SETS, replica_set(name, world.rng.randrange(1, 6)))


SCENARIOS: tuple[Scenario, ...] = (listed_while_it_writes,)
