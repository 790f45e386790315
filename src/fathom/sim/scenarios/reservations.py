"""Pods that ask for capacity before they are bound: each claim is held once, and given back in the end."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.objects import Obj, key_of, lookup
from fathom.sim.checkers import at_home
from fathom.sim.checkers.workloads import (
    BoundOnlyWithCapacity,
    ChildrenWithinBounds,
    NoOrphanedReservations,
    OnePodPerSlot,
)
from fathom.sim.invariants import Checker
from fathom.sim.menu import Menu
from fathom.sim.running import run_controllers
from fathom.sim.scenario import Scenario, scenario
from fathom.sim.scenarios.objects import NODES, node, reserving
from fathom.sim.scenarios.replicas import keep_changing, look_at_the_end
from fathom.sim.scenarios.staff import AGENT, MANAGERS, UNREST, all_but, come_to_rest, employ
from fathom.sim.standins.agent import Weather
from fathom.sim.standins.repair import Repair
from fathom.sim.standins.replicator import Replicator
from fathom.sim.standins.reserver import INTENT, Reserver
from fathom.sim.world import World

REPAIR = "repair"
WORKLOADS = ("web", "api")
KINDS = ("/pods", "/reservations", "/replicasets")


def checkers() -> Sequence[Checker]:
    capacity = [BoundOnlyWithCapacity(INTENT), NoOrphanedReservations()]
    return [*at_home(), *capacity, ChildrenWithinBounds(), OnePodPerSlot()]


@scenario(
    Menu(processes=(*MANAGERS, REPAIR, AGENT), kinds=KINDS, happenings=UNREST, seconds=11, most=8),
    checkers=checkers,
    scale=15,
)
async def reservations(world: World) -> None:
    """Replicas reserve before they are bound, while they are scaled, rolled and shot at."""
    await _told(world, employ(world, Replicator, Reserver, kinds=KINDS))


@scenario(
    Menu(
        processes=(*MANAGERS, REPAIR, AGENT),
        servers=("api-1", "api-2"),
        kinds=KINDS,
        happenings=("move", *UNREST),
        seconds=11,
        most=8,
    ),
    servers=2,
    checkers=checkers,
    scale=15,
)
async def reservations_behind_two_servers(world: World) -> None:
    """The same behind two API servers, of which one may be far behind."""
    await _told(world, employ(world, Replicator, Reserver, kinds=KINDS, servers=2))


@scenario(
    Menu(
        processes=(*MANAGERS, REPAIR),
        kinds=("/reservations", "/pods"),
        happenings=("handover",),
        seconds=11,
        most=5,
        without=all_but("happening", "hold-watch", "lose-reply"),
    ),
    checkers=checkers,
    scale=15,
)
async def reservations_handed_over(world: World) -> None:
    """The same, while leaders die, and those who follow them have not heard of what is reserved."""
    await _told(world, employ(world, Replicator, Reserver, kinds=("/reservations",)))


async def _told(world: World, weather: Weather) -> None:
    run_controllers(world, REPAIR, Repair)  # Apart: what it has heard differs from what the reserver has.
    for number in (1, 2, 3):
        await world.apply(NODES, node(f"node-{number}"))
    await keep_changing(world, WORKLOADS, reserving)
    await come_to_rest(world, weather)
    for name in WORKLOADS:
        await look_at_the_end(world, name)
    idle = [key_of(pod).name for pod in world.list("pods") if not is_placed(pod)]
    assert not idle, f"{idle} wait, though there is room"


def is_placed(pod: Obj) -> bool:
    return bool(lookup(pod, "spec", "nodeName"))


SCENARIOS: tuple[Scenario, ...] = (
    reservations,
    reservations_behind_two_servers,
    reservations_handed_over,
)
