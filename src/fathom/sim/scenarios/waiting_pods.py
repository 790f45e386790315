"""Pods wait for one reason and then for another, while people label them and what is said about them is lost:
in the end each says what it waits for."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.model.objects import Obj, is_deleting, key_of, lookup
from fathom.model.resources import NODES, PODS
from fathom.seams.streams import Streams
from fathom.sim.scenarios import scheduling
from fathom.sim.scenarios.scheduling import (
    CLASSES,
    LEASE,
    QUOTAS,
    SCHEDULERS,
    delete_some,
    node,
    pod,
    quota,
    run_scheduler,
)
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, QUIET_S, TIMING
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Crash, HoldWatch, LoseReply, LoseRequest, Refuse, SlowRequest
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NAMES = ("node-1", "node-2")
WORDS = "/status"  # Of pods, of schedulers.
LASTS_S = 40.0


def checkers() -> Sequence[Checker]:
    return scheduling.checkers()


def lost_words(seed: str) -> Sequence[AnyFault]:
    """Writes of pods' statuses are lost, late, or refused, or their replies are lost; or a leader dies."""
    rng = Streams(seed).stream("lost-words")
    faults: list[AnyFault] = []
    for _ in range(rng.randrange(7)):
        at_s, target = round(LASTS_S * rng.random(), 3), rng.choice(SCHEDULERS)
        often, for_s = rng.choice((1, 2, 4)), round(1 + 8 * rng.random(), 3)
        fault: AnyFault = rng.choice(
            (
                LoseRequest(at_s=at_s, target=target, match=WORDS, times=often),
                LoseReply(at_s=at_s, target=target, match=WORDS, times=often),
                SlowRequest(at_s=at_s, target=target, match=WORDS, delay_s=for_s),
                Refuse(
                    at_s=at_s, target=target, match=WORDS, times=often, status=rng.choice((409, 429, 503))
                ),
                HoldWatch(at_s=at_s, target=target, match="/api/v1/pods", for_s=for_s),
                Crash(at_s=at_s, target=target, for_s=for_s),
            )
        )
        faults.append(fault)
    return sorted(faults, key=lambda fault: fault.at_s)


@scenario(Menu(processes=SCHEDULERS), faults_of=lost_words, checkers=checkers, scale=14)
async def what_pods_wait_for_is_said(world: World) -> None:
    """Pods that do not fit, for one reason or another, are labelled as soon as they are there and later;
    nodes are cordoned and a quota changes, so that reasons change: in the end each says what it waits for."""
    for name in SCHEDULERS:
        run_scheduler(world, name, lease=LEASE, timing=TIMING)
    run_controllers(world, AGENT, SimulatedNodes)
    for name in NAMES:
        await world.apply(NODES, node(name))
    await world.apply(QUOTAS, quota("default", cpu="20"))
    await world.apply(CLASSES, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000})
    for number in range(world.scale):
        await world.sleep(2 * LASTS_S / world.scale * world.rng.random())
        await _change(world, number)
    await _label(world)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)
    for _ in _waiting(world):
        world.sometimes("a pod waits at the end")


async def _change(world: World, number: int) -> None:
    action = world.rng.choice(("pod", "pod", "pod", "high", "label", "delete", "cordon", "cordon", "quota"))
    if action in ("pod", "high"):
        cpu = world.rng.choice(("2", "3", "4", "5"))
        obj = pod(f"p-{number}", cpu=cpu, high=action == "high")
        obj["spec"]["terminationGracePeriodSeconds"] = world.rng.choice((2, 20))
        await world.apply(PODS, obj)
    elif action == "delete":
        await delete_some(world)
    elif action == "cordon":
        cordoned = world.rng.random() < 0.6
        await world.apply(NODES, node(world.rng.choice(NAMES), cordoned=cordoned))
    elif action == "quota":
        await world.apply(QUOTAS, quota("default", cpu=world.rng.choice(("4", "8", "20"))))
    # Whoever has made or changed something labels what is there: at the moment at which a scheduler looks.
    await _label(world)


async def _label(world: World) -> None:
    for obj in _waiting(world):
        if world.rng.random() < 0.5:
            labels = {"seen": f"{world.now_s:.0f}"}
            await world.api.patch(PODS, "default", key_of(obj).name, {"metadata": {"labels": labels}})


def _waiting(world: World) -> list[Obj]:
    pods = world.list(PODS.name, "default")
    return [each for each in pods if not lookup(each, "spec", "nodeName") and not is_deleting(each)]


SCENARIOS: tuple[Scenario, ...] = (what_pods_wait_for_is_said,)
