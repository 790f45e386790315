"""Clients that list by the page, list at a revision that they have kept, or watch from an old revision, while
the store compacts all but the last revisions and servers are behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from fathom.client.api import Api
from fathom.client.events import ERROR, decode_events, revision_of
from fathom.model.errors import ApiError
from fathom.model.objects import Key, metadata
from fathom.model.resources import NAMESPACES
from fathom.seams.process import Inside
from fathom.sim.checkers import at_home
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.meddling import InterferingUser
from fathom.sim.scenarios.staff import OF_HISTORY, all_but, move
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.store_link import at_once
from fathom.sim.world.world import World

READERS = ("pages-1", "pages-2", "watches-1", "watches-2")
SPACES = ("default", "default-2")  # One is a prefix of the other.
SERVERS = ("api-1", "api-2")
PAGE = 3
NAMES = 12
AGO_MAX = 17  # Revisions: a watch that resumes so far back may ask for compacted ones.
KEPT = 6  # Revisions that a compaction keeps.
DRIP_S = 0.3
CUT_S = 0.15  # Shorter than a server takes to reconnect.
TURN_S = 0.4
BURST = 4


class PagedReader:
    """Lists by the page, with a rest between two pages; then again at the revision of the first page, and not
    older than a revision that another client has just seen."""

    def __init__(self, inside: Inside, newest: Callable[[], int]) -> None:
        self._api = Api(inside.seam)
        self._newest = newest
        self._space = str(inside.options["space"])
        inside.domain.create_task(self._run())

    async def _run(self) -> None:
        while True:
            with suppress(ApiError):  # Its revision is compacted: it begins anew.
                await self._list_pages()
            await asyncio.sleep(TURN_S)

    async def _list_pages(self) -> None:
        page = await self._api.list_page(CONFIG_MAPS, self._space, limit=PAGE)
        exact = {"resourceVersion": str(page.revision), "resourceVersionMatch": "Exact"}
        while page.token:
            await asyncio.sleep(TURN_S)
            page = await self._api.list_page(CONFIG_MAPS, self._space, token=page.token, limit=PAGE)
        await self._api.list_page(CONFIG_MAPS, self._space, limit=0, **exact)
        await self._api.list_page(CONFIG_MAPS, self._space, limit=0, resourceVersion=str(self._newest()))


class Resuming:
    """Watches for a while, and then again from some revisions back."""

    def __init__(self, inside: Inside) -> None:
        self._api = Api(inside.seam, headers=(("fathom-bookmark-seconds", "0.5"),))
        self._space = str(inside.options["space"])
        self._turns = 0
        inside.domain.create_task(self._run())

    async def _run(self) -> None:
        reached = 0
        while True:
            self._turns += 1
            try:
                reached = await self._watch(reached)
            except ApiError:
                reached = 0
            await asyncio.sleep(TURN_S / 4)

    async def _watch(self, reached: int) -> int:
        """Returns the revision that it reached; 0 if it must begin with a list."""
        options = (
            {"resourceVersion": str(reached - self._turns * 5 % AGO_MAX)}
            if reached > AGO_MAX
            else _from_the_start()
        )
        if self._turns % 3 == 2:
            options["labelSelector"] = "color=red"
        stream = await self._api.watch(CONFIG_MAPS, self._space, allowWatchBookmarks="true", **options)
        try:
            async with asyncio.timeout(TURN_S * (1 + self._turns % 5)):
                while (chunks := await stream.read()) is not None:
                    for event in decode_events(chunks):
                        if event.type == ERROR:
                            return 0
                        reached = revision_of(event.obj)
        except TimeoutError:
            pass
        finally:
            stream.close()
        return reached


def _from_the_start() -> dict[str, str]:
    return {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}


def checkers() -> Sequence[Checker]:
    return at_home()


@scenario(
    Menu(
        processes=(*READERS, *SERVERS),
        servers=SERVERS,
        kinds=("/configmaps",),
        happenings=("forget", "cut"),
        seconds=12,
        most=8,
        without=all_but(*OF_HISTORY, "pause", "happening"),
    ),
    servers=2,
    checkers=checkers,
    scale=12,
)
async def read_from_long_ago(world: World) -> None:
    """Clients list by the page and at old revisions, and resume old watches, while the store compacts and
    servers lag: every answer is what the store had, complete and of one revision."""
    world.happening("forget", lambda: forget(world))
    world.engine.drip_s = DRIP_S
    world.happening("cut", lambda: world.soon(lambda: cut(world)))

    def leaf(inside: Inside) -> PagedReader:
        return PagedReader(inside, lambda: world.engine.store.newest)

    await world.apply(NAMESPACES, {"metadata": {"name": SPACES[1]}})
    for number, name in enumerate(READERS):
        reader = leaf if name.startswith("pages") else Resuming
        world.process(name, reader, server=1 + number % 2, space=SPACES[0] if number % 2 else "")
    meddler = InterferingUser(world)
    for turn in range(world.scale):
        for _ in range(BURST):
            await come_or_go(world)
        await meddler.meddle()
        await world.sleep(world.rng.random())
        if turn % 3 == 2:
            forget(world)
        move(world, (world.rng.choice(READERS),))
        if turn % 4 == 1:
            world.engine.after(0, world.engine.happenings["cut"])
    await world.heal_and_settle(quiet_s=5)


def forget(world: World) -> None:
    """Compact all but the last few revisions: those must stay complete."""
    store = world.engine.store
    at_once(store.compact(max(1, store.newest - KEPT)))


async def cut(world: World) -> None:
    """A server's connection to the store breaks, and what it misses before it reconnects is compacted."""
    whose = world.rng.choice(SERVERS)
    for link in world.engine.store.links:
        if link.server == whose:
            link.lose_watches()
    await world.sleep(CUT_S)
    world.engine.store.compact_now()


async def come_or_go(world: World) -> None:
    name, space = f"x{world.rng.randrange(NAMES):02}", world.rng.choice(SPACES)
    existing = world.get(CONFIG_MAPS.name, Key(space, name))
    if existing is None or world.rng.random() < 0.6:
        meta = {"name": name, "labels": {"color": world.rng.choice(("red", "blue"))}}
        mark = {"number": str(world.rng.randrange(1000))}
        await world.apply(CONFIG_MAPS, {"metadata": meta, "data": mark}, space)
    else:
        await world.api.delete(CONFIG_MAPS, space, name, uid=metadata(existing)["uid"])


SCENARIOS: tuple[Scenario, ...] = (read_from_long_ago,)
