"""Deployments and ReplicaSets are controlled by different processes: what the one asks for, the other does
and reports late."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.pod_states import is_active
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Obj, key_of, lookup, uid_of
from fathom.model.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from fathom.seams.streams import Streams
from fathom.sim.checkers import at_home
from fathom.sim.checkers.rollouts import (
    AvailablePodsAreKept,
    ChildrenWithinSurge,
    OneRevisionPerTemplate,
    RolledOut,
)
from fathom.sim.checkers.workloads import OnePodPerSlot, owner_uid
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, QUIET_S
from fathom.sim.scenarios.workloads import deployment
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, SlowRequest
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

PLANNER, MAKER = "planner", "maker"
KINDS = ("/pods", "/replicasets", "/deployments")
WEB = "web"
LOOK_S = 0.01
AWAY_S, AWAY_LONGER_S = 40.0, 50.0  # Longer than any view lasts that a revision is made smaller from.


def checkers() -> Sequence[Checker]:
    return [
        *at_home(),
        ChildrenWithinSurge(),
        AvailablePodsAreKept(),
        OneRevisionPerTemplate(),
        OnePodPerSlot(),
        RolledOut(),
    ]


def run_apart(world: World) -> None:
    run_controllers(world, PLANNER, Deployments)
    run_controllers(world, MAKER, ReplicaSets)
    run_controllers(world, AGENT, SimulatedNodes)


def slow_creates(seed: str) -> Sequence[AnyFault]:
    rng = Streams(seed).stream("slow creates")
    return [
        SlowRequest(
            at_s=40 * rng.random(),
            target=MAKER,
            match="POST /api/v1/namespaces/default/pods",
            delay_s=round(0.5 + 4 * rng.random(), 3),
        )
        for _ in range(12)
    ]


@scenario(Menu(processes=(PLANNER, MAKER), kinds=KINDS), faults_of=slow_creates, checkers=checkers, scale=14)
async def asked_for_and_not_yet_made(world: World) -> None:
    """Deployments are scaled and rolled while pods take seconds to be created: what is under way counts, and
    there are never more pods than wanted plus the surge."""
    run_apart(world)
    for _ in range(world.scale):
        tag = world.rng.randrange(1, 4)
        await world.apply(DEPLOYMENTS, deployment(WEB, 5, tag=tag, surge=1, missing=1))
        await world.sleep(4 * world.rng.random())
    await world.heal_and_settle(quiet_s=QUIET_S)


@scenario(Menu(processes=(AGENT,), kinds=KINDS, seconds=20, most=1), checkers=checkers, scale=3, timed=True)
async def reported_and_gone(world: World) -> None:
    """New pods are reported as available and then deleted by somebody, while nobody can report that: a
    rollout goes by the pods, and old ones stay until new ones are ready."""
    await _new_pods_go(world, lambda: world.crash(PLANNER, restart_after_s=AWAY_S))


@scenario(Menu(processes=(AGENT,), kinds=KINDS, seconds=20, most=1), checkers=checkers, scale=3, timed=True)
async def reported_and_gone_during_a_pause(world: World) -> None:
    """New pods are reported as available and then deleted, while the process that rolls out is paused: the
    reports that it reads first when it goes on are forty seconds old, and do not count as news."""
    await _new_pods_go(world, lambda: world.pause(PLANNER, AWAY_S))


async def _new_pods_go(world: World, planner_goes_away: Callable[[], None]) -> None:
    run_apart(world)
    await world.apply(DEPLOYMENTS, deployment(WEB, 3, surge=1, missing=0))
    await world.sleep(20)
    for tag in range(2, 2 + world.scale):
        await world.apply(DEPLOYMENTS, deployment(WEB, 3, tag=tag, surge=1, missing=0))
        await _wait(world, lambda tag=tag: bool(_pods(world, tag)))  # type: ignore[misc]
        planner_goes_away()
        await _wait(world, lambda tag=tag: _reported(world, tag) > 0)  # type: ignore[misc]
        world.pause(MAKER, AWAY_LONGER_S)
        for pod in _pods(world, tag):
            await world.api.delete(PODS, "default", key_of(pod).name, uid=uid_of(pod))
        await world.sleep(AWAY_LONGER_S + 20)
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _wait(world: World, is_so: Callable[[], bool]) -> None:
    """For as long as it may take without faults."""
    until_s = world.now_s + 10
    while not is_so() and world.now_s < until_s:
        await world.sleep(LOOK_S)


def _set(world: World, tag: int) -> Obj | None:
    image = f"example/{WEB}:{tag}"
    sets = world.list(REPLICA_SETS.name, "default")
    return next((each for each in sets if _image(each) == image), None)


def _image(replica_set: Obj) -> str:
    return str(lookup(replica_set, "spec", "template", "spec", "containers")[0]["image"])


def _pods(world: World, tag: int) -> list[Obj]:
    owner = _set(world, tag)
    pods = world.list("pods", "default")
    return [pod for pod in pods if owner is not None and owner_uid(pod) == uid_of(owner) and is_active(pod)]


def _reported(world: World, tag: int) -> int:
    return int(lookup(_set(world, tag) or {}, "status", "availableReplicas") or 0)


SCENARIOS: tuple[Scenario, ...] = (
    asked_for_and_not_yet_made,
    reported_and_gone,
    reported_and_gone_during_a_pause,
)
