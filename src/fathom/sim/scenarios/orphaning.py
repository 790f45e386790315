"""Owners are deleted while servers are behind, with what is below them or without: what an owner leaves
behind lives on, also what was created just before."""

from __future__ import annotations

import asyncio

from fathom.model.objects import Key, Obj, is_deleting, key_of, metadata, uid_of
from fathom.model.resources import SECRETS
from fathom.sim.checkers import at_home
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.staff import QUIET_S, all_but
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

SERVERS = ("api-1", "api-2")
MEMBERS = 8
BUSY_S = 0.02  # Collectors need about as long for all the members.
POLICIES = ("Orphan", "Orphan", "Foreground", "Background")


@scenario(
    Menu(
        processes=SERVERS,
        servers=SERVERS,
        seconds=15,
        most=4,
        without=all_but("stale-server", "compact", "commit-unknown", "commit-lost", "partition"),
    ),
    servers=2,
    checkers=at_home,
    scale=5,
)
async def orphaned_while_servers_lag(world: World) -> None:
    """The owner of many is deleted while somebody labels these, so that garbage collectors lose races and try
    again. Meanwhile servers fall behind, and others give the dependents new ones of their own and delete
    them, with those or without, or their other owner, or replace the first one: nothing is collected that was
    left behind, and nothing stays that was not."""
    for number in range(world.scale):
        owners = [await _create(world, f"top-{number}")]
        if world.rng.random() < 0.4:
            owners.append(await _create(world, f"second-{number}"))
        members = [await _create_below(world, f"member-{number}-{each}", *owners) for each in range(MEMBERS)]
        if world.rng.random() < 0.5:
            await _create_below(world, f"below-{number}", world.rng.choice(members))
        await world.sleep(0.5)
        await asyncio.gather(
            _delete(world, owners[0], world.rng.choice(("Background", "Foreground"))),
            *(_label_again_and_again(world, member) for member in members),
            _act_unseen(world, number, members, owners[1:]),
        )
        if world.rng.random() < 0.5:
            await _replace(world, number)
        await world.sleep(2 * world.rng.random())
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _label_again_and_again(world: World, member: Obj) -> None:
    for nth in range(4):
        await world.sleep(0.01 * world.rng.random())
        change = {"metadata": {"labels": {"seen": str(nth)}}}
        await world.api.patch(SECRETS, "default", key_of(member).name, change)


async def _act_unseen(world: World, number: int, members: list[Obj], others: list[Obj]) -> None:
    """Nobody waits for an answer: those of servers that are behind come late. If the members have another
    owner, that one is deleted, and not they."""
    await world.sleep(BUSY_S + BUSY_S * world.rng.random())
    for server in world.rng.choice((SERVERS, SERVERS, SERVERS[:1], SERVERS[1:])):
        world.delay_server(server, for_s=0.5 + world.rng.random())
    names = [f"late-{number}-{each}" for each in range(len(members))]
    below = [
        asyncio.create_task(_create_below(world, name, member))
        for name, member in zip(names, members, strict=True)
    ]
    await world.sleep(0.01)
    policies = ("Foreground",) if others else POLICIES
    await asyncio.gather(
        *(_delete(world, obj, world.rng.choice(policies)) for obj in others or members), *below
    )


async def _replace(world: World, number: int) -> None:
    """A namesake comes and goes at once. It is refused while the old owner waits for its dependents."""
    again = await _create(world, f"top-{number}")
    await _create_below(world, f"again-{number}", again)
    await _delete(world, again, world.rng.choice(POLICIES))


async def _create(world: World, name: str) -> Obj:
    await world.api.create(CONFIG_MAPS, "default", {"metadata": {"name": name}})
    return world.get(CONFIG_MAPS.name, Key("default", name)) or {}


async def _create_below(world: World, name: str, *owners: Obj) -> Obj:
    """Whoever creates it may not have heard that an owner is gone."""
    references = [
        {
            "apiVersion": "v1",
            "kind": "Secret" if "type" in owner else "ConfigMap",
            "name": key_of(owner).name,
            "uid": uid_of(owner),
            "blockOwnerDeletion": world.rng.random() < 0.7,
        }
        for owner in owners
        if owner
    ]
    if not references:
        return {}
    meta = {"name": name, "ownerReferences": references}
    await world.api.create(SECRETS, "default", {"metadata": meta})
    return world.get(SECRETS.name, Key("default", name)) or {}


async def _delete(world: World, obj: Obj, policy: str) -> None:
    if not obj or is_deleting(obj):
        return
    resource = SECRETS if "type" in obj else CONFIG_MAPS
    await world.api.delete(resource, "default", str(metadata(obj)["name"]), uid=uid_of(obj), policy=policy)


SCENARIOS: tuple[Scenario, ...] = (orphaned_while_servers_lag,)
