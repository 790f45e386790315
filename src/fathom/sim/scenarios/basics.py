"""The API server and the simplest clients, with every fault: what all other scenarios rely on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from fathom.client.api import Api, Resource
from fathom.client.events import BOOKMARK, DELETED, ERROR, decode_events, revision_of
from fathom.client.outcomes import Committed
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, key_of, metadata
from fathom.seams.process import Inside
from fathom.sim.checkers.api_answers import AnswersAreTrue
from fathom.sim.checkers.writes import WritesAreAsAsked
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Finding, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

CONFIG_MAPS = Resource("", "v1", "configmaps")
COUNTER = Key("default", "counter")

RETRY_S = 0.5
SILENT_S = 10.0  # A watch without an event for so long, although it asked for bookmarks, is dead.


class Counting:
    """Adds its own marks to a shared object, one at a time: it reads the object, adds a mark and writes it
    back. Before it retries a mark that may have been written, it looks for it."""

    def __init__(self, inside: Inside, marks: int) -> None:
        self._api = Api(inside.seam)
        self._me = f"{inside.options['who']}-{inside.incarnation}"
        self._marks = marks
        inside.domain.create_task(self._run())

    async def _run(self) -> None:
        for number in range(self._marks):
            while not await self._added(f"{self._me}-{number}"):  # noqa: ASYNC110 - nothing tells when
                await asyncio.sleep(RETRY_S)

    async def _added(self, mark: str) -> bool:
        try:
            counter = await self._api.get(CONFIG_MAPS, *COUNTER)
        except ApiError:
            return False
        if counter is None or mark in (counter.get("data") or {}):
            return counter is not None
        data = {**(counter.get("data") or {}), mark: "once"}
        return isinstance(
            await self._api.update(CONFIG_MAPS, "default", {**counter, "data": data}), Committed
        )


class MarksStay(Checker):
    """An update that was built on an older object would remove marks that were added in between."""

    name = "no update is lost"

    def commit(self, change: Seen) -> Found:
        if change.key != COUNTER or change.old is None or change.new is None:
            return None
        gone = set(change.old.get("data") or {}) - set(change.new.get("data") or {})
        return f"{change.by} removed {', '.join(sorted(gone))}" if gone else None


@scenario(
    Menu(
        processes=("adds-1", "adds-2", "adds-3"),
        servers=("api-1", "api-2"),
        kinds=("/configmaps",),
        seconds=15,
    ),
    servers=2,
    checkers=lambda: (MarksStay(), AnswersAreTrue(), WritesAreAsAsked()),
    scale=4,
)
async def shared_counter(world: World) -> None:
    """Three clients update one object through two API servers: no update is lost, and every client
    finishes."""
    await world.apply(CONFIG_MAPS, {"metadata": {"name": COUNTER.name}})
    for number in (1, 2, 3):
        name = f"adds-{number}"
        world.process(name, lambda inside: Counting(inside, world.scale), server=1 + number % 2, who=name)
    await world.sleep(20)
    world.heal()
    for number in (1, 2, 3):
        await world.until(
            lambda me=f"adds-{number}": _last_life_is_done(world, me),  # type: ignore[misc]  # bound now
            within_s=120,
            what=f"adds-{number} has added all its marks",
        )
    await world.settle(quiet_s=5)


def _last_life_is_done(world: World, name: str) -> bool:
    counter = world.get(CONFIG_MAPS.name, COUNTER) or {}
    life = world.engine.processes[name].incarnation
    wanted = [f"{name}-{life}-{number}" for number in range(world.scale)]
    return all(mark in (counter.get("data") or {}) for mark in wanted)


class Following:
    """The least that a client must do to follow a kind: list, watch from there, resume where a watch broke
    off, list again when that revision is compacted, and give up on a watch that has fallen silent."""

    def __init__(self, inside: Inside) -> None:
        self.objects: dict[Key, Obj] = {}
        self.revision = 0
        self.lists = 0
        headers = (("fathom-bookmark-seconds", "2"),)
        self._api = Api(inside.seam, headers=headers)
        inside.domain.create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                await self._list()
                while await self._watch():
                    pass
            except (ApiError, TimeoutError):
                await asyncio.sleep(RETRY_S)

    async def _list(self) -> None:
        page = await self._api.list_page(CONFIG_MAPS, limit=0)
        self.lists += 1
        self.objects = {key_of(item): item for item in page.items}
        self.revision = page.revision

    async def _watch(self) -> bool:
        """Whether the watch can be resumed. False: the revision is compacted."""
        try:
            stream = await self._api.watch(
                CONFIG_MAPS, resourceVersion=str(self.revision), allowWatchBookmarks="true"
            )
        except ApiError:
            await asyncio.sleep(RETRY_S)
            return True
        try:
            while True:
                async with asyncio.timeout(SILENT_S):
                    chunks = await stream.read()
                if chunks is None:
                    return True
                for event in decode_events(chunks):
                    if event.type == ERROR:
                        return False
                    self._take(event.type, event.obj)
        except TimeoutError:
            return True
        finally:
            stream.close()

    def _take(self, kind: str, obj: Obj) -> None:
        self.revision = revision_of(obj)
        if kind == DELETED:
            self.objects.pop(key_of(obj), None)
        elif kind != BOOKMARK:
            self.objects[key_of(obj)] = obj


class FollowersKnow(Checker):
    name = "watchers know every object when settled"

    def settled(self, world: World) -> Iterable[str | Finding]:
        truth = {key_of(obj): metadata(obj)["resourceVersion"] for obj in world.list(CONFIG_MAPS.name)}
        for name, process in world.engine.processes.items():
            if not isinstance(process.state, Following):
                continue
            followed = {key: metadata(obj)["resourceVersion"] for key, obj in process.state.objects.items()}
            for key in sorted(truth.keys() | followed.keys()):
                if truth.get(key) != followed.get(key):
                    path = f"{CONFIG_MAPS.name}/{key.namespace}/{key.name}"
                    yield Finding(
                        f"{name} has {key.name} at {followed.get(key)}, the store has it at {truth.get(key)}",
                        (path,),
                    )


@scenario(
    Menu(
        processes=("follows-1", "follows-2"), servers=("api-1", "api-2"), kinds=("/configmaps",), seconds=20
    ),
    servers=2,
    checkers=lambda: (FollowersKnow(), AnswersAreTrue(), WritesAreAsAsked()),
    scale=30,
)
async def followers(world: World) -> None:
    """Two clients follow a kind through two API servers while objects are created, changed and deleted: in
    the end both know every object as it is."""
    for number in (1, 2):
        world.process(f"follows-{number}", Following, server=number)
    for number in range(world.scale):
        await world.apply(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}, "data": {"n": str(number)}})
        await world.sleep(world.rng.random())
        old = f"c{world.rng.randrange(number + 1)}"
        if world.rng.random() < 0.3:
            await world.delete(CONFIG_MAPS, old)
        else:
            await world.apply(CONFIG_MAPS, {"metadata": {"name": old}, "data": {"again": str(number)}})
    await world.heal_and_settle(quiet_s=90)
    if any(world.engine.processes[f"follows-{number}"].state.lists > 1 for number in (1, 2)):
        world.sometimes("a follower lists again")


SCENARIOS: tuple[Scenario, ...] = (shared_counter, followers)
