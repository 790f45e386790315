"""The world settles while pods are not ready, and nothing repairs them: statuses are right all the same, and
also when the pods have recovered. Services select by several labels, budgets are of every sort, and one
Deployment uses the strategy Recreate."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.budget.controller import DisruptionBudgets
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.endpoints.controller import EndpointSlices, EndpointsOfServices
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Obj
from fathom.model.resources import BUDGETS, DEPLOYMENTS, NODES, SERVICES
from fathom.sim.checkers import at_home
from fathom.sim.checkers.available import AvailableIsEarned
from fathom.sim.checkers.recreate_strategy import OneRevisionAtATime
from fathom.sim.checkers.rollouts import ChildrenWithinSurge
from fathom.sim.checkers.workloads import OnePodPerSlot
from fathom.sim.scenarios.drains import KINDS
from fathom.sim.scenarios.objects import node
from fathom.sim.scenarios.staff import (
    AGENT,
    AT_THE_TOP,
    MANAGERS,
    QUIET_S,
    come_to_rest,
    run_managers_and_agents,
)
from fathom.sim.scenarios.workloads import WORKLOADS, deployment
from fathom.sim.world.controllers import nudge
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

# The selector of each Service; both workloads have the second label.
SELECTORS = {
    "web": {"app": "web", "tier": "front"},
    "api": {"app": "api", "tier": "front"},
    "front": {"tier": "front"},
}
LIMITS: dict[str, Obj] = {
    "web": {"minAvailable": 2},
    "api": {"maxUnavailable": 1},
    "front": {"minAvailable": "50%"},
}
MIN_READY_S = 5
SLOW_END_S = 5


def checkers() -> Sequence[Checker]:
    of_workloads = (ChildrenWithinSurge(), OnePodPerSlot(), OneRevisionAtATime(), AvailableIsEarned())
    return [*at_home(), *of_workloads]


@scenario(
    Menu(
        processes=(*MANAGERS, AGENT),
        kinds=KINDS,
        happenings=(*AT_THE_TOP, "blink", "failing-probe", "fair"),
        seconds=15,
        most=6,
        without=("skew",),
    ),
    checkers=checkers,
    scale=5,
)
async def not_all_is_well(world: World) -> None:
    """First no pod is ready, and then all are: both times budgets, endpoints and progress say so. A
    Deployment that is recreated goes to and fro between two revisions, whose pods end slowly."""
    controllers = (Deployments, ReplicaSets, DeploymentProgress)
    beside = (DisruptionBudgets, EndpointSlices, EndpointsOfServices)
    troubles = run_managers_and_agents(world, *controllers, *beside, kinds=KINDS)
    for name, selector in SELECTORS.items():
        await world.apply(SERVICES, _service(name, selector))
        await world.apply(BUDGETS, _budget(name, selector))
    for name in WORKLOADS:
        await world.apply(DEPLOYMENTS, _deployment(name, 3))
    await world.sleep(3)
    await world.apply(NODES, _node())  # The node, and so its zone, comes later than its pods.
    for _ in range(world.scale):
        await world.sleep(world.rng.choice((1.0, 3.0, 9.0)))
        # Of two templates: it also goes back to the earlier one, while pods of the other may not have ended.
        await world.apply(DEPLOYMENTS, _recreated("disk", 2, tag=world.rng.randrange(2)))
        await world.apply(DEPLOYMENTS, _deployment(world.rng.choice(WORKLOADS), world.rng.randrange(2, 5)))
    await world.sleep(8)
    world.heal()
    troubles.clear_up()
    troubles.probes_fail = True
    nudge(world, AGENT)
    await world.settle(quiet_s=QUIET_S)
    await come_to_rest(world, troubles)


def _node() -> Obj:
    obj = node("node-1")
    obj["metadata"]["labels"]["topology.kubernetes.io/zone"] = "zone-a"
    return obj


def _service(name: str, selector: Obj) -> Obj:
    return {"metadata": {"name": name}, "spec": {"selector": selector, "ports": [{"port": 80}]}}


def _budget(name: str, selector: Obj) -> Obj:
    return {"metadata": {"name": name}, "spec": {**LIMITS[name], "selector": {"matchLabels": selector}}}


def _deployment(name: str, replicas: int) -> Obj:
    obj = deployment(name, replicas)
    obj["spec"]["template"]["metadata"]["labels"]["tier"] = "front"
    obj["spec"]["minReadySeconds"] = MIN_READY_S
    return obj


def _recreated(name: str, replicas: int, *, tag: int) -> Obj:
    obj = deployment(name, replicas, tag=tag)
    obj["spec"]["strategy"] = {"type": "Recreate"}
    obj["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = SLOW_END_S
    return obj


SCENARIOS: tuple[Scenario, ...] = (not_all_is_well,)
