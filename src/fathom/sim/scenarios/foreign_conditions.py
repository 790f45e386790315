"""Another client keeps a condition of its own on the objects of all controllers, which write theirs."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.client.api import Resource
from fathom.controllers.budget.controller import DisruptionBudgets
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.job.controller import Jobs
from fathom.controllers.progress.controller import DeploymentProgress, JobProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.conditions import conditions_of, set_condition
from fathom.model.objects import Obj, is_deleting, key_of, metadata
from fathom.model.resources import BUDGETS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, RESOURCE_QUOTAS
from fathom.model.times import timestamp
from fathom.sim.checkers import at_home
from fathom.sim.scenarios.drains import budget
from fathom.sim.scenarios.jobs import job
from fathom.sim.scenarios.staff import AGENT, AT_THE_TOP, MANAGERS, come_to_rest, run_managers_and_agents
from fathom.sim.scenarios.workloads import deployment
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.process import EPOCH_NS
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

TYPE = "example.com/Inspected"
PROGRESS = Resource("fathom.dev", "v1alpha1", "workloadprogresses")
MARKED = (DEPLOYMENTS, REPLICA_SETS, PODS, JOBS, BUDGETS, PROGRESS)
KINDS = ("/pods", "/replicasets", "/deployments", "/jobs", "/workloadprogresses")


def checkers() -> Sequence[Checker]:
    return at_home()


@scenario(
    Menu(
        processes=(*MANAGERS, AGENT),
        kinds=KINDS,
        happenings=(*AT_THE_TOP, "blink", "failing-probe", "fair"),
        seconds=20,
        most=6,
    ),
    checkers=checkers,
    scale=10,
)
async def foreign_conditions(world: World) -> None:
    """Workloads are rolled out, refused by a quota, scaled and run to their end while another client writes a
    condition of its own on all of their objects: no controller removes it."""
    troubles = run_managers_and_agents(
        world, Deployments, ReplicaSets, Jobs, DisruptionBudgets, DeploymentProgress, JobProgress, kinds=KINDS
    )
    await world.apply(RESOURCE_QUOTAS, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "5"}}})
    await world.apply(DEPLOYMENTS, deployment("web", 3))
    await world.apply(BUDGETS, budget("web"))
    for number in range(world.scale):
        await world.sleep(2 * world.rng.random())
        await _mark_all(world)
        if number == 1:
            await world.apply(JOBS, job("sums", completions=4, parallelism=3, runs_s=2.0))
        elif number % 3 == 2:
            replicas = world.rng.choice((2, 4, 7))
            await world.apply(DEPLOYMENTS, deployment("web", replicas, tag=1 + number // 4))
    await world.apply(RESOURCE_QUOTAS, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "50"}}})
    await come_to_rest(world, troubles)


async def _mark_all(world: World) -> None:
    for resource in MARKED:
        for obj in world.list(resource.name, "default"):
            if not is_deleting(obj):
                await mark(world, resource, obj)


async def mark(world: World, resource: Resource, obj: Obj) -> None:
    """At the revision that was read; if somebody was faster, the next round tries again."""
    now = timestamp(EPOCH_NS + world.engine.now_ns)
    conditions = set_condition(conditions_of(obj), type=TYPE, status="True", reason="Seen", now=now)
    if conditions == conditions_of(obj):
        return
    guard = {"resourceVersion": metadata(obj)["resourceVersion"]}
    patch = {"metadata": guard, "status": {"conditions": conditions}}
    await world.api.patch(resource, "default", key_of(obj).name, patch, subresource="status")


SCENARIOS: tuple[Scenario, ...] = (foreign_conditions,)
