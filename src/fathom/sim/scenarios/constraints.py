"""Pods that not every node will do for: by its labels, its taints, its ports, and to the last of its room;
and pods that come to an end by themselves and make room for others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fathom.model.objects import Obj, is_deleting, key_of, labels_of, lookup
from fathom.sim.checkers import at_home
from fathom.sim.checkers.capacity import held
from fathom.sim.checkers.scheduling import NoSchedulablePodIdles
from fathom.sim.scenarios.objects import NODES, PODS
from fathom.sim.scenarios.scheduling import (
    KINDS,
    LEASE,
    QUOTAS,
    SCHEDULERS,
    delete_some,
    node,
    pod,
    quota,
    run_scheduler,
)
from fathom.sim.scenarios.staff import AGENT, OF_WATCHES, QUIET_S, TIMING, all_but
from fathom.sim.standins.agent import RUNS_S, Agent
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Finding
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

POOLS = {"node-1": "red", "node-2": "blue", "node-3": "red"}
KEPT, TAINT = "node-3", {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
HELD = "example.com/held"
CPU_MILLI = 4000  # Of each node.
ENOUGH = "20"  # More than all nodes have: the quota is in nobody's way.
WHOLE = ("1", "2", "4")  # Of these nodes can be filled to the last.


class NobodyWaitsBesideRoom(Checker):
    """Counted in plain words, for those who will take what there is: the scheduler's own rules are not asked,
    they may be what is wrong."""

    name = "no schedulable pod idles"

    def settled(self, world: World) -> Iterable[str | Finding]:
        pods = world.list("pods")
        used: dict[str, int] = {}
        for one in pods:
            found = held("pods", one)
            if found is not None:
                used[found[0]] = used.get(found[0], 0) + found[2].get("cpu", 0)
        for one in pods:
            if lookup(one, "spec", "nodeName") or is_deleting(one):
                continue
            for name in _open_to(one, world.list("nodes")):
                if used.get(name, 0) + _cpu_milli(one) <= CPU_MILLI:
                    path = "/".join(("pods", *key_of(one)))
                    yield Finding(f"{path} waits, and {name} has room", (path,))


def _cpu_milli(one: Obj) -> int:
    asked = {**one, "spec": {**one["spec"], "nodeName": "anywhere"}}
    found = held("pods", asked)
    return found[2].get("cpu", 0) if found is not None else 0


def _open_to(one: Obj, nodes: Iterable[Obj]) -> list[str]:
    """Ports are left to the scheduler: a pod that asks for one is not judged."""
    if any(container.get("ports") for container in one["spec"]["containers"]):
        return []
    wanted = one["spec"].get("nodeSelector") or {}
    tolerates = any(each.get("key") == TAINT["key"] for each in one["spec"].get("tolerations") or ())
    return [
        key_of(each).name
        for each in nodes
        if not lookup(each, "spec", "unschedulable")
        and all(labels_of(each).get(name) == value for name, value in wanted.items())
        and (tolerates or key_of(each).name != KEPT)
    ]


def checkers() -> Sequence[Checker]:
    return [*at_home(), NoSchedulablePodIdles(), NobodyWaitsBesideRoom()]


@scenario(Menu(processes=(*SCHEDULERS, AGENT), kinds=KINDS, seconds=25, most=8), checkers=checkers, scale=30)
async def constrained(world: World) -> None:
    """Nodes are filled to the last by pods that want this one or that, and come to their end."""
    for name in SCHEDULERS:
        run_scheduler(world, name, lease=LEASE, timing=TIMING)
    await _told(world)


@scenario(
    Menu(processes=SCHEDULERS, kinds=KINDS, seconds=25, most=8, without=all_but(*OF_WATCHES, "lose-reply")),
    checkers=checkers,
    scale=30,
)
async def constrained_twice(world: World) -> None:
    """The same by two schedulers at once, from caches of different ages: both choose, one is right."""
    for name in SCHEDULERS:
        run_scheduler(world, name)
    await _told(world)


async def _told(world: World) -> None:
    run_controllers(world, AGENT, Agent)
    for name, pool in POOLS.items():
        await world.apply(NODES, _node(name, pool))
    await world.apply(QUOTAS, quota("default", cpu=ENOUGH))
    for number in range(world.scale):
        await world.sleep(1.2 * world.rng.random())
        if world.rng.random() < 0.3:
            await delete_some(world)
        else:
            await world.apply(PODS, _pod(world, f"p-{number}"))
    await world.sleep(8)  # Those that end have ended.
    for one in world.list("pods", "default"):
        await world.api.patch(PODS, "default", key_of(one).name, {"metadata": {"finalizers": None}})
    world.heal()
    await _let_in(world)
    await world.settle(quiet_s=QUIET_S)


async def _let_in(world: World) -> None:
    """Some wait for nothing but the last thing that happens: a node that is opened, or comes, or a quota."""
    last = world.rng.choice(("open", "node", "quota"))
    if last == "quota":
        await world.apply(QUOTAS, quota("default", cpu="0"))
    else:
        for name, pool in POOLS.items():
            await world.apply(NODES, _node(name, pool, cordoned=True))
    for number in range(2):
        await world.apply(PODS, pod(f"last-{number}", cpu="500m"))
    await world.sleep(20)
    if last == "quota":
        await world.apply(QUOTAS, quota("default", cpu=ENOUGH))
    elif last == "node":
        await world.apply(NODES, _node("node-4", "blue"))
    else:
        await world.apply(NODES, _node("node-2", "blue"))


def _node(name: str, pool: str, *, cordoned: bool = False) -> Obj:
    made = node(name, zone=f"zone-{pool}", cordoned=cordoned)
    made["metadata"]["labels"]["pool"] = pool
    if name == KEPT:
        made["spec"]["taints"] = [TAINT]
    return made


def _pod(world: World, name: str) -> Obj:
    made = pod(name, cpu=world.rng.choice(WHOLE))
    spec, chance = made["spec"], world.rng.random
    if chance() < 0.4:
        spec["nodeSelector"] = {"pool": world.rng.choice(("red", "blue"))}
    if chance() < 0.3:
        spec["tolerations"] = [{**TAINT, "operator": "Equal"}]
    if chance() < 0.3:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    if chance() < 0.2:  # When it is deleted, it stays: without a node, and for nobody to place.
        made["metadata"]["finalizers"] = [HELD]
    if chance() < 0.4:
        made["metadata"]["annotations"] = {RUNS_S: f"{1 + 4 * chance():.1f}"}
    return made


SCENARIOS: tuple[Scenario, ...] = (constrained, constrained_twice)
