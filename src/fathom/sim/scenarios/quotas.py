"""Workloads want more than their quota allows, and the quota changes: its usage is right all the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fathom.client.api import Resource
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Obj, key_of, lookup
from fathom.sim.checkers import at_home
from fathom.sim.checkers.workloads import ChildrenWithinBounds, OnePodPerSlot
from fathom.sim.scenarios.replicas import WORKLOADS, keep_changing, look_at_the_end
from fathom.sim.scenarios.staff import AGENT, MANAGERS, UNREST, come_to_rest, run_managers_and_agents
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

QUOTAS = Resource("", "v1", "resourcequotas")
LIMITS = Resource("", "v1", "limitranges")
CHANGES = ("less-room", "more-room", "other-defaults")
ENOUGH = 20


def quota(pods: int) -> Obj:
    return {
        "metadata": {"name": "room"},
        "spec": {"hard": {"pods": str(pods), "requests.cpu": str(pods), "count/configmaps": "10"}},
    }


def defaults(cpu: str) -> Obj:
    """Admission writes these into pods that have no requests or limits."""
    return {
        "metadata": {"name": "defaults"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": cpu}, "default": {"cpu": "1"}}]},
    }


def checkers() -> Sequence[Checker]:
    return [*at_home(), ChildrenWithinBounds(), OnePodPerSlot()]


@scenario(
    Menu(
        processes=(*MANAGERS, AGENT),
        servers=("api-1", "api-2"),
        kinds=("/pods", "/replicasets"),
        happenings=(*CHANGES, *UNREST, "move"),
        seconds=14,
        most=10,
    ),
    servers=2,
    checkers=checkers,
    scale=20,
)
async def quota_changes(world: World) -> None:
    """Workloads outgrow their quota, which shrinks and grows, and the defaults of admission change: the usage
    of the quota is right all the time, and in the end every workload has its pods."""
    troubles = run_managers_and_agents(world, ReplicaSets, servers=2)
    for name, work in _changes(world).items():
        world.happening(name, work)
    await world.apply(LIMITS, defaults("100m"))
    await world.apply(QUOTAS, quota(8))
    await keep_changing(world, WORKLOADS)
    await world.apply(QUOTAS, quota(ENOUGH))
    await come_to_rest(world, troubles)
    for name in WORKLOADS:
        await look_at_the_end(world, name)
    used = [lookup(quota_obj, "status", "used", "pods") for quota_obj in world.list("resourcequotas")]
    assert used == [str(len(world.list("pods")))], f"the quota reports {used} pods in use"
    assert all(lookup(pod, "spec", "containers")[0]["resources"]["requests"] for pod in world.list("pods")), [
        key_of(pod).name for pod in world.list("pods")
    ]


def _changes(world: World) -> dict[str, Callable[[], object]]:
    return {
        "less-room": lambda: world.soon(lambda: world.apply(QUOTAS, quota(4))),
        "more-room": lambda: world.soon(lambda: world.apply(QUOTAS, quota(9))),
        "other-defaults": lambda: world.soon(lambda: world.apply(LIMITS, defaults("200m"))),
    }


SCENARIOS: tuple[Scenario, ...] = (quota_changes,)
