"""Pods are evicted while their workloads are rolled out and scaled, and one pod of each does not go:
controllers count the pods that stay, and evictions stay within their disruption budgets."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.client.outcomes import Committed
from fathom.controllers.budget.controller import DisruptionBudgets
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.endpoints.controller import EndpointSlices, EndpointsOfServices
from fathom.controllers.pod_states import is_active, is_ready
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Obj, key_of, lookup, metadata, uid_of
from fathom.model.resources import BUDGETS, DEPLOYMENTS, PODS, SERVICES
from fathom.sim.checkers import at_home
from fathom.sim.checkers.rollouts import ChildrenWithinSurge, RolledOut
from fathom.sim.checkers.workloads import OnePodPerSlot
from fathom.sim.scenarios.own_requests import begin_deletion, until_known
from fathom.sim.scenarios.serving import service
from fathom.sim.scenarios.staff import (
    AGENT,
    AT_THE_TOP,
    MANAGERS,
    all_but,
    come_to_rest,
    run_managers_and_agents,
)
from fathom.sim.scenarios.workloads import WORKLOADS, deployment
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

KINDS = ("/pods", "/poddisruptionbudgets", "/replicasets", "/deployments", "/endpointslices")
HELD = "example.com/held"
LEAST = 2


def budget(name: str, least: int = LEAST) -> Obj:
    return {
        "metadata": {"name": name},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": name}}},
    }


def checkers() -> Sequence[Checker]:
    return [*at_home(), ChildrenWithinSurge(), OnePodPerSlot(), RolledOut()]


@scenario(
    Menu(
        processes=(*MANAGERS, AGENT),
        kinds=KINDS,
        happenings=(*AT_THE_TOP, "blink", "failing-probe", "fair"),
        seconds=25,
        most=8,
    ),
    checkers=checkers,
    scale=9,
)
async def drains(world: World) -> None:
    """Pods are evicted two at a time while their workloads are rolled out and scaled and leaders crash:
    evictions stay within their budgets, and every rollout completes although one deleted pod of each
    stays."""
    await _evict_and_roll(world)


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=KINDS,
        happenings=("handover", "blink"),
        seconds=25,
        most=6,
        without=all_but("hold-watch", "happening"),
    ),
    checkers=checkers,
    scale=9,
)
async def drains_seen_late(world: World) -> None:
    """Pods are evicted during rollouts while managers receive events of one kind late and of another at once,
    and leaders change: evictions stay within their budgets, and every rollout completes."""
    await _evict_and_roll(world)


async def _evict_and_roll(world: World) -> None:
    troubles = run_managers_and_agents(
        world,
        Deployments,
        ReplicaSets,
        DisruptionBudgets,
        EndpointSlices,
        EndpointsOfServices,
        DeploymentProgress,
        kinds=KINDS,
    )
    for name in WORKLOADS:
        await world.apply(SERVICES, service(name))
        await world.apply(BUDGETS, budget(name))
        await world.apply(DEPLOYMENTS, deployment(name, 3))
    for _ in range(world.scale):
        await world.sleep(3 * world.rng.random())
        await _change(world)
    held_pods = await _delete_held_pods(world)
    await come_to_rest(world, troubles)
    for name in held_pods:
        await world.api.patch(PODS, "default", name, {"metadata": {"finalizers": None}})


async def _change(world: World) -> None:
    name = world.rng.choice(WORKLOADS)
    if world.rng.random() < 0.3:
        tag, replicas = world.rng.randrange(1, 3), world.rng.randrange(3, 5)
        await world.apply(DEPLOYMENTS, deployment(name, replicas, tag=tag))
        return
    if world.rng.random() < 0.3:  # The next evictions may come before its controller has seen that.
        await world.apply(BUDGETS, budget(name, world.rng.choice((1, LEAST, 3))))
    for pod in world.rng.sample(ready, min(2, len(ready))) if (ready := _ready(world, name)) else ():
        await evict(world, pod)


def _ready(world: World, app: str) -> list[Obj]:
    pods = [pod for pod in world.list("pods", "default") if is_active(pod) and is_ready(pod)]
    return [pod for pod in pods if lookup(pod, "metadata", "labels", "app") == app]


async def evict(world: World, pod: Obj) -> None:
    """Refused when the disruption budget does not allow it."""
    name = str(metadata(pod)["name"])
    eviction = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name}}
    await world.api.create(PODS, "default", eviction, subresource="eviction")


async def _delete_held_pods(world: World) -> list[str]:
    """Delete one pod of each workload that a finalizer holds: it stays terminating until the end."""
    names = []
    for app in WORKLOADS:
        for pod in _ready(world, app)[:1]:
            if await _hold(world, pod):
                await begin_deletion(world, PODS, pod, grace_s=1000)
                names.append(key_of(pod).name)
    return names


async def _hold(world: World, pod: Obj) -> bool:
    """Whether the pod was still there to get the finalizer."""
    hold = {"metadata": {"uid": uid_of(pod), "finalizers": [HELD]}}
    outcome = await until_known(world, lambda: world.api.patch(PODS, *key_of(pod), hold))
    return isinstance(outcome, Committed)


SCENARIOS: tuple[Scenario, ...] = (drains, drains_seen_late)
