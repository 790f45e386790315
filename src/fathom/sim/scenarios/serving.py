"""Services whose endpoints are the ready pods."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.endpoints.controller import EndpointSlices, EndpointsOfServices
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Obj
from fathom.model.resources import SERVICES
from fathom.sim.checkers import at_home
from fathom.sim.checkers.final_state import WhenSettled, untrue_endpoints
from fathom.sim.checkers.workloads import ChildrenWithinBounds
from fathom.sim.scenarios.replicas import keep_changing
from fathom.sim.scenarios.shared_agent import NodeTroubles
from fathom.sim.scenarios.staff import AGENT, MANAGERS, UNREST, all_but, come_to_rest, run_managers_and_agents
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

WORKLOADS = ("web", "api")
QUIETER_S = 12.0  # Faults go on for a while after the last change: no later change repairs what they break.
KINDS = ("/pods", "/endpoints", "/endpointslices")


def service(name: str) -> Obj:
    return {"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}}


def checkers() -> Sequence[Checker]:
    converge = WhenSettled("endpoints converge", untrue_endpoints)
    return [*at_home(), ChildrenWithinBounds(), converge]


@scenario(
    Menu(processes=(*MANAGERS, AGENT), kinds=KINDS, happenings=UNREST, seconds=20, most=8),
    checkers=checkers,
    scale=15,
)
async def endpoints(world: World) -> None:
    """Pods of ReplicaSets come, go and fail their probes: in the end endpoints are exactly the ready pods."""
    await _change_workloads(
        world, run_managers_and_agents(world, ReplicaSets, EndpointSlices, EndpointsOfServices, kinds=KINDS)
    )


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=KINDS,
        happenings=("handover", "blink"),
        seconds=20,
        most=6,
        without=all_but("hold-watch", "happening"),
    ),
    checkers=checkers,
    scale=15,
)
async def endpoints_seen_late(world: World) -> None:
    """Pods of ReplicaSets come and go while managers receive events of one kind late and of another at once,
    and leaders change: in the end endpoints are exactly the ready pods."""
    await _change_workloads(
        world, run_managers_and_agents(world, ReplicaSets, EndpointSlices, EndpointsOfServices, kinds=KINDS)
    )


async def _change_workloads(world: World, troubles: NodeTroubles) -> None:
    for name in WORKLOADS:
        await world.apply(SERVICES, service(name))
    await keep_changing(world, WORKLOADS)
    await world.sleep(QUIETER_S)
    await come_to_rest(world, troubles)


SCENARIOS: tuple[Scenario, ...] = (endpoints, endpoints_seen_late)
