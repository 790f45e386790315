"""Several who could lead, while clocks are wrong, processes stand still and leases are lost."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.sim.checkers import at_home
from fathom.sim.checkers.workloads import ChildrenWithinBounds, OnePodPerSlot
from fathom.sim.invariants import Checker
from fathom.sim.menu import Menu
from fathom.sim.scenario import Scenario, scenario
from fathom.sim.scenarios.objects import replica_set
from fathom.sim.scenarios.replicas import keep_changing, look_at_the_end
from fathom.sim.scenarios.staff import MANAGERS, OF_PROCESSES, all_but, come_to_rest, employ
from fathom.sim.standins.replicator import Replicator
from fathom.sim.world import World

WORKLOADS = ("web", "api")


def checkers() -> Sequence[Checker]:
    return [*at_home(), ChildrenWithinBounds(), OnePodPerSlot()]


@scenario(
    Menu(
        processes=MANAGERS,
        servers=("api-1", "api-2"),
        kinds=("/leases", "/pods", "/replicasets"),
        happenings=("lose-lease", "move"),
        seconds=14,
        most=8,
        without=all_but(*OF_PROCESSES, "happening", "slow-reply", "stale-server"),
    ),
    servers=2,
    checkers=checkers,
    scale=20,
)
async def leaders(world: World) -> None:
    """Leaders stop, stand still, are cut off and robbed of their lease: nobody writes in another's term."""
    weather = employ(world, Replicator, servers=2)
    await keep_changing(world, WORKLOADS, replica_set)
    await come_to_rest(world, weather)
    for name in WORKLOADS:
        await look_at_the_end(world, name)


SCENARIOS: tuple[Scenario, ...] = (leaders,)
