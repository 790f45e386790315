"""Pods are preempted while somebody replaces them by others of the same names."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.objects import Obj, is_deleting, key_of, lookup, uid_of
from fathom.model.resources import PODS
from fathom.sim.scenarios import preempting, scheduling
from fathom.sim.scenarios.preempting import QUIET_S, pod_of, start_processes
from fathom.sim.scenarios.scheduling import SCHEDULERS
from fathom.sim.scenarios.staff import all_but
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World


def checkers() -> Sequence[Checker]:
    return preempting.checkers()


@scenario(
    Menu(
        processes=SCHEDULERS,
        kinds=("/pods",),
        seconds=25,
        most=8,
        least=3,
        without=all_but("slow-request", "slow-reply", "hold-watch", "lose-reply"),
    ),
    checkers=checkers,
    scale=14,
)
async def victims_are_replaced(world: World) -> None:
    """Pods of high priority come to full nodes, and at that moment somebody replaces pods of low priority by
    others of the same names: these are no victims unless they are chosen anew, and are not marked as such."""
    await start_processes(world)
    for number in range(world.scale):
        await world.sleep(2 * world.rng.random())
        await world.api.create(PODS, "default", pod_of(f"high-{number}", cpu="2", high=True))
        for _ in range(world.rng.randrange(8)):
            await world.sleep(0.2 * world.rng.random())
            await _replace(world)
        if world.rng.random() < 0.4:
            await scheduling.delete_some(world)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


async def _replace(world: World) -> None:
    low = [pod for pod in world.list("pods", "default") if _may_go(pod)]
    if not low:
        return
    pod = world.rng.choice(low)
    name, node = key_of(pod).name, str(lookup(pod, "spec", "nodeName"))
    await world.api.delete(PODS, "default", name, uid=uid_of(pod), grace_s=0)
    await world.api.create(PODS, "default", pod_of(name, cpu="2", node=node))


def _may_go(pod: Obj) -> bool:
    return (
        not is_deleting(pod) and not lookup(pod, "spec", "priority") and bool(lookup(pod, "spec", "nodeName"))
    )


SCENARIOS: tuple[Scenario, ...] = (victims_are_replaced,)
