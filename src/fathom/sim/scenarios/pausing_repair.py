"""An override pauses repair, and leaders change meanwhile: the next one has acknowledged nothing itself, and
keeps the word of the one before."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.controllers.repair.controller import RepairPods
from fathom.controllers.repair.plan import VANISHED_S
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import Key, Obj
from fathom.model.resources import NODES, PODS
from fathom.sim.scenarios.scheduling import node, pod
from fathom.sim.scenarios.staff import MANAGERS, OF_PROCESSES, OF_WATCHES, QUIET_S, all_but
from fathom.sim.scenarios.steering import OVERRIDES, checkers, override, run_cluster, status_of
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import SlowRequest
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

GONE = "node-gone"
LASTS_S = 90
PODS_THERE = 3


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=("/pods", "/scheduleroverrides"),
        seconds=60,
        most=6,
        without=all_but(*OF_WATCHES, *OF_PROCESSES, "slow-request"),
    ),
    checkers=checkers,
)
async def repair_is_paused(world: World) -> None:
    """A node is deleted with its pods on it, and overrides keep repair from deleting them: it deletes each
    when its override is over, and not before."""
    run_cluster(world, RepairPods)
    await world.apply(NODES, node(GONE, zone="a"))
    names = [f"stray-{number}" for number in range(PODS_THERE)]
    for name in names:
        await world.apply(PODS, _stray(name))
    await world.delete(NODES, GONE)
    # The pauses come shortly before repair would act.
    await world.sleep(VANISHED_S - 10 * world.rng.random())
    place = await _pause_some(world, names)
    await world.sleep(20 * world.rng.random())
    if all(status_of(world, name, place).get("active") for name in names):
        world.sometimes("all pauses are observed")
    await world.sleep(LASTS_S)
    world.heal()
    await world.until(
        lambda: not any(world.get("pods", Key("default", name)) for name in names),
        within_s=120,
        what="repair goes on",
    )
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


@scenario(
    Menu(processes=MANAGERS),
    scripted=[
        SlowRequest(at_s=0.0, for_s=200.0, target=name, match="DELETE ", delay_s=18.0, times=1000)
        for name in MANAGERS
    ],
    checkers=checkers,
)
async def paused_while_a_request_is_on_its_way(world: World) -> None:
    """Deletes of repair take longer on their way than their sender waits. Just when it has sent some,
    overrides of workloads or of their node pause it: what has not arrived by then is not carried out before
    the pause is over."""
    run_cluster(world, RepairPods)
    await world.apply(NODES, node(GONE, zone="a"))
    names = [f"stray-{number}" for number in range(PODS_THERE)]
    for name in names:
        await world.apply(PODS, _stray(name))
        await world.sleep(2)
    await world.delete(NODES, GONE)
    await world.sleep(VANISHED_S - 6 + 8 * world.rng.random())
    await _pause_some(world, names)
    await world.sleep(LASTS_S)
    await world.until(
        lambda: not any(world.get("pods", Key("default", name)) for name in names),
        within_s=240,
        what="repair goes on",
    )
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


async def _pause_some(world: World, names: Sequence[str]) -> str:
    """By overrides of workloads, or of the node. Returns their namespace."""
    of_node = world.rng.random() < 0.5
    place = SYSTEM_NAMESPACE if of_node else "default"
    for name in names:
        target = f"node/{GONE}" if of_node else f"workload/{name}"
        pause = override(name, {"pauseRepair": True}, target=target, lasts=f"{LASTS_S}s")
        await world.apply(OVERRIDES, pause, place)
        await world.sleep(2 * world.rng.random())
    return place


def _stray(name: str) -> Obj:
    obj = pod(name)
    obj["spec"]["nodeName"] = GONE
    return obj


SCENARIOS: tuple[Scenario, ...] = (repair_is_paused, paused_while_a_request_is_on_its_way)
