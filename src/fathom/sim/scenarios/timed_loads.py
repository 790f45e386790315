"""An autoscaler's windows and periods while clocks are set: they keep their length."""

from __future__ import annotations

from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Key, lookup
from fathom.model.resources import AUTOSCALERS, DEPLOYMENTS
from fathom.model.times import SECOND_NS
from fathom.sim.scenarios.loads import (
    ASKED,
    HIGH,
    LOW,
    POLICY,
    ROUNDED_S,
    SHORT_WINDOW_S,
    AutoscalersOfLoad,
    Load,
    growing,
)
from fathom.sim.scenarios.staff import MANAGERS, all_but, come_to_rest, run_managers_and_agents
from fathom.sim.scenarios.workloads import autoscaler, deployment
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

MOST = 14
STEPS_S = (-4000.0, -100.0, 0.0, 100.0, 4000.0)
# The window begins with the last look at a high load: at most a period before the load is low.
SYNC_S = 15.0
# Some of these periods, and what a fault may cost.
LATE_S, FAULT_S = 60.0, 30.0
KEPT = "an autoscaler's window is as long as it says when clocks are set"


@scenario(
    Menu(
        processes=MANAGERS,
        seconds=60,
        most=2,
        without=all_but("slow-reply", "slow-request", "hold-watch"),
        clocks=("nobody",),  # The scenario itself sets them.
    ),
    checkers=growing,
    timed=True,
)
async def scaled_while_clocks_are_set(world: World) -> None:
    """The load is far too high, and then low, and now and then the clocks of all managers are set forward or
    back: the autoscaler grows no faster than its policy allows, holds its size for the whole window, and
    shrinks soon after it."""
    load = Load()
    load.nanos = 4 * HIGH
    troubles = run_managers_and_agents(
        world, Deployments, ReplicaSets, DeploymentProgress, AutoscalersOfLoad(load)
    )
    await _ask_for_little(world)
    until_s = world.now_s + 400
    while _size(world) < MOST and world.now_s < until_s:
        await world.sleep(10 + 40 * world.rng.random())
        _set_clocks(world)
    await world.until(lambda: _size(world) == MOST, within_s=300, what="the autoscaler grows to its limit")
    await world.sleep(30)  # The last of its pods are ready.
    load.nanos = LOW
    await _holds_its_size(world)
    world.heal()
    await world.until(lambda: _size(world) == 1, within_s=600, what="the autoscaler shrinks to its minimum")
    await come_to_rest(world, troubles)


async def _ask_for_little(world: World) -> None:
    web = deployment("web", 2)
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": ASKED}}
    await world.apply(DEPLOYMENTS, web)
    scaler = autoscaler("web", MOST)
    scaler["spec"]["behavior"] = {
        "scaleUp": {"policies": [POLICY]},
        "scaleDown": {"stabilizationWindowSeconds": SHORT_WINDOW_S},
    }
    await world.apply(AUTOSCALERS, scaler)


async def _holds_its_size(world: World) -> None:
    """The load is low since now: the window is over after its length, by no clock that is set."""
    low_s, size = world.now_s, _size(world)
    set_s = low_s + SHORT_WINDOW_S * world.rng.random()
    while _size(world) == size:
        passed_s = world.now_s - low_s
        if passed_s > SHORT_WINDOW_S + LATE_S + FAULT_S * sum(world.engine.faults.fired.values()):
            world.broken(KEPT, f"after {passed_s:.0f} s of low load it still has {size} replicas")
        await world.sleep(1.0)
        if world.now_s > set_s:
            _set_clocks(world)
            set_s += SHORT_WINDOW_S * world.rng.random()
    passed_s = world.now_s - low_s
    if passed_s < SHORT_WINDOW_S - SYNC_S - ROUNDED_S:
        world.broken(KEPT, f"from {size} to {_size(world)} replicas after {passed_s:.0f} s of low load")


def _set_clocks(world: World) -> None:
    ahead_s = world.rng.choice(STEPS_S)
    for name in MANAGERS:
        world.engine.processes[name].set_clock(round(ahead_s * SECOND_NS))


def _size(world: World) -> int:
    return int(lookup(world.get(DEPLOYMENTS.name, Key("default", "web")), "spec", "replicas") or 0)


SCENARIOS: tuple[Scenario, ...] = (scaled_while_clocks_are_set,)
