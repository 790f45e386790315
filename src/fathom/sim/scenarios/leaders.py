"""Several candidates for a lease, while clocks are wrong, processes pause and leases are lost."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.resources import REPLICA_SETS
from fathom.sim.checkers import at_home
from fathom.sim.checkers.workloads import ChildrenWithinBounds, OnePodPerSlot
from fathom.sim.scenarios.objects import replica_set
from fathom.sim.scenarios.replicas import keep_changing, look_at_the_end
from fathom.sim.scenarios.staff import MANAGERS, OF_PROCESSES, all_but, come_to_rest, run_managers_and_agents
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, HoldWatch, Pause, SlowRequest, StaleServer
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

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
    """Leaders stop, pause, are cut off and lose their lease: none of them writes in another's term."""
    troubles = run_managers_and_agents(world, ReplicaSets, servers=2)
    await keep_changing(world, WORKLOADS)
    await come_to_rest(world, troubles)
    for name in WORKLOADS:
        await look_at_the_end(world, name)


# A leader's request arrives long after its term, at a server that has not heard of the next term.
LATE: tuple[AnyFault, ...] = (
    SlowRequest(at_s=5.0, target=MANAGERS[0], match="POST /api/v1/namespaces/default/pods", delay_s=9.0),
    HoldWatch(
        at_s=4.9, target=MANAGERS[1], match="/replicasets", for_s=12.0
    ),  # So it has not created the pods already.
    StaleServer(at_s=5.2, target="api-1", for_s=14.0),
    Pause(at_s=5.3, target=MANAGERS[0], for_s=20.0),
)


@scenario(Menu(processes=MANAGERS), servers=2, scripted=LATE, checkers=checkers)
async def written_late_to_a_stale_server(world: World) -> None:
    """A leader's write arrives after its term, at an API server that has not heard of the next term: the
    store refuses it."""
    troubles = run_managers_and_agents(world, ReplicaSets, servers=2)
    await world.sleep(0.01)
    world.pause(MANAGERS[1], 3.0)  # The other one leads.
    await world.sleep(5.05 - world.now_s)
    await world.apply(REPLICA_SETS, replica_set("web", 2))
    await world.sleep(25)
    await come_to_rest(world, troubles)


SCENARIOS: tuple[Scenario, ...] = (leaders, written_late_to_a_stale_server)
