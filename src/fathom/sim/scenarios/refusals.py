"""The API server refuses writes of the managers, every few of them or some for long, for no visible reason:
every controller retries what was refused, though no event wakes it."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.budget.controller import DisruptionBudgets
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.endpoints.controller import EndpointSlices, EndpointsOfServices
from fathom.controllers.job.controller import Jobs
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.resources import BUDGETS, DEPLOYMENTS, JOBS, SERVICES
from fathom.sim.checkers import at_home
from fathom.sim.checkers.final_state import WhenSettled, unfinished_jobs
from fathom.sim.checkers.rollouts import RolledOut
from fathom.sim.checkers.workloads import CountedOnce, JobsWithinBounds, OnePodPerSlot
from fathom.sim.scenarios.drains import budget
from fathom.sim.scenarios.jobs import job
from fathom.sim.scenarios.serving import service
from fathom.sim.scenarios.staff import MANAGERS, come_to_rest, run_managers_and_agents
from fathom.sim.scenarios.workloads import deployment
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Refuse
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

WRITES = ("POST ", "PATCH ", "DELETE ", "/status")
KINDS = (
    "replicasets",
    "deployments",
    "pods",
    "jobs",
    "endpoints",
    "poddisruptionbudgets",
    "workloadprogresses",
)
STATUSES = (409, 500, 409, 503, 409, 429)
# Far enough apart that no client takes the server for down.
EVERY_S = 0.7
LAST_S = 25.0


def every_few(seed: str) -> Sequence[AnyFault]:
    """One method or one kind is refused at a time, in turn; the seed says with which it begins."""
    number = int(seed) if seed.isdigit() else 0
    matches = (*WRITES, *KINDS)
    return [
        Refuse(
            at_s=round(at * EVERY_S, 3),
            target=MANAGERS[0],
            match=matches[(number + at * 5) % len(matches)],
            status=STATUSES[(number // 11 + at) % len(STATUSES)],  # type: ignore[arg-type]  # One of four.
        )
        for at in range(int(LAST_S / EVERY_S))
    ]


def checkers() -> Sequence[Checker]:
    ended = WhenSettled("every Job ends", unfinished_jobs)
    return [*at_home(), OnePodPerSlot(), CountedOnce(), JobsWithinBounds(), RolledOut(), ended]


@scenario(Menu(processes=MANAGERS[:1]), faults_of=every_few, checkers=checkers)
async def refused_now_and_then(world: World) -> None:
    """Some writes of the controllers are refused while a workload is created, rolled out and scaled and Jobs
    run: refused writes are retried, and in the end everything is as specified."""
    troubles = run_managers_and_agents(
        world,
        Deployments,
        ReplicaSets,
        Jobs,
        DisruptionBudgets,
        EndpointSlices,
        EndpointsOfServices,
        DeploymentProgress,
    )
    await world.sleep(0.01)
    world.pause(MANAGERS[1], 60.0)  # So that the first one leads; its writes are refused.
    await world.apply(SERVICES, service("web"))
    await world.apply(BUDGETS, budget("web"))
    for step, (replicas, tag) in enumerate(((3, 1), (3, 2), (4, 2), (2, 1))):
        await world.apply(DEPLOYMENTS, deployment("web", replicas, tag=tag))
        await world.apply(JOBS, job(f"job-{step}", completions=2, parallelism=1, runs_s=1.0))
        await world.sleep(LAST_S / 4 + 0.5)
    await come_to_rest(world, troubles)


# Longer than many quick retries take, shorter than any deadline.
LONG_S = 40.0


def for_long(seed: str) -> Sequence[AnyFault]:
    """One method, or all writes of one kind."""
    number = int(seed) if seed.isdigit() else 0
    matches = (*KINDS, *WRITES)
    status = (409, 500, 429)[number // len(matches) % 3]
    return (
        Refuse(
            at_s=2.0,
            target=MANAGERS[0],
            match=matches[number % len(matches)],
            status=status,  # type: ignore[arg-type]  # One of four.
            times=1000,
            for_s=LONG_S,
        ),
    )


@scenario(Menu(processes=MANAGERS[:1]), faults_of=for_long, checkers=checkers)
async def refused_for_long(world: World) -> None:
    """One method, or all writes of one kind, are refused for 40 seconds: no controller gives up, and all
    finish soon after."""
    troubles = run_managers_and_agents(world, Deployments, ReplicaSets, Jobs, EndpointSlices)
    await world.sleep(0.01)
    world.pause(MANAGERS[1], 100.0)
    await world.apply(SERVICES, service("web"))
    await world.apply(DEPLOYMENTS, deployment("web", 2))
    await world.sleep(5)
    await world.apply(DEPLOYMENTS, deployment("web", 3, tag=2))
    await world.apply(JOBS, job("job", completions=2, parallelism=1, runs_s=1.0))
    await world.sleep(LONG_S)
    await come_to_rest(world, troubles)


SCENARIOS: tuple[Scenario, ...] = (refused_now_and_then, refused_for_long)
