"""Names are given to other objects in the middle of everything: an eviction, a collection, a slow write about
the object that had the name before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fathom.client.api import Resource
from fathom.client.outcomes import Committed
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.resources import DEFINITIONS, NAMESPACES, PODS, SECRETS
from fathom.sim.checkers import at_home
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.history import READERS, Reader
from fathom.sim.scenarios.objects import pod_spec
from fathom.sim.scenarios.staff import QUIET_S
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NAMES = tuple(f"name-{number}" for number in range(4))
UNHEARD_OF = {"apiVersion": "example.com/v1", "kind": "Machine", "name": "owner", "uid": "uid-of-a-machine"}
MOMENT_S = 0.004  # About as long as a request takes.


def checkers() -> Sequence[Checker]:
    return at_home()


@scenario(
    Menu(processes=READERS, servers=("api-1", "api-2"), kinds=("/secrets",), seconds=8, most=6),
    servers=2,
    checkers=checkers,
    scale=60,
)
async def named_again_in_the_middle(world: World) -> None:
    """Pods are evicted, children of deleted owners are collected and writes are under way while other objects
    take their names: each write changes the object that it names, and the namesakes stay."""
    for number, name in enumerate(READERS, 1):
        run_controllers(world, name, Reader, server=number)
    of_a_machine = await _with_an_unheard_of_owner(world)
    for _ in range(world.scale):
        name = world.rng.choice(NAMES)
        change = world.rng.choice(
            (_evict_and_replace, _collect_and_replace, _patch_and_replace, _empty_again)
        )
        await change(world, name)
    assert world.get("secrets", key_of(of_a_machine)) is not None, "an owner of an unknown kind may exist"
    await world.delete(SECRETS, key_of(of_a_machine).name)
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _evict_and_replace(world: World, name: str) -> None:
    await world.api.create(PODS, "default", {"metadata": {"name": name}, "spec": pod_spec()})
    pod = world.get("pods", Key("default", name))
    if pod is None:
        return
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid_of(pod)}}
    eviction = {
        "kind": "Eviction",
        "apiVersion": "policy/v1",
        "metadata": {"name": name},
        "deleteOptions": options,
    }
    await asyncio.gather(
        world.api.create(PODS, "default", eviction, subresource="eviction"),
        _replace(world, pod, {"metadata": {"name": name}, "spec": pod_spec()}),
    )


async def _replace(world: World, pod: Obj, successor: Obj) -> None:
    """Remove the pod at some moment, and give its name to another at once."""
    await asyncio.sleep(MOMENT_S * world.rng.random())
    name = key_of(pod).name
    await world.api.delete(PODS, "default", name, uid=uid_of(pod), grace_s=0)
    await world.api.create(PODS, "default", successor)


async def _collect_and_replace(world: World, name: str) -> None:
    """The owner of a secret is deleted; when the secret is collected, another takes its name at once."""
    owner = await world.apply(CONFIG_MAPS, {"metadata": {"name": name}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid_of(owner)}
    await world.api.create(SECRETS, "default", {"metadata": {"name": name, "ownerReferences": [reference]}})
    secret = world.get("secrets", Key("default", name))
    await world.api.delete(CONFIG_MAPS, "default", name, uid=uid_of(owner))
    for _ in range(200):
        current = world.get("secrets", Key("default", name))
        if secret is None or current is None or uid_of(current) != uid_of(secret):
            break
        await asyncio.sleep(MOMENT_S / 4)
    await world.api.create(SECRETS, "default", {"metadata": {"name": name}})
    await asyncio.sleep(10 * MOMENT_S)
    for obj in world.list("secrets", "default"):
        if key_of(obj).name == name and not is_deleting(obj):
            await world.api.delete(SECRETS, "default", name, uid=uid_of(obj))


async def _patch_and_replace(world: World, name: str) -> None:
    """A write about a config map is under way when another takes its name."""
    config = await world.apply(CONFIG_MAPS, {"metadata": {"name": name}})
    patch = {"metadata": {"uid": metadata(config)["uid"]}, "data": {"meant": uid_of(config)}}

    async def renamed() -> None:
        await world.api.delete(CONFIG_MAPS, "default", name, uid=uid_of(config))
        await world.api.create(CONFIG_MAPS, "default", {"metadata": {"name": name}})

    async def written() -> None:
        await asyncio.sleep(2 * MOMENT_S * world.rng.random())
        await world.api.patch(CONFIG_MAPS, "default", name, patch)

    await asyncio.gather(renamed(), written())


async def _empty_again(world: World, name: str) -> None:
    """A namespace is deleted; when it is gone, another takes its name at once."""
    await world.api.create(NAMESPACES, "", {"metadata": {"name": name}})
    space = world.get("namespaces", Key("", name))
    if space is None or is_deleting(space):
        return
    await world.api.delete(NAMESPACES, "", name, uid=uid_of(space))
    for _ in range(400):
        if world.get("namespaces", Key("", name)) is None:
            break
        await asyncio.sleep(MOMENT_S / 4)
    await world.api.create(NAMESPACES, "", {"metadata": {"name": name}})
    await asyncio.sleep(10 * MOMENT_S)
    successor = world.get("namespaces", Key("", name))
    if successor is not None and not is_deleting(successor):
        kept = lookup(successor, "spec", "finalizers")
        assert kept == ["kubernetes"], f"namespace {name} is new, and has the finalizers {kept}"


async def _with_an_unheard_of_owner(world: World) -> Obj:
    """One owner is of a kind that nobody has defined, the other is gone: the object may still be needed."""
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "uid-of-nobody"}
    meta = {"name": "of-a-machine", "ownerReferences": [UNHEARD_OF, gone]}
    return await world.apply(SECRETS, {"metadata": meta})


WIDGETS = Resource("example.com", "v1", "widgets")


def _definition() -> Obj:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "widgets.example.com"}, "spec": spec}


@scenario(
    Menu(processes=READERS, servers=("api-1", "api-2"), seconds=8, most=4),
    servers=2,
    checkers=checkers,
    scale=6,
)
async def defined_again(world: World) -> None:
    """The definition of a custom kind is deleted with its objects, and defined again at once: the new objects
    stay, whichever server is still busy with the old ones. A finalizer holds some for a while: as long, the
    definition stays."""
    for number in range(world.scale):
        await world.define(_definition())
        name, held = f"w-{number % 2}", world.rng.random() < 0.4
        meta = {"name": name, **({"finalizers": ["example.com/hold"]} if held else {})}
        await world.apply(WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta})
        definition = world.get(DEFINITIONS.name, Key("", "widgets.example.com"))
        assert definition is not None
        await asyncio.sleep(20 * MOMENT_S)
        assert world.list(WIDGETS.name), "a widget of a new definition was deleted"
        await world.api.delete(DEFINITIONS, "", "widgets.example.com", uid=uid_of(definition))
        if held:
            await world.sleep(2 * world.rng.random())
            assert world.get(DEFINITIONS.name, Key("", "widgets.example.com")), "held objects have no kind"
            await _let_go(world, name)
        for _ in range(40_000):
            if world.get(DEFINITIONS.name, Key("", "widgets.example.com")) is None:
                break
            await asyncio.sleep(MOMENT_S / 4)
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _let_go(world: World, name: str) -> None:
    while (widget := world.get(WIDGETS.name, Key("default", name))) is not None:
        patch = {"metadata": {"uid": uid_of(widget), "finalizers": None}}
        if isinstance(await world.api.patch(WIDGETS, "default", name, patch), Committed):
            return
        await world.sleep(0.1)


SCENARIOS: tuple[Scenario, ...] = (named_again_in_the_middle, defined_again)
