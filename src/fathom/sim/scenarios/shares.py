"""Capacity classes that keep a part of each node for themselves: what they do not use yet is kept free, and
nothing beyond that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fathom.model.objects import Key, Obj, labels_of, lookup, metadata
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.podresources import amounts
from fathom.model.resources import NODES, PODS
from fathom.sim.checkers.at_rest import of_resource
from fathom.sim.scenarios import scheduling
from fathom.sim.scenarios.overriding import CAPACITY_CLASSES
from fathom.sim.scenarios.scheduling import LEASE, SCHEDULERS, delete_some, node, own, pod, run_scheduler
from fathom.sim.scenarios.simulated_nodes import SimulatedNodes
from fathom.sim.scenarios.staff import AGENT, QUIET_S, TIMING
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

CLASS = "fathom.dev/capacity-class"
CLASSES = "capacityclasses.fathom.dev"
NAMES = ("gold", "silver")
NODE_NAMES = ("node-1", "node-2")
POOL = {"pool": "shared"}
KINDS = ("/pods", "/nodes", "/capacityclasses", "bindingbatches")


class SharesAreKept(Checker):
    """A pod gets a node only if what other classes keep there, and do not use, stays free."""

    name = "what a capacity class keeps stays free for it"
    resources = frozenset({"pods", "nodes", CLASSES})

    def __init__(self) -> None:
        self._objects: dict[str, Obj] = {}  # By path.

    def commit(self, change: Seen) -> Found:
        if change.new is None:
            self._objects.pop(change.path, None)
            return None
        self._objects[change.path] = change.new
        name, had = lookup(change.new, "spec", "nodeName"), lookup(change.old or {}, "spec", "nodeName")
        if change.resource != "pods" or not name or had:
            return None
        on_node = self._objects.get(f"nodes/{name}")
        return None if on_node is None else self._crowded(change.key, change.new, on_node)

    def _crowded(self, key: Key, new: Obj, on_node: Obj) -> Found:
        used = _used_milli(self._pods_on(str(metadata(on_node)["name"])))
        kept = sum(
            max(0, _share_milli(each, on_node) - used.get(str(metadata(each)["name"]), 0))
            for each in of_resource(self._objects, CLASSES)
            if metadata(each)["name"] != _class_of(new)
        )
        room = amounts(on_node["status"]["allocatable"])["cpu"].milli
        if sum(used.values()) + kept <= room:
            return None
        return (
            f"{key.name} got {metadata(on_node)['name']}, where {kept}m of {room}m are kept for other classes"
        )

    def _pods_on(self, name: str) -> Iterable[Obj]:
        pods = of_resource(self._objects, "pods")
        return [
            each
            for each in pods
            if lookup(each, "spec", "nodeName") == name
            and lookup(each, "status", "phase") not in TERMINAL_PHASES
        ]


def _class_of(obj: Obj) -> str:
    return str((metadata(obj).get("annotations") or {}).get(CLASS) or "")


def _used_milli(pods: Iterable[Obj]) -> dict[str, int]:
    """By class; '' for pods of none."""
    used: dict[str, int] = {}
    for each in pods:
        for container in each["spec"]["containers"]:
            asked = amounts(lookup(container, "resources", "requests") or {})
            used[_class_of(each)] = used.get(_class_of(each), 0) + (
                asked["cpu"].milli if "cpu" in asked else 0
            )
    return used


def _share_milli(capacity_class: Obj, on_node: Obj) -> int:
    labels = labels_of(on_node)
    selector = lookup(capacity_class, "spec", "nodeSelector") or {}
    if any(labels.get(name) != value for name, value in selector.items()):
        return 0
    return amounts(lookup(capacity_class, "spec", "resources") or {})["cpu"].milli


def checkers() -> Sequence[Checker]:
    return [*scheduling.checkers(), SharesAreKept()]


@scenario(Menu(processes=(*SCHEDULERS, AGENT), kinds=KINDS, seconds=20, most=6), checkers=checkers, scale=24)
async def shares_of_classes(world: World) -> None:
    """Pods of two capacity classes and of none come and go on nodes that each class has a share of, which
    changes too: no pod gets what is kept for another class, and in the end none waits while there is room."""
    for name in SCHEDULERS:
        run_scheduler(world, name, lease=LEASE, timing=TIMING)
    run_controllers(world, AGENT, SimulatedNodes)
    for name in NODE_NAMES:
        await world.apply(NODES, _node(name))
    for name in NAMES:
        await world.apply(CAPACITY_CLASSES, _class(world, name))
    for number in range(world.scale):
        await world.sleep(1.2 * world.rng.random())
        match world.rng.randrange(8):
            case 0 | 1:
                await delete_some(world)
            case 2:
                await world.apply(CAPACITY_CLASSES, _class(world, world.rng.choice(NAMES)))
            case _:
                await world.apply(PODS, _pod(world, f"p-{number}"))
    await world.heal_and_settle(quiet_s=QUIET_S)


def _node(name: str) -> Obj:
    obj = node(name)
    obj["metadata"]["labels"] |= POOL
    return obj


def _class(world: World, name: str) -> Obj:
    resources = {"cpu": world.rng.choice(("500m", "1", "2"))}
    return own("CapacityClass", name, {"nodeSelector": POOL, "resources": resources, "tenants": ["*"]})


def _pod(world: World, name: str) -> Obj:
    obj = pod(name, cpu=world.rng.choice(("500m", "1", "2")))
    wanted = world.rng.choice(("", "", *NAMES))
    if wanted:
        obj["metadata"]["annotations"] = {CLASS: wanted}
    return obj


SCENARIOS: tuple[Scenario, ...] = (shares_of_classes,)
