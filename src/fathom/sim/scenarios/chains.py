"""Pods that wait for several things, which come one after the other: as soon as the last has come, they are
placed. With `waking`, where each pod waits for one thing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

from fathom.client.api import Resource
from fathom.model.objects import Key, Obj, is_deleting, lookup, uid_of
from fathom.model.resources import NAMESPACES, NODES, PODS
from fathom.sim.scenarios import scheduling
from fathom.sim.scenarios.overriding import CAPACITY_CLASSES, OVERRIDES, override
from fathom.sim.scenarios.own_requests import until_committed
from fathom.sim.scenarios.scheduling import KINDS, QUOTAS, SCHEDULERS, node, own, pod, quota, run_scheduler
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, QUIET_S
from fathom.sim.scenarios.waitsfor import HOST, RESERVED, TAINT, Step, of_tenant
from fathom.sim.scenarios.waking import EARLY, SOON_S, WOKEN
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

MOST = "3500m"  # Of a node's 4 CPUs: too much for any other.
PORT: Obj = {"containerPort": 80, "hostPort": 8080}
NOTE = "fathom.dev/capacity-class"
TEAM = "team-of"  # Of a chain: a namespace where the friend is.

Mark = Callable[[str, Obj, Obj], None]  # Of a chain's name, its node and its pods' template.


class Obstacle(NamedTuple):
    mark: Mark  # What node and pods have because of it.
    put: Step | None  # What else is there before they come.
    remove: Step
    place: str = ""  # Of those for one place a chain has one at most.


# What is on the nodes and pods.


def _cordoned(name: str, of_node: Obj, of_pods: Obj) -> None:
    of_node["spec"]["unschedulable"] = True


def _tainted(name: str, of_node: Obj, of_pods: Obj) -> None:
    of_node["spec"]["taints"] = [TAINT]


def _in_red_pool(name: str, of_node: Obj, of_pods: Obj) -> None:
    of_pods["spec"]["nodeSelector"]["pool"] = "red"


def _of_tenant(name: str, of_node: Obj, of_pods: Obj) -> None:
    of_tenant(of_pods, name)


def _of_class(name: str, of_node: Obj, of_pods: Obj) -> None:
    of_node["metadata"]["labels"]["pool-of"] = name
    of_pods["metadata"]["annotations"] = {NOTE: name}


def _takes_port(name: str, of_node: Obj, of_pods: Obj) -> None:
    """One pod at a time can have it."""
    of_pods["spec"]["containers"][0]["ports"] = [PORT]


def _gated(name: str, of_node: Obj, of_pods: Obj) -> None:
    of_pods["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]


def _seeks_friend(name: str, of_node: Obj, of_pods: Obj) -> None:
    of_pods["spec"].setdefault("affinity", {})["podAffinity"] = _term(f"{name}-friend")


def _seeks_friend_elsewhere(name: str, of_node: Obj, of_pods: Obj) -> None:
    selector = {"namespaceSelector": {"matchLabels": {TEAM: name}}}
    of_pods["spec"].setdefault("affinity", {})["podAffinity"] = _term(f"{name}-friend", **selector)


def _avoids_foe(name: str, of_node: Obj, of_pods: Obj) -> None:
    of_pods["spec"].setdefault("affinity", {})["podAntiAffinity"] = _term(f"{name}-foe")


def _nothing(name: str, of_node: Obj, of_pods: Obj) -> None: ...


def _term(app: str, **more: object) -> Obj:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST, **more}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


# What else is there, and how it goes.


def _neighbour(role: str, cpu: str = "100m", *, space: str = "default", ports: bool = False) -> Step:
    async def comes(world: World, name: str) -> None:
        obj = pod(f"{name}-{role}", cpu=cpu, labels={"app": f"{name}-{role}"})
        obj["metadata"]["namespace"] = _space(space, name)
        obj["spec"]["nodeName"] = name
        if ports:
            obj["spec"]["containers"][0]["ports"] = [PORT]
        if space != "default":
            await world.apply(NAMESPACES, {"metadata": {"name": _space(space, name)}})
        await world.apply(PODS, obj, _space(space, name))

    return comes


def _space(space: str, name: str) -> str:
    return space if space == "default" else f"{space}-{name}"


def _leaves(role: str) -> Step:
    async def leaves(world: World, name: str) -> None:
        await world.delete(PODS, f"{name}-{role}")

    return leaves


async def _joins_the_team(world: World, name: str) -> None:
    await world.apply(NAMESPACES, {"metadata": {"name": _space(TEAM, name), "labels": {TEAM: name}}})


def _quota(cpu: str) -> Step:
    async def apply(world: World, name: str) -> None:
        await world.apply(QUOTAS, quota(name, cpu=cpu))

    return apply


def _class(pool: str) -> Step:
    """Of nodes in this pool; everyone may use it."""

    async def apply(world: World, name: str) -> None:
        spec = {"nodeSelector": {"pool-of": pool or name}, "tenants": ["*"]}
        await world.apply(CAPACITY_CLASSES, own("CapacityClass", name, spec))

    return apply


async def _avoid_zone(world: World, name: str) -> None:
    await world.apply(OVERRIDES, override(name, {"avoidZones": [f"zone-{name}"]}, lasts_s=600))


async def _end_override(world: World, name: str) -> None:
    """No controller of overrides runs here, so its finalizer stays. It has ended all the same."""
    while not is_deleting(stored := world.get(OVERRIDES.name, Key("default", name)) or {}):
        await world.api.delete(OVERRIDES, "default", name, uid=uid_of(stored))
        await world.sleep(0.2)


async def _reserve(world: World, name: str) -> None:
    room = {"resources": {"cpu": MOST, "pods": "1"}, "nodeName": name}
    spec = {"workload": {"name": name, "uid": name}, "intent": "x", **room}
    await world.apply(RESERVED, own("Reservation", name, spec))


async def _release(world: World, name: str) -> None:
    await _patch(world, RESERVED, Key("default", name), {"status": {"phase": "Released"}}, "status")


def _node_gets(patch: Obj) -> Step:
    async def change(world: World, name: str) -> None:
        await _patch(world, NODES, Key("", name), patch)

    return change


def _pods_get(patch: Obj) -> Step:
    async def change(world: World, name: str) -> None:
        for key in _pods(world, name):
            await _patch(world, PODS, key, patch)

    return change


async def _patch(world: World, resource: Resource, key: Key, patch: Obj, subresource: str = "") -> None:
    await until_committed(world, lambda: world.api.patch(resource, *key, patch, subresource=subresource))


TOLERATED = [{"key": TAINT["key"], "operator": "Exists"}]
OBSTACLES = {
    "cordoned": Obstacle(_cordoned, None, _node_gets({"spec": {"unschedulable": None}})),
    "tainted": Obstacle(_tainted, None, _node_gets({"spec": {"taints": None}}), "taint"),
    "not-tolerated": Obstacle(_tainted, None, _pods_get({"spec": {"tolerations": TOLERATED}}), "taint"),
    "not-labelled": Obstacle(_in_red_pool, None, _node_gets({"metadata": {"labels": {"pool": "red"}}})),
    "gated": Obstacle(_gated, None, _pods_get({"spec": {"schedulingGates": None}})),
    "full": Obstacle(_nothing, _neighbour("big", MOST), _leaves("big"), "room"),
    "reserved": Obstacle(_nothing, _reserve, _release, "room"),
    "port": Obstacle(_takes_port, _neighbour("port", ports=True), _leaves("port")),
    "quota": Obstacle(_of_tenant, _quota("0"), _quota("8")),
    # A friend that comes later would have to ask for the class too.
    "class": Obstacle(_of_class, _class("other"), _class(""), "friend"),
    "avoided": Obstacle(_nothing, _avoid_zone, _end_override),
    "friend": Obstacle(_seeks_friend, None, _neighbour("friend"), "friend"),
    "friend-elsewhere": Obstacle(
        _seeks_friend_elsewhere, _neighbour("friend", space=TEAM), _joins_the_team, "friend"
    ),
    "foe": Obstacle(_avoids_foe, _neighbour("foe"), _leaves("foe")),
}


@scenario(
    Menu(processes=SCHEDULERS[:1], kinds=KINDS), scripted=EARLY[:1], checkers=scheduling.checkers, scale=8
)
async def many_things_are_in_the_way(world: World) -> None:
    """Two to four things are in the way of a pod, or of several equal ones, and go one after the other, in
    any order: each pod is placed soon after the last, and not by a timer."""
    run_scheduler(world, SCHEDULERS[0])
    run_controllers(world, AGENT, SimulatedNodes)
    await world.sleep(3)
    for number in range(world.scale):
        name = f"chain-{number}"
        chosen = _chosen(world)
        await _prepare(world, name, chosen)
        for each in chosen:
            await world.sleep(1 + 1.5 * world.rng.random())
            await OBSTACLES[each].remove(world, name)
        await _wait_until_placed(world, name, chosen)
    await world.heal_and_settle(quiet_s=QUIET_S)


def _chosen(world: World) -> list[str]:
    """In the order in which they go."""
    listed, places = list[str](), set[str]()
    for name in world.rng.sample(sorted(OBSTACLES), len(OBSTACLES)):
        place = OBSTACLES[name].place or name
        if place not in places:
            places.add(place)
            listed.append(name)
    return listed[: world.rng.choice((2, 2, 3, 4))]


async def _prepare(world: World, name: str, chosen: list[str]) -> None:
    of_node = node(name, zone=f"zone-{name}")
    of_pods = pod(name, cpu="600m")
    of_pods["spec"]["nodeSelector"] = {HOST: name}
    for each in chosen:
        OBSTACLES[each].mark(name, of_node, of_pods)
    await world.apply(NODES, of_node)
    for each in chosen:
        put = OBSTACLES[each].put
        if put is not None:
            await put(world, name)
    await world.sleep(0.7)  # Every process has seen the obstacles.
    for number in range(1 if "port" in chosen else world.rng.choice((1, 1, 3))):
        obj = copy.deepcopy(of_pods)
        obj["metadata"]["name"] = f"{name}-waits-{number}"
        await world.apply(PODS, obj)


def _pods(world: World, name: str) -> list[Key]:
    """Those that wait, or have waited."""
    names = (f"{name}-waits-{number}" for number in range(3))
    return [key for each in names if world.get("pods", key := Key("default", each)) is not None]


async def _wait_until_placed(world: World, name: str, chosen: list[str]) -> None:
    until_s = world.now_s + SOON_S
    for key in _pods(world, name):
        while not lookup(world.get("pods", key), "spec", "nodeName"):
            if world.now_s > until_s:
                gone = ", ".join(chosen)
                world.broken(
                    WOKEN, f"{gone}: nothing is in the way of {key.name} now", f"pods/{'/'.join(key)}"
                )
            await world.sleep(0.2)


SCENARIOS: tuple[Scenario, ...] = (many_things_are_in_the_way,)
