"""A canary that keeps pods waiting is ended soon, and not when its step is over."""

from __future__ import annotations

from fathom.model.objects import Key, lookup
from fathom.model.resources import NODES, PODS
from fathom.schedule.policy_rollout.controller import LOOK_S, PolicyRollouts
from fathom.sim.scenarios.scheduling import POLICIES, ROLLOUTS, node, own, pod, run_scheduler
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import scenario
from fathom.sim.world.world import World


@scenario(Menu(processes=("scheduler-1",), most=0))
async def pods_wait_under_a_canary(world: World) -> None:
    """A step of ten minutes, and a pod that begins to wait in it: it is rolled back within seconds."""
    run_scheduler(world, "scheduler-1")
    run_controllers(world, "rollouts", PolicyRollouts)
    await world.apply(NODES, node("node-1", zone="a"))
    await world.apply(NODES, node("node-2", zone="b", more={"cpu": "0"}))
    await world.apply(POLICIES, own("SchedulingPolicy", "v4", {}))
    await world.apply(POLICIES, own("SchedulingPolicy", "v5", {"maxZoneSkew": 1}))
    steps, gates = [{"percent": 100, "hold": "10m"}], {"noPendingRegression": True}
    spec = {"from": "v4", "to": "v5", "steps": steps, "gates": gates}
    await world.apply(ROLLOUTS, own("PolicyRollout", "canary", spec))
    await world.sleep(LOOK_S + 1)
    for name in ("first", "second"):  # Zone b takes no pod: under v5 the second would be one too many in a.
        await world.apply(PODS, pod(name, labels={"app": "web"}))
    await world.sleep(2 * LOOK_S)
    phase = lookup(world.get(ROLLOUTS.name, Key("", "canary")), "status", "phase")
    assert phase == "RolledBack", phase
