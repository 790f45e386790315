"""Pods that do not fit every node, because of its labels, taints, ports or remaining room, and pods that end
by themselves and leave room for others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fathom.model.objects import Obj, is_deleting, key_of, labels_of, lookup
from fathom.model.resources import NODES, PODS
from fathom.sim.checkers import at_home
from fathom.sim.checkers.capacity import held
from fathom.sim.checkers.scheduling import NoSchedulablePodIdles, WaitingPodsSayWhy
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
from fathom.sim.scenarios.simulated_nodes import RUNS_S, SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, OF_WATCHES, QUIET_S, TIMING, all_but
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Finding
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

POOLS = {"node-1": "red", "node-2": "blue", "node-3": "red"}
KEPT, TAINT = "node-3", {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
HELD = "example.com/held"
CPU_MILLI = 4000  # Of each node.
ENOUGH = "20"  # More than all nodes have: the quota limits nothing.
WHOLE = ("1", "2", "4")  # Pods of these sizes can fill a node completely.


class NobodyWaitsBesideRoom(Checker):
    """Compares the CPU of waiting pods with what is left on each node. It does not use the scheduler's own
    rules, which may be wrong."""

    name = "no schedulable pod idles"

    def settled(self, world: World) -> Iterable[str | Finding]:
        pods = world.list("pods")
        used: dict[str, int] = {}
        for pod_obj in pods:
            usage = held("pods", pod_obj)
            if usage is not None:
                used[usage[0]] = used.get(usage[0], 0) + usage[2].get("cpu", 0)
        for pod_obj in pods:
            if lookup(pod_obj, "spec", "nodeName") or is_deleting(pod_obj):
                continue
            for name in _allowed_nodes(pod_obj, world.list("nodes")):
                if used.get(name, 0) + _cpu_milli(pod_obj) <= CPU_MILLI:
                    path = "/".join(("pods", *key_of(pod_obj)))
                    yield Finding(f"{path} waits although {name} has room", (path,))


def _cpu_milli(pod: Obj) -> int:
    placed = {**pod, "spec": {**pod["spec"], "nodeName": "anywhere"}}
    usage = held("pods", placed)
    return usage[2].get("cpu", 0) if usage is not None else 0


def _allowed_nodes(pod: Obj, nodes: Iterable[Obj]) -> list[str]:
    """The nodes that may take the pod. A pod with ports is not judged: the scheduler decides on these."""
    if any(container.get("ports") for container in pod["spec"]["containers"]):
        return []
    wanted = pod["spec"].get("nodeSelector") or {}
    tolerates = any(
        toleration.get("key") == TAINT["key"] for toleration in pod["spec"].get("tolerations") or ()
    )
    return [
        key_of(node).name
        for node in nodes
        if not lookup(node, "spec", "unschedulable")
        and all(labels_of(node).get(name) == value for name, value in wanted.items())
        and (tolerates or key_of(node).name != KEPT)
    ]


def checkers() -> Sequence[Checker]:
    return [*at_home(), NoSchedulablePodIdles(), WaitingPodsSayWhy(), NobodyWaitsBesideRoom()]


@scenario(Menu(processes=(*SCHEDULERS, AGENT), kinds=KINDS, seconds=25, most=8), checkers=checkers, scale=30)
async def constrained(world: World) -> None:
    """Pods with node selectors, tolerations and host ports fill the nodes completely, and some end by
    themselves: in the end no pod waits while a node has room for it."""
    for name in SCHEDULERS:
        run_scheduler(world, name, lease=LEASE, timing=TIMING)
    await _fill_nodes(world)


@scenario(
    Menu(processes=SCHEDULERS, kinds=KINDS, seconds=25, most=8, without=all_but(*OF_WATCHES, "lose-reply")),
    checkers=checkers,
    scale=30,
)
async def constrained_twice(world: World) -> None:
    """Two schedulers place pods with constraints from caches of different ages: no node gets more than it
    has, and in the end no pod waits while a node has room for it."""
    for name in SCHEDULERS:
        run_scheduler(world, name)
    await _fill_nodes(world)


async def _fill_nodes(world: World) -> None:
    run_controllers(world, AGENT, SimulatedNodes)
    for name, pool in POOLS.items():
        await world.apply(NODES, _node(name, pool))
    await world.apply(QUOTAS, quota("default", cpu=ENOUGH))
    for number in range(world.scale):
        await world.sleep(1.2 * world.rng.random())
        if world.rng.random() < 0.3:
            await delete_some(world)
        else:
            await world.apply(PODS, _pod(world, f"p-{number}"))
    await world.sleep(8)  # By then the pods that end by themselves have ended.
    for leftover in world.list("pods", "default"):
        await world.api.patch(PODS, "default", key_of(leftover).name, {"metadata": {"finalizers": None}})
    world.heal()
    await _unblock_last_pods(world)
    await world.settle(quiet_s=QUIET_S)


async def _unblock_last_pods(world: World) -> None:
    """Some pods wait for the last thing that happens: a node is uncordoned, a node is added, or the quota is
    raised."""
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
    obj = node(name, zone=f"zone-{pool}", cordoned=cordoned)
    obj["metadata"]["labels"]["pool"] = pool
    if name == KEPT:
        obj["spec"]["taints"] = [TAINT]
    return obj


def _pod(world: World, name: str) -> Obj:
    obj = pod(name, cpu=world.rng.choice(WHOLE))
    spec, chance = obj["spec"], world.rng.random
    if chance() < 0.4:
        spec["nodeSelector"] = {"pool": world.rng.choice(("red", "blue"))}
    if chance() < 0.3:
        spec["tolerations"] = [{**TAINT, "operator": "Equal"}]
    if chance() < 0.3:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    if chance() < 0.2:  # When it is deleted, it stays, without a node; no scheduler may place it.
        obj["metadata"]["finalizers"] = [HELD]
    if chance() < 0.4:
        obj["metadata"]["annotations"] = {RUNS_S: f"{1 + 4 * chance():.1f}"}
    return obj


SCENARIOS: tuple[Scenario, ...] = (constrained, constrained_twice)
