"""All caches of one process: started together, read together, waited for.

caches = Caches(api, streams=streams)
caches.add("Pod", Scope(PODS), indexes=FOR_PODS)
caches.on_change("Pod", wake)            # called in order, for work queues
caches.start()
await caches.until_synced(timeout_s=60)
view = caches.snapshot()
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from fathom.cache.indexed import Change, HeldObject, IndexedCache
from fathom.cache.indexes import STANDARD, Index
from fathom.cache.observer import CacheObserver, HandlerFailed, NoObserver
from fathom.cache.received import STEERING_KINDS, ReceivedRevisions
from fathom.cache.reflector import Reflector
from fathom.cache.scope import CacheScope, ListPace
from fathom.cache.snapshot import Snapshot, SnapshotScope
from fathom.client.api import Api
from fathom.model.objects import Obj
from fathom.seams.loop_clock import loop_now_s
from fathom.seams.streams import Streams

# (before, after). None before: new, or first seen. None after: deleted; `before` is its last state.
Handler = Callable[[Obj | None, Obj | None], None]

# How many objects a resync passes to the handlers before other tasks run.
RESYNC_SLICE = 500


class Caches:
    def __init__(
        self,
        api: Api,
        *,
        streams: Streams,
        observer: CacheObserver | None = None,
        pace: ListPace | None = None,
        shared_revisions: bool = True,
        share: bool = True,
    ) -> None:
        """`shared_revisions`: the server may change several objects in one revision; fathom does,
        kube-apiserver never. `share`: decoded objects are ours and may share equal parts; not in simulation,
        where all processes use the same objects."""
        self._api = api
        self._streams = streams
        self._observer: CacheObserver = observer or NoObserver()
        self._pace = pace or ListPace()
        self._shared_revisions = shared_revisions
        self._share = share
        self.received = ReceivedRevisions()
        self._reflectors: dict[str, Reflector] = {}
        self._handlers: dict[str, list[Handler]] = {}
        # Changes by kind, in order; one `_publish` at a time drains it.
        self._unpublished: deque[tuple[str, Change]] = deque()
        self._publishing = False
        self._tasks: list[asyncio.Task[None]] = []
        self._held: dict[str, HeldObject] | None = None  # For snapshots, until any of the caches changes.
        self._shown: dict[str, dict[str, HeldObject]] = {}  # The same for the kinds that a reader declares.

    def add(self, kind: str, scope: CacheScope, *, indexes: Mapping[str, Index] = STANDARD) -> None:
        """Call before `start`. `kind` is the name in snapshots: the objects' own kind, or any other name with
        `scope.kind` set."""
        if kind in self._reflectors:
            raise ValueError(f"there is a cache of {kind} already")
        self._reflectors[kind] = Reflector(
            kind,
            scope,
            self._api,
            IndexedCache(indexes, shared_revisions=self._shared_revisions, on_move=self._forget_held),
            lambda changes: self._received(kind, changes),
            rng=self._streams.stream(f"reflector/{kind}"),
            observer=self._observer,
            pace=self._pace,
            share=self._share,
        )
        self._handlers[kind] = []
        self._forget_held()

    def on_change(self, kind: str, handler: Handler) -> None:
        """The handler is called for every change, in order, and at once for objects already in the cache. It
        must not block."""
        self._handlers[kind].append(handler)
        cache = self._cache(kind)
        if cache.synced:
            for obj in cache.held().contents.all():
                self._call(kind, handler, (None, obj))

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        for kind, reflector in self._reflectors.items():
            self._tasks.append(loop.create_task(reflector.run(), name=f"reflector {kind}"))
            if self._pace.resync:
                self._tasks.append(loop.create_task(self._resync_for_ever(kind), name=f"resync {kind}"))

    async def stop(self) -> None:
        """Close the watches. The cached objects stay, and get older."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._reflectors)

    def scope(self, kind: str) -> CacheScope:
        """The part of the cluster that the kind's cache holds."""
        return self._reflectors[kind].scope

    @property
    def synced(self) -> bool:
        return not self._unsynced()

    def snapshot(self, scope: SnapshotScope | None = None) -> Snapshot:
        """With a `scope`, it shows only the kinds that its reader declares."""
        if scope is None:
            return self.snapshot_at(loop_now_s())
        shown = self._shown.get(scope.reader)
        if shown is None:
            shown = {kind: self._cache(kind).held() for kind in scope.kinds}
            self._shown[scope.reader] = shown
        return Snapshot(shown, taken_s=loop_now_s(), reader=scope.reader)

    def snapshot_at(self, taken_s: float) -> Snapshot:
        """For callers outside the loop that the caches run on; `taken_s` is a time of that loop's clock."""
        if self._held is None:
            self._held = {kind: reflector.cache.held() for kind, reflector in self._reflectors.items()}
        return Snapshot(self._held, taken_s=taken_s)

    def size(self, kind: str) -> int:
        """How many objects of the kind are cached. For output and metrics."""
        return len(self._cache(kind))

    def revision(self, kind: str) -> int:
        """Up to which the kind's cache has everything: as in a snapshot, which costs more."""
        return self._cache(kind).revision

    def heard_s(self, kind: str) -> float:
        """When the kind's cache was last known to be as new as the server, on the loop's clock."""
        return self._cache(kind).heard_s

    def _forget_held(self) -> None:
        self._held = None
        self._shown.clear()

    # Waiting.

    async def until_synced(self, *, timeout_s: float) -> tuple[str, ...]:
        """The kinds that are still not listed when the time is up."""
        await self._until(lambda: self.synced, self.kinds, timeout_s)
        return self._unsynced()

    async def at_least(self, kind: str, revision: int, *, timeout_s: float) -> bool:
        """Wait until the cache has reached a revision; False when the time is up."""
        cache = self._cache(kind)
        return await self._until(lambda: cache.revision >= revision, (kind,), timeout_s)

    async def moved(self, kinds: Iterable[str]) -> None:
        """Wait until the contents, revision or age of any of these kinds changes."""
        moves = [self._cache(kind).next_move() for kind in kinds]
        await asyncio.wait(moves, return_when=asyncio.FIRST_COMPLETED)

    async def probe(self, kind: str, *, timeout_s: float) -> bool:
        """Ask the server for its revision and wait until the cache has reached it; the cache's age then
        counts from the request. For servers that send bookmarks seldom."""
        return await self._reflectors[kind].probe(timeout_s=timeout_s)

    async def _until(self, is_met: Callable[[], bool], kinds: Iterable[str], timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                while not is_met():
                    await self.moved(kinds)
        except TimeoutError:
            return is_met()
        return True

    # Own writes.

    def apply_write(self, kind: str, obj: Obj) -> None:
        """Put the answer to our own create, update or patch into the cache before its event comes. An answer
        that is late, of another kind (a Status, a Scale) or outside the cache's scope changes nothing. Not
        for the answer to a delete: it shows the object as it was."""
        reflector = self._reflectors[kind]
        scope = reflector.scope
        if scope.selects or obj.get("kind") != (scope.kind or kind):
            return
        if scope.namespace and (obj.get("metadata") or {}).get("namespace") != scope.namespace:
            return
        changes: list[Change] = []
        try:
            reflector.cache.apply_write(obj, changes, now_s=loop_now_s())
        finally:
            self._publish(kind, changes)

    # Handlers.

    def resync(self, kind: str) -> None:
        """Call the handlers with every object again."""
        for obj in self._cache(kind).held().contents.all():
            self._publish(kind, [(obj, obj)])

    async def _resync_for_ever(self, kind: str) -> None:
        rng = self._streams.stream(f"resync/{kind}")
        while True:
            await asyncio.sleep(self._pace.resync * (1.0 + rng.random() / 10))  # Not all kinds at once.
            cache = self._cache(kind)
            for at, key in enumerate(cache.held().contents.keys()):
                if at % RESYNC_SLICE == RESYNC_SLICE - 1:
                    await asyncio.sleep(0)
                obj = cache.get(key)
                if obj is not None:
                    self._publish(kind, [(obj, obj)])

    def _received(self, kind: str, changes: list[Change]) -> None:
        if kind in STEERING_KINDS:
            self.received.note(kind, changes, now_s=loop_now_s())
        self._publish(kind, changes)

    def _publish(self, kind: str, changes: list[Change]) -> None:
        """A handler may cause changes itself (by an own write): these are published after all earlier
        ones."""
        if not self._handlers[kind]:
            return
        self._unpublished.extend((kind, change) for change in changes)
        if self._publishing:
            return
        self._publishing = True
        try:
            while self._unpublished:
                changed_kind, change = self._unpublished.popleft()
                for handler in self._handlers[changed_kind]:
                    self._call(changed_kind, handler, change)
        finally:
            self._publishing = False

    def _call(self, kind: str, handler: Handler, change: Change) -> None:
        try:
            handler(*change)
        except Exception as error:  # An error in one handler must not stop the other handlers.
            self._observer.note(HandlerFailed(kind, f"{type(error).__name__}: {error}"))

    def _unsynced(self) -> tuple[str, ...]:
        return tuple(kind for kind, reflector in self._reflectors.items() if not reflector.cache.synced)

    def _cache(self, kind: str) -> IndexedCache:
        return self._reflectors[kind].cache
