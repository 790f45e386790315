"""Replicas that preempt others: each room is reserved once, and no reservation is left behind."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.repair.controller import RepairReservations
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Obj, key_of, labels_of, lookup
from fathom.model.resources import NODES, REPLICA_SETS
from fathom.sim.checkers.reservations import WaitedForStaysReserved
from fathom.sim.checkers.workloads import ChildrenWithinBounds, OnePodPerSlot
from fathom.sim.scenarios import preempting
from fathom.sim.scenarios.objects import node, replica_set
from fathom.sim.scenarios.replicas import keep_changing, look_at_the_end
from fathom.sim.scenarios.scheduling import CLASSES, LEASE, SCHEDULERS, run_scheduler
from fathom.sim.scenarios.shared_agent import NodeTroubles
from fathom.sim.scenarios.staff import AGENT, MANAGERS, TIMING, UNREST, all_but, run_managers_and_agents
from fathom.sim.world.controllers import nudge, run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

REPAIR = "repair"
WORKLOADS = ("web", "api")
KINDS = ("/pods", "/reservations", "/replicasets")
DECIDERS = (*MANAGERS, *SCHEDULERS, REPAIR)
FILL_S = 12.0  # Until all nodes are full, even if leaders change meanwhile.


def checkers() -> Sequence[Checker]:
    return [*preempting.checkers(), WaitedForStaysReserved(), ChildrenWithinBounds(), OnePodPerSlot()]


@scenario(
    Menu(processes=(*DECIDERS, AGENT), kinds=KINDS, happenings=UNREST, seconds=25, most=8),
    checkers=checkers,
    scale=15,
)
async def reservations(world: World) -> None:
    """Replicas of high priority reserve the room of their victims while they are scaled and deleted: each
    intent has one reservation, none is left behind, and every replica gets a node."""
    await _scale_urgent_workloads(world, run_managers_and_agents(world, ReplicaSets, kinds=KINDS))


@scenario(
    Menu(
        processes=(*DECIDERS, AGENT),
        servers=("api-1", "api-2"),
        kinds=KINDS,
        happenings=("move", *UNREST),
        seconds=25,
        most=8,
    ),
    servers=2,
    checkers=checkers,
    scale=15,
)
async def reservations_behind_two_servers(world: World) -> None:
    """Replicas of high priority reserve room behind two API servers, of which one may be far behind: each
    intent has one reservation, none is left behind, and every replica gets a node."""
    await _scale_urgent_workloads(
        world, run_managers_and_agents(world, ReplicaSets, kinds=KINDS, servers=2), servers=2
    )


@scenario(
    Menu(
        processes=DECIDERS,
        kinds=("/reservations", "/pods"),
        happenings=("handover",),
        seconds=25,
        most=5,
        without=all_but("happening", "hold-watch", "lose-reply", "crash"),
    ),
    checkers=checkers,
    scale=15,
)
async def reservations_handed_over(world: World) -> None:
    """Replicas of high priority reserve room while leaders crash and their successors have not heard of the
    reservations: each intent has one reservation, none is left behind, and every replica gets a node."""
    await _scale_urgent_workloads(
        world, run_managers_and_agents(world, ReplicaSets, kinds=("/reservations",))
    )


async def _scale_urgent_workloads(world: World, troubles: NodeTroubles, *, servers: int = 1) -> None:
    for index, name in enumerate(SCHEDULERS):
        run_scheduler(world, name, server=1 + index % servers, lease=LEASE, timing=TIMING)
    run_controllers(world, REPAIR, RepairReservations, server=servers)  # Its cache differs from theirs.
    await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    for number in (1, 2, 3):
        await world.apply(NODES, node(f"node-{number}"))
    await world.apply(REPLICA_SETS, _with_cpu_request(replica_set("batch", 6), cpu="2"))
    await world.sleep(FILL_S)
    await keep_changing(world, WORKLOADS, _urgent)
    troubles.clear_up()
    nudge(world, AGENT)
    await world.heal_and_settle(quiet_s=preempting.QUIET_S, within_s=900)
    for name in WORKLOADS:
        await look_at_the_end(world, name)
    urgent = [pod for pod in world.list("pods") if labels_of(pod).get("app") in WORKLOADS]
    idle = [key_of(pod).name for pod in urgent if not lookup(pod, "spec", "nodeName")]
    assert not idle, f"{idle} wait although there is room for them"


def _urgent(name: str, replicas: int) -> Obj:
    workload = _with_cpu_request(replica_set(name, replicas), cpu="1")
    workload["spec"]["template"]["spec"]["priorityClassName"] = "high"
    return workload


def _with_cpu_request(workload: Obj, *, cpu: str) -> Obj:
    """Its pods wait for the scheduler, with this CPU request."""
    spec = workload["spec"]["template"]["spec"]
    del spec["nodeName"]
    spec["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return workload


SCENARIOS: tuple[Scenario, ...] = (
    reservations,
    reservations_behind_two_servers,
    reservations_handed_over,
)
