"""Rollouts in trouble: pods that crash again and again, and pods that take long to get ready."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Obj
from fathom.model.resources import DEPLOYMENTS
from fathom.sim.checkers import at_home
from fathom.sim.checkers.rollouts import ChildrenWithinSurge
from fathom.sim.scenarios.staff import (
    MANAGERS,
    QUIET_S,
    all_but,
    come_to_rest,
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


SCENARIOS: tuple[Scenario, ...] = (pods_crash_again_and_again, slow_rollouts)
