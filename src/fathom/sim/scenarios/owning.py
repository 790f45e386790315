"""Owners are deleted in every way, and new objects take their names at once; whole namespaces are deleted:
the garbage collector deletes only what has no owner left, and leaves nothing of that."""

from __future__ import annotations

import asyncio

from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, is_deleting, key_of, metadata, uid_of
from fathom.model.resources import NAMESPACES, SECRETS
from fathom.sim.checkers import at_home
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.history import READERS, Reader
from fathom.sim.scenarios.staff import QUIET_S
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.store_link import at_once
from fathom.sim.world.world import World
from fathom.store.protocol import Compacted

OWNERS = tuple(f"owner-{number}" for number in range(3))
SPACES = ("here", "there")
POLICIES = ("Background", "Foreground", "Foreground", "Orphan")
HELD = "example.com/held"


@scenario(
    Menu(
        processes=READERS,
        servers=("api-1", "api-2"),
        kinds=("/configmaps", "/secrets"),
        seconds=20,
        most=8,
    ),
    servers=2,
    checkers=at_home,
    scale=45,
)
async def owners_come_and_go(world: World) -> None:
    """Owners are deleted in the background, in the foreground or without their children, some of which have
    children of their own, and namesakes are created at once; namespaces are deleted with objects that
    finalizers hold: only objects without an owner are collected, each after those that it waits for, and none
    of these is left."""
    for number, name in enumerate(READERS, 1):
        run_controllers(world, name, Reader, server=number)
    for name in SPACES:
        await world.apply(NAMESPACES, {"metadata": {"name": name}})
    ever: list[Obj] = []
    for number in range(world.scale):
        await world.sleep(world.rng.random())
        ever += [obj for obj in world.list("configmaps") if obj not in ever and key_of(obj).name in OWNERS]
        await _change(world, number, ever)
    await _remove_finalizers(world)
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _change(world: World, number: int, ever: list[Obj]) -> None:
    """`ever`: all owners that ever existed. A client that is behind takes them for alive."""
    space = world.rng.choice(("default", *SPACES))
    action = world.rng.choice(
        (
            *("owner", "child", "child", "child", "grandchild", "family", "family"),
            *("delete", "replace", "late", "space", "trying", "reading"),
        )
    )
    name = world.rng.choice(OWNERS)
    if action == "child":
        await _create_child(world, space, number, _possible_owners(world, space, ever))
    elif action == "grandchild":
        await _create_child(world, space, number, world.list("secrets", space))
    elif action == "family":
        await _delete_family(world, space, number)
    elif action == "trying":
        await _dry_run(world, space, name)
    elif action == "reading":
        await _list_pages(world)
    elif action == "late" and ever:
        owner = world.rng.choice(ever)
        await world.api.delete(CONFIG_MAPS, *key_of(owner), uid=uid_of(owner))
    elif action == "space" and space != "default":
        await _delete_or_create_namespace(world, space)
    elif action == "owner":
        await _create_owner(world, space, name)
    else:
        await _delete_owner(world, space, name)
        if action == "replace":
            await _create_owner(world, space, name)


async def _create_owner(world: World, space: str, name: str) -> None:
    """Refused when the namespace is being deleted."""
    await world.api.create(CONFIG_MAPS, space, {"metadata": {"name": name}})


def _possible_owners(world: World, space: str, ever: list[Obj]) -> list[Obj]:
    if world.rng.random() < 0.5:
        return [owner for owner in world.list("configmaps", space) if key_of(owner).name in OWNERS]
    return [owner for owner in ever if key_of(owner).namespace == space]


async def _delete_family(world: World, space: str, number: int) -> None:
    """An owner, some of whose children have children of their own, as a Deployment has, is deleted."""
    name = world.rng.choice(OWNERS)
    await _create_owner(world, space, name)
    first = [owner for owner in (world.get("configmaps", Key(space, name)),) if owner is not None]
    for step in range(1, 6):
        born = [secret for secret in world.list("secrets", space) if _is_of(secret, first)]
        await _create_child(world, space, 100 * number + step, world.rng.choice((first, born or first)))
    await world.sleep(world.rng.choice((0.5, 3.0)))
    await _delete_owner(world, space, name)
    if world.rng.random() < 0.5:
        await _create_owner(world, space, name)  # A namesake; refused while the owner waits.


def _is_of(secret: Obj, owners: list[Obj]) -> bool:
    references = metadata(secret).get("ownerReferences") or ()
    return any(reference["uid"] == uid_of(owner) for reference in references for owner in owners)


async def _create_child(world: World, space: str, number: int, owners: list[Obj]) -> None:
    chosen = world.rng.sample(owners, min(len(owners), world.rng.choice((1, 1, 2))))
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap" if key_of(owner).name in OWNERS else "Secret",
            "name": key_of(owner).name,
            "uid": uid_of(owner),
            "blockOwnerDeletion": world.rng.random() < 0.5,
        }
        for owner in chosen
    ]
    meta: Obj = {"name": f"child-{number}", "ownerReferences": references}
    if world.rng.random() < 0.3:
        meta["finalizers"] = [HELD]
    if references:
        await world.api.create(SECRETS, space, {"metadata": meta})


async def _delete_owner(world: World, space: str, name: str) -> None:
    current = world.get("configmaps", Key(space, name))
    if current is not None and not is_deleting(current):
        policy = world.rng.choice(POLICIES)
        await world.api.delete(CONFIG_MAPS, space, name, uid=uid_of(current), policy=policy)


async def _dry_run(world: World, space: str, name: str) -> None:
    """Dry runs: they are answered, and change nothing."""
    await world.api._write("DELETE", f"{CONFIG_MAPS.path(space, name)}?dryRun=All", {})
    tried = {"metadata": {"name": name}}
    await world.api._write("POST", f"{CONFIG_MAPS.path(space)}?dryRun=All", tried)


async def _list_pages(world: World) -> None:
    """List by the page: all pages are of one revision."""
    try:
        page = await world.api.list_page(SECRETS, limit=2)
        revision, names = page.revision, ["/".join(key_of(obj)) for obj in page.items]
        while page.token:
            page = await world.api.list_page(SECRETS, limit=2, token=page.token)
            names += ["/".join(key_of(obj)) for obj in page.items]
    except ApiError:
        return  # The server is starting, or the store has forgotten.
    try:
        listed = at_once(world.engine.store.range("/registry/secrets/", revision=revision)).entries
    except Compacted:
        return
    wanted = [entry.key.removeprefix("/registry/secrets/") for entry in listed]
    assert names == wanted, f"at revision {revision} the store had {wanted}, the pages have {names}"


async def _delete_or_create_namespace(world: World, space: str) -> None:
    current = world.get("namespaces", Key("", space))
    if current is None:
        await world.api.create(NAMESPACES, "", {"metadata": {"name": space}})
    elif not is_deleting(current):
        await world.api.delete(NAMESPACES, "", space, uid=uid_of(current))


async def _remove_finalizers(world: World) -> None:
    """Remove the finalizers that hold objects."""
    while held := [
        secret for secret in world.list("secrets") if HELD in (metadata(secret).get("finalizers") or ())
    ]:
        for secret in held:
            space, name = key_of(secret)
            meta = metadata(secret)
            others = [finalizer for finalizer in meta["finalizers"] if finalizer != HELD]
            change = {"finalizers": others, "resourceVersion": meta["resourceVersion"]}
            await world.api.patch(SECRETS, space, name, {"metadata": change})
        await asyncio.sleep(0.2)


SCENARIOS: tuple[Scenario, ...] = (owners_come_and_go,)
