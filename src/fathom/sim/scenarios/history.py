"""Caches that fall behind while the store compacts its history, and while servers crash and lag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from fathom.control.kit import Kit
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import CONFIG_MAP, SECRET, Primary, Related, Watch
from fathom.model.objects import Key, Obj, metadata
from fathom.model.resources import SECRETS
from fathom.sim.checkers import at_home
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.staff import OF_HISTORY, QUIET_S, all_but, move
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

READERS = ("reads-1", "reads-2")
SERVERS = ("api-1", "api-2")
BEHIND_S = 3.0
MOVES = 0.15  # How often a balancer moves a reader to the other server, per change of an object.


class Reader:
    """Follows two kinds and does nothing: its state is its cache."""

    name = "reader"
    watches: ClassVar[tuple[Watch, ...]] = (Primary(CONFIG_MAP, conditions=False), Related(SECRET))

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        return ReconcileResult.never()


def checkers() -> Sequence[Checker]:
    return at_home()


@scenario(
    Menu(
        processes=READERS,
        servers=SERVERS,
        kinds=("/configmaps", "/secrets"),
        happenings=("move", "forget"),
        seconds=15,
        most=8,
        without=all_but(*OF_HISTORY, "hold-watch", "happening"),
    ),
    servers=2,
    checkers=checkers,
    scale=30,
)
async def informer_relists(world: World) -> None:
    """Caches are cut off while objects come and go and the store compacts its history: in the end they equal
    the store."""
    for number, name in enumerate(READERS, 1):
        run_controllers(world, name, Reader, server=number)
    world.happening("move", lambda: move(world, READERS))
    world.happening("forget", lambda: world.soon(lambda: fall_behind(world)))
    for number in range(world.scale):
        await world.sleep(world.rng.random())
        await _create_or_delete(world, number)
        if world.rng.random() < MOVES:
            move(world, (world.rng.choice(READERS),))
    await world.heal_and_settle(quiet_s=QUIET_S)


async def fall_behind(world: World) -> None:
    """Readers receive nothing for a while, and the events that they miss are compacted: in the store, and in
    servers that restart."""
    for name in READERS:
        world.engine.network.drop_watches(name, "")
    async with world.held("watch=true"):
        await world.sleep(BEHIND_S)
        world.engine.store.compact_now()
        for server in SERVERS:
            world.crash(server, restart_after_s=0.1)
        await world.sleep(0.5)
    world.sometimes("events that a cache missed are compacted")


async def _create_or_delete(world: World, number: int) -> None:
    """The same few names all the time: a cache that misses a deletion takes a new object for the deleted
    one."""
    resource = world.rng.choice((CONFIG_MAPS, CONFIG_MAPS, SECRETS))
    name = f"x{world.rng.randrange(8)}"
    existing = world.get(resource.name, Key("default", name))
    if existing is None or world.rng.random() < 0.3:
        await world.apply(resource, thing(name, number))
    else:
        await world.api.delete(resource, "default", name, uid=metadata(existing)["uid"])


def thing(name: str, number: int) -> Obj:
    return {"metadata": {"name": name, "labels": {"number": str(number)}}}


SCENARIOS: tuple[Scenario, ...] = (informer_relists,)
