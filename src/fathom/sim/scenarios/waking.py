"""Pods that wait, each for one thing, until it happens: each is placed because of it, and soon. A queue that
retries everything once a minute would hide events that wake no pod; here no wait is that long."""

from __future__ import annotations

from fathom.model.objects import Key, lookup, metadata, uid_of
from fathom.model.resources import EVENTS, NAMESPACES, NODES, PODS
from fathom.sim.scenarios import scheduling
from fathom.sim.scenarios.choosing import CHECKS, CHOICES, CHOSEN, classes
from fathom.sim.scenarios.scheduling import CLASSES, KINDS, SCHEDULERS, node, run_scheduler
from fathom.sim.scenarios.shared_agent import SharedAgent
from fathom.sim.scenarios.staff import AGENT, QUIET_S
from fathom.sim.scenarios.waitsfor import DEAF_AT_S, DEAF_S, OTHERS, WAITS, leaves, refused
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, DropWatch, HoldWatch
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

WOKEN = "a waiting pod is woken by the event that helps it"
TOLD = "a placed pod has a Scheduled event"
STEPS = {**WAITS, **CHOICES}
REFUSED_FIRST = "doubted"
SOON_S = 8.0  # A few round trips and a batch. The queue's own timer ends after 54 s at the earliest.


# A watch breaks off before any pod waits: what is listed again is not new. And an old view, once.
EARLY: tuple[AnyFault, ...] = (
    DropWatch(at_s=1.0, target=SCHEDULERS[0], match="/api/v1/nodes"),
    HoldWatch(at_s=DEAF_AT_S, target=SCHEDULERS[0], match="/api/v1/pods", for_s=DEAF_S),
)


@scenario(
    Menu(processes=SCHEDULERS[:1], kinds=KINDS),
    scripted=EARLY,
    checkers=scheduling.checkers,
    scale=len(STEPS),
)
async def who_waits_is_woken(world: World) -> None:
    """Whatever a pod waits for, it is placed as soon as that happens, and not by a timer. If it must preempt,
    it evicts the victims that cost least."""
    run_scheduler(world, SCHEDULERS[0])
    run_controllers(world, AGENT, SharedAgent)
    await world.apply(NAMESPACES, {"metadata": {"name": OTHERS}})
    await world.apply(NODES, node("nowhere", cordoned=True))
    for priority_class in classes():
        await world.apply(CLASSES, priority_class)
    await world.sleep(3 - world.now_s)
    await refused(world, REFUSED_FIRST)
    await leaves(world, REFUSED_FIRST)
    await _wait_until_placed(world, REFUSED_FIRST)
    for name in world.rng.sample(sorted(STEPS), world.scale):
        prepare, help_it = STEPS[name]
        await prepare(world, name)
        await world.sleep(1 + 2 * world.rng.random())
        await help_it(world, name)
        await _wait_until_placed(world, name)
        wrong = CHECKS[name](world, name) if name in CHECKS else ""
        if wrong:
            world.broken(CHOSEN, wrong, f"pods/default/{name}")
    await _delete_waiting_pods(world)
    await world.heal_and_settle(quiet_s=QUIET_S)
    _check_scheduled_events(world)


async def _wait_until_placed(world: World, name: str) -> None:
    until_s = world.now_s + SOON_S
    while not _node_of(world, name):
        if world.now_s > until_s:
            world.broken(
                WOKEN, f"the obstacle of {name} is gone, but its pod still waits", f"pods/default/{name}"
            )
        await world.sleep(0.2)


async def _delete_waiting_pods(world: World) -> None:
    """Delete the pods that have lost their place to another: they need not wait to the end."""
    for pod in world.list("pods", "default"):
        if not lookup(pod, "spec", "nodeName"):
            await world.delete(PODS, str(metadata(pod)["name"]))


def _check_scheduled_events(world: World) -> None:
    scheduled = {
        lookup(event, "involvedObject", "uid")
        for event in world.list(EVENTS.name)
        if event.get("reason") == "Scheduled"
    }
    for pod in world.list("pods", "default"):
        name = metadata(pod)["name"]
        if name in STEPS and uid_of(pod) not in scheduled:
            world.broken(TOLD, f"{name} was placed, but it has no Scheduled event", f"pods/default/{name}")


def _node_of(world: World, name: str) -> str:
    return str(lookup(world.get("pods", Key("default", name)) or {}, "spec", "nodeName") or "")


SCENARIOS: tuple[Scenario, ...] = (who_waits_is_woken,)
