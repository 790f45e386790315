"""A watch resumed from any retained revision gets every later event exactly once and in order, on every
engine, while writers write, history is forgotten behind them, readers come and go, and servers are replaced.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
import uvloop
from tests.api.harness import Answer, Api, Watching, pod, serving
from tests.store.engines import ENGINES, EtcdServer, Place, bounds_of, running_etcd

from fathom.api import resource_cache
from fathom.model.objects import Obj
from fathom.seams.outside import SystemClock
from fathom.store.retention import Retention

ALL = "/api/v1/pods"
NAMESPACES = ("default", "kube-public")
WRITERS = 4
READERS = 8
NAMES_EACH = 2

# As a server keeps history by itself, only much shorter.
KEEP_S, EVERY_S = 0.3, 0.05
LIFE_S = 0.4

Event = tuple[int, str, str]  # (revision, type, namespace/name)


class State(msgspec.Struct, frozen=True):
    """One object after one write. `on`: selections that ask for it have it."""

    revision: int
    key: str
    there: bool
    on: bool


class Scope(msgspec.Struct, frozen=True):
    """What a watch is about."""

    namespace: str = ""  # All.
    selected: bool = False

    @property
    def path(self) -> str:
        where = f"/api/v1/namespaces/{self.namespace}/pods" if self.namespace else ALL
        return f"{where}?labelSelector=on" if self.selected else f"{where}?"


SCOPES = (Scope(), Scope("default"), Scope(selected=True), Scope("kube-public", selected=True))


class Ledger:
    """What was acknowledged, by revision."""

    def __init__(self) -> None:
        self.writes: dict[int, State] = {}

    def add(self, state: State) -> None:
        assert state.revision not in self.writes
        self.writes[state.revision] = state

    def events(self, scope: Scope, after: int, upto: int) -> list[Event]:
        """What a watch of (after, upto] must tell, worked out from the beginning each time."""
        before: dict[str, bool] = {}
        found: list[Event] = []
        for revision in sorted(self.writes):
            state = self.writes[revision]
            now = state.there and (state.on or not scope.selected)
            kind = _EVENTS[before.get(state.key, False), now]
            before[state.key] = now
            if kind and after < revision <= upto and state.key.startswith(scope.namespace):
                found.append((revision, kind, state.key))
        return found

    def present(self, scope: Scope, upto: int) -> list[str]:
        last = {key: kind for _, kind, key in self.events(scope, 0, upto)}
        return sorted(key for key, kind in last.items() if kind != "DELETED")


_EVENTS = {(False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED", (False, False): ""}


class Servers:
    """One server after the other on one store. Whoever writes through one is waited for before it goes."""

    def __init__(self, place: Place, data: Path) -> None:
        self._place, self._data = place, data
        self._api: Api | None = None
        self._changed = asyncio.Condition()
        self._busy = 0
        self.lives = 0

    async def run(self, rng: random.Random) -> None:
        shared = self._place.engine == "etcd"
        while True:
            async with serving(self._data, self._place.open(), shared_store=shared) as api:
                self.lives += 1
                retention = Retention(api.core.store, SystemClock(), keep_s=KEEP_S, every_s=EVERY_S)
                forgetting = asyncio.ensure_future(retention.run())
                await self._offer(api)
                try:
                    # A store in memory would not outlive its server.
                    await asyncio.sleep(LIFE_S * (0.5 + rng.random()) if self._place.survives_close else 3600)
                finally:
                    forgetting.cancel()
                    await self._withdraw(api)

    async def _offer(self, api: Api) -> None:
        async with self._changed:
            self._api = api
            self._changed.notify_all()

    async def _withdraw(self, api: Api) -> None:
        async with self._changed:
            self._api = None
            await self._changed.wait_for(lambda: self._busy == 0)
        api.core.stopping = True
        api.core.cache.wake_all()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Api]:
        """The server that is up, which stays until the end of the block."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._api is not None)
            self._busy += 1
            api = self._api
        assert api is not None
        try:
            yield api
        finally:
            self._busy -= 1
            async with self._changed:
                self._changed.notify_all()

    async def now(self) -> Api:
        """The server that is up, which may go at any time."""
        async with self.use() as api:
            return api


class Writer:
    """Changes its own objects, so that it knows what each write does."""

    def __init__(self, servers: Servers, ledger: Ledger, rng: random.Random, number: int) -> None:
        self._servers, self._ledger, self._rng = servers, ledger, rng
        names = [f"w{number}-{at}" for at in range(NAMES_EACH)]
        self._there = {f"{namespace}/{name}": False for namespace in NAMESPACES for name in names}

    async def write(self, count: int) -> None:
        for _ in range(count):
            async with self._servers.use() as api:
                await self.write_one(api)
            if self._rng.random() < 0.3:
                await asyncio.sleep(self._rng.random() * 0.01)

    async def write_one(self, api: Api) -> None:
        key, on = self._rng.choice(sorted(self._there)), self._rng.random() < 0.5
        there = not self._there[key] or self._rng.random() < 0.7
        answer = await self._sent(api, key, there=there, on=on)
        assert answer.status in {200, 201}, answer
        self._there[key] = there
        revision = int(answer.obj["metadata"]["resourceVersion"])
        self._ledger.add(State(revision, key, there, on))

    async def _sent(self, api: Api, key: str, *, there: bool, on: bool) -> Answer:
        namespace, _, name = key.partition("/")
        path = f"/api/v1/namespaces/{namespace}/pods"
        if not self._there[key]:
            return await api.post(path, pod(name, labels={"on": ""} if on else {}))
        if not there:
            return await api.delete(f"{path}/{name}?gracePeriodSeconds=0")
        # The annotation makes sure that something changes.
        meta = {"labels": {"on": "" if on else None}, "annotations": {"n": str(self._rng.random())}}
        return await api.patch(f"{path}/{name}", {"metadata": meta})


class Reader:
    """Watches one scope through many connections. `pieces` are the stretches it believes to know wholly."""

    def __init__(self, servers: Servers, rng: random.Random, scope: Scope, start: int) -> None:
        self._servers, self._rng, self._scope = servers, rng, scope
        self.position = start
        self.pieces: list[tuple[int, int, list[Event]]] = []
        self.lists: list[tuple[int, list[str]]] = []
        self.resumed = self.expired = 0

    async def follow(self) -> None:
        while True:
            watching = await self._open(await self._servers.now())
            if watching is not None:
                await self._read(watching, self._rng.randrange(1, 30))
                watching.close()
            if self._rng.random() < 0.1:
                await asyncio.sleep(self._rng.random() * 2 * KEEP_S)  # Be away, perhaps for too long.

    async def _open(self, api: Api) -> Watching | None:
        self.resumed += 1
        path = f"{self._scope.path}&allowWatchBookmarks=true&resourceVersion={self.position}"
        try:
            return await api.watch(path, headers={"fathom-bookmark-seconds": "0.1"})
        except AssertionError:  # It has just gone.
            await asyncio.sleep(0.01)
            return None

    async def _read(self, watching: Watching, count: int) -> None:
        start = self.position
        events: list[Event] = []
        expired = False
        for _ in range(count):
            event = await _next(watching)
            if event is None:
                break
            if expired := event["type"] == "ERROR":
                assert event["object"]["code"] == 410
                break
            meta = event["object"]["metadata"]
            self.position = int(meta["resourceVersion"])
            if event["type"] != "BOOKMARK":
                events.append((self.position, event["type"], _key(meta)))
        self.pieces.append((start, self.position, events))
        if expired:
            await self._list()

    async def _list(self) -> None:
        self.expired += 1
        async with self._servers.use() as api:
            found = (await api.get(self._scope.path)).obj
        self.position = int(found["metadata"]["resourceVersion"])
        self.lists.append((self.position, sorted(_key(one["metadata"]) for one in found["items"])))

    def check(self, ledger: Ledger) -> None:
        for after, upto, events in self.pieces:
            assert events == ledger.events(self._scope, after, upto)
        for revision, keys in self.lists:
            assert keys == ledger.present(self._scope, revision)


async def _next(watching: Watching) -> Obj | None:
    """None at the end of the stream, or when nothing comes for a while."""
    try:
        return await watching.next(timeout=0.3)
    except TimeoutError:
        return None


def _key(meta: dict[str, str]) -> str:
    return f"{meta['namespace']}/{meta['name']}"


class Story(msgspec.Struct):
    ledger: Ledger
    readers: list[Reader]
    servers: Servers


async def run_story(place: Place, data: Path, *, seed: int, writes: int) -> Story:
    servers, ledger = Servers(place, data), Ledger()
    readers: list[Reader] = []
    serving_on = asyncio.ensure_future(servers.run(random.Random(f"{seed} servers")))
    telling = asyncio.ensure_future(_tell(servers, ledger, readers, seed=seed, writes=writes))
    await first_to_end(telling, serving_on)
    for reader in readers:
        reader.check(ledger)
    return Story(ledger, readers, servers)


async def _tell(servers: Servers, ledger: Ledger, readers: list[Reader], *, seed: int, writes: int) -> None:
    async with servers.use() as api:
        start = int((await api.get(ALL)).obj["metadata"]["resourceVersion"])
    for number in range(READERS):
        rng = random.Random(f"{seed} reader {number}")
        readers.append(Reader(servers, rng, SCOPES[number % len(SCOPES)], start))
    reading = [asyncio.ensure_future(reader.follow()) for reader in readers]
    writers = [Writer(servers, ledger, random.Random(f"{seed} writer {n}"), n) for n in range(WRITERS)]
    writing = [asyncio.ensure_future(writer.write(writes)) for writer in writers]
    await first_to_end(asyncio.gather(*writing), *reading, go_on=True)
    await first_to_end(asyncio.ensure_future(_caught_up(readers, max(ledger.writes))), *reading)
    await check_every_retained_revision(servers, ledger, random.Random(f"{seed} last"))


async def first_to_end(main: asyncio.Future[Any], *others: asyncio.Future[Any], go_on: bool = False) -> None:
    """Until `main` is done, while the others go on for ever. What breaks in one of them ends the story."""
    ended, _ = await asyncio.wait((main, *others), return_when=asyncio.FIRST_COMPLETED)
    broken = any(one.cancelled() or one.exception() is not None for one in ended)
    tasks = (main, *others) if broken or not go_on else ()
    # More than once: before Python 3.12, `wait_for` may swallow a cancellation.
    while left := [one for one in tasks if not one.done()]:
        for one in left:
            one.cancel()
        await asyncio.sleep(0.01)
    for one in ended:
        one.result()


async def _caught_up(readers: list[Reader], revision: int) -> None:
    async with asyncio.timeout(120):
        while any(reader.position < revision for reader in readers):
            await asyncio.sleep(0.02)


async def check_every_retained_revision(servers: Servers, ledger: Ledger, rng: random.Random) -> None:
    """From each of the last revisions on, one by one: all that followed, or a clean 410. History goes on
    being forgotten meanwhile."""
    told = 0
    async with servers.use() as api:
        writer = Writer(servers, ledger, rng, WRITERS)
        for _ in range(30):
            await writer.write_one(api)
        last = max(ledger.writes)
        for after in sorted(ledger.writes)[-60:-1]:
            events = await _all_after(api, after, last)
            if events is not None:
                assert events == ledger.events(Scope(), after, last)
                told += 1
    assert told > 0


async def _all_after(api: Api, after: int, last: int) -> list[Event] | None:
    watching = await api.watch(f"{ALL}?resourceVersion={after}")
    found: list[Event] = []
    while not found or found[-1][0] < last:
        event = await watching.next()
        assert event is not None
        if event["type"] == "ERROR":
            assert event["object"]["code"] == 410
            return None
        meta = event["object"]["metadata"]
        found.append((int(meta["resourceVersion"]), event["type"], _key(meta)))
    watching.close()
    return found


@pytest.fixture(scope="module")
def etcd_server() -> Iterator[EtcdServer]:
    with running_etcd() as server:
        yield server


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    engine = request.param
    server = request.getfixturevalue("etcd_server") if engine == "etcd" else None
    # The server remembers few events, so that most resumed watches begin in the store's history.
    with bounds_of(engine), mock.patch.object(resource_cache, "LOG_EVENTS_MAX", 16):
        yield Place(engine, tmp_path / "store", server)


def run(place: Place, data: Path, *, seed: int, writes: int) -> Story:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run_story(place, data, seed=seed, writes=writes))


def test_resumed_watches_are_complete_while_everything_moves(place: Place, tmp_path: Path) -> None:
    story = run(place, tmp_path, seed=1, writes=100)
    assert sum(reader.resumed for reader in story.readers) > 40
    assert story.servers.lives > 1 or not place.survives_close


@pytest.mark.full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(5))
def test_resumed_watches_are_complete_for_long(place: Place, tmp_path: Path, seed: int) -> None:
    story = run(place, tmp_path, seed=seed, writes=1500)
    assert sum(reader.expired for reader in story.readers) > 0


def test_a_lost_doubled_or_misplaced_event_would_be_noticed() -> None:
    """The check itself."""
    ledger = Ledger()
    for revision in range(2, 6):
        ledger.add(State(revision, "default/a", there=True, on=revision % 2 == 0))
    scope = Scope(selected=True)
    told = [(2, "ADDED", "default/a"), (3, "DELETED", "default/a"), (4, "ADDED", "default/a")]
    assert ledger.events(scope, 1, 4) == told
    for wrong in (told[:1] + told[2:], [*told, told[-1]], told[::-1], []):
        reader = Reader(mock.sentinel.servers, random.Random(0), scope, 1)
        reader.pieces.append((1, 4, wrong))
        with pytest.raises(AssertionError):
            reader.check(ledger)
