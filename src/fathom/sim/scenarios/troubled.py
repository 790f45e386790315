"""Workloads in trouble: pods that crash again and again, pods that take long to get ready, and pods that a
quota refuses while leaders change."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Obj
from fathom.model.resources import DEPLOYMENTS, REPLICA_SETS, RESOURCE_QUOTAS
from fathom.sim.checkers import at_home
from fathom.sim.checkers.rollouts import ChildrenWithinSurge
from fathom.sim.scenarios.objects import replica_set
from fathom.sim.scenarios.staff import (
    MANAGERS,
    QUIET_S,
    all_but,
    come_to_rest,
    leads,
    manage,
    run_agent,
    run_managers_and_agents,
)
from fathom.sim.scenarios.workloads import WORKLOADS, deployment
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

KINDS = ("/pods", "/replicasets", "/deployments", "/workloadprogresses")
NODE = "node-1"
DEADLINE_S = 60


def checkers() -> Sequence[Checker]:
    return [*at_home(), ChildrenWithinSurge()]


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=KINDS,
        happenings=("handover", "lose-lease"),
        seconds=90,
        most=5,
        without=("skew",),
    ),
    checkers=checkers,
)
async def pods_crash_again_and_again(world: World) -> None:
    """The containers of some workloads crash a few seconds after each start, and leaders change: since when
    they do is kept, until a version comes that runs."""
    manage(world, Deployments, ReplicaSets, DeploymentProgress, kinds=KINDS)
    run_agent(world, NODE)
    await world.sleep(3)
    for name in ("one", "two"):
        await world.apply(DEPLOYMENTS, _crashing(world, name, tag=1))
    await world.sleep(60 + 60 * world.rng.random())
    await world.apply(DEPLOYMENTS, _crashing(world, "two", tag=2))
    await world.sleep(60)
    for name in ("one", "two"):
        await world.apply(DEPLOYMENTS, _fixed(name))
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


def _crashing(world: World, name: str, *, tag: int) -> Obj:
    obj = deployment(name, 2, tag=tag)
    script = f'{{"exit_code": 1, "runs_s": {1 + 3 * world.rng.random():.1f}}}'
    obj["spec"]["template"]["metadata"]["annotations"] = {"fathom.dev/simulated": script}
    return obj


def _fixed(name: str) -> Obj:
    obj = deployment(name, 2, tag=9)
    obj["spec"]["template"]["metadata"]["annotations"] = {"fathom.dev/simulated": None}
    return obj


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=KINDS,
        seconds=150,
        most=3,
        without=all_but("slow-reply", "slow-request", "drop-watch", "lose-reply", "crash"),
        clocks=("nobody",),  # A leader knows by the wall clock what progressed before its term.
    ),
    checkers=checkers,
    timed=True,
)
async def slow_rollouts(world: World) -> None:
    """Every pod takes a while to get ready, so that rollouts last for longer than their progress deadline:
    as long as one pod after another gets ready, none is given up."""
    troubles = run_managers_and_agents(world, Deployments, ReplicaSets, DeploymentProgress, kinds=KINDS)
    for name in WORKLOADS:
        await world.apply(DEPLOYMENTS, _in_small_steps(name, tag=1))
    await world.sleep(10)
    troubles.image_s = DEADLINE_S / 4
    for name in WORKLOADS:
        await world.sleep(5 * world.rng.random())
        await world.apply(DEPLOYMENTS, _in_small_steps(name, tag=2))
    await world.sleep(2 * DEADLINE_S)
    await come_to_rest(world, troubles)


def _in_small_steps(name: str, *, tag: int) -> Obj:
    obj = deployment(name, 8, tag=tag, surge=1, missing=0)
    obj["spec"]["progressDeadlineSeconds"] = DEADLINE_S
    return obj


QUOTA = "few"
NAMES = ("one", "two")
# In the first the controller is still trying, in the last it has given up.
WAITS_S = (8.0, 20.0, 400.0)


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=("/pods", "/replicasets"),
        seconds=60,
        most=3,
        without=all_but("crash", "crash-at-write", "lose-reply", "lose-request", "refuse", "drop-watch"),
    ),
    checkers=at_home,
    scale=2,
)
async def trouble_outlives_its_leader(world: World) -> None:
    """ReplicaSets are refused by a quota for a while, and say so; the leader changes, before or after
    somebody grants them more: who leads now takes back what an earlier leader has said."""
    troubles = run_managers_and_agents(world, ReplicaSets)
    for number in range(world.scale):
        await _allow(world, pods=len(NAMES))
        for name in NAMES:
            await world.apply(REPLICA_SETS, replica_set(name, 3))
        await world.sleep(world.rng.choice(WAITS_S) * (0.7 + 0.6 * world.rng.random()))
        for change in world.rng.sample(("leader", "quota"), 2):
            if change == "quota":
                await _allow(world, pods=20)
            elif leading := [name for name in MANAGERS if leads(world, name)]:
                world.crash(leading[0], restart_after_s=world.rng.choice((0.2, 9.0)))
            await world.sleep(12 * world.rng.random())
        if number < world.scale - 1:
            for name in NAMES:
                await world.apply(REPLICA_SETS, replica_set(name, 1))
            await world.sleep(10)
    await come_to_rest(world, troubles)


async def _allow(world: World, *, pods: int) -> None:
    await world.apply(RESOURCE_QUOTAS, {"metadata": {"name": QUOTA}, "spec": {"hard": {"pods": str(pods)}}})


SCENARIOS: tuple[Scenario, ...] = (pods_crash_again_and_again, slow_rollouts, trouble_outlives_its_leader)
