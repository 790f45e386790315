"""A crash after any single write: the seed says of which process, and after which write. Seeds 0, 1, 2, … go
through all of them."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.endpoints.controller import EndpointSlices, EndpointsOfServices
from fathom.controllers.job.controller import Jobs
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.resources import JOBS, NAMESPACES, NODES, REPLICA_SETS, SERVICES
from fathom.sim.checkers import at_home
from fathom.sim.checkers.final_state import (
    WhenSettled,
    claims_that_stay,
    claims_without_disk,
    leaked_disks,
    unfinished_jobs,
    untrue_endpoints,
)
from fathom.sim.checkers.workloads import (
    ChildrenWithinBounds,
    CountedOnce,
    OnePodPerSlot,
)
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.claims import claim
from fathom.sim.scenarios.disk_controller import CLOUD, Cleanup
from fathom.sim.scenarios.jobs import job
from fathom.sim.scenarios.objects import node, replica_set
from fathom.sim.scenarios.replicas import look_at_the_end
from fathom.sim.scenarios.serving import service
from fathom.sim.scenarios.staff import AGENT, MANAGERS, come_to_rest, run_managers_and_agents
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, CrashAtWrite
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

# The second manager writes only after the first one has crashed.
VICTIMS = (MANAGERS[0], AGENT, "api-1")


def nth_write(seed: str) -> Sequence[AnyFault]:
    number = int(seed) if seed.isdigit() else 0
    victim = VICTIMS[number % len(VICTIMS)]
    return (CrashAtWrite(at_s=0.0, target=victim, times=1 + number // len(VICTIMS), for_s=1.0),)


def checkers() -> Sequence[Checker]:
    return [
        *at_home(),
        ChildrenWithinBounds(),
        OnePodPerSlot(),
        CountedOnce(),
        WhenSettled("every Job ends", unfinished_jobs),
        WhenSettled("endpoints converge", untrue_endpoints),
        WhenSettled("nothing leaked when settled", leaked_disks),
        WhenSettled("converges after a crash at any write", claims_without_disk),
        WhenSettled("deleted claims go away", claims_that_stay),
    ]


@scenario(
    Menu(processes=(*MANAGERS, AGENT), kinds=("/pods", "/jobs", "/secrets")),
    faults_of=nth_write,
    checkers=checkers,
)
async def crash_after_any_write(world: World) -> None:
    """A workload is created, scaled and served, a Job runs, claims come and go. The controllers, the agent or
    the API server crash after one of their writes (the seed says which): in the end everything is as
    specified."""
    troubles = run_managers_and_agents(world, ReplicaSets, Jobs, EndpointSlices, EndpointsOfServices, Cleanup)
    await world.apply(NAMESPACES, {"metadata": {"name": CLOUD}})
    for number in (1, 2, 3):
        await world.apply(NODES, node(f"node-{number}"))
    await world.apply(SERVICES, service("web"))
    await world.apply(REPLICA_SETS, replica_set("web", 2))
    for name in ("data", "more-data"):
        await world.apply(CONFIG_MAPS, claim(name))
    await world.apply(JOBS, job("once", completions=2, parallelism=1, runs_s=1.0))
    await world.sleep(4)
    await world.apply(REPLICA_SETS, replica_set("web", 3))
    await world.sleep(4)
    await world.delete(CONFIG_MAPS, "data")
    await world.apply(REPLICA_SETS, replica_set("web", 1))
    await world.sleep(4)
    await come_to_rest(world, troubles)
    await look_at_the_end(world, "web")


SCENARIOS: tuple[Scenario, ...] = (crash_after_any_write,)
