"""Keeps the watch cache up to date with the store: load, then follow, for ever.

Observers that must see every change in this process (the registry of custom kinds, housekeeping) are called
right after the cache has it and before any request that waits for it continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fathom.api.resource_cache import REGISTRY
from fathom.api.watch_cache import WatchCache
from fathom.api.watch_events import DELETED
from fathom.model.body import Body
from fathom.seams.log import Log
from fathom.store.protocol import Batch, Compacted, Entry, Store, StoreUnavailable

# Arguments: resource, path below it ('default/web'), the body now, the body before, the change's revision.
Observer = Callable[[str, str, Body | None, Body | None, int], None]

RETRY_S = 0.2


class WatchCacheFeed:
    def __init__(self, store: Store, cache: WatchCache, log: Log, observers: tuple[Observer, ...]) -> None:
        self._store = store
        self._cache = cache
        self._log = log
        self._observers = observers

    async def load(self) -> None:
        page = await self._store.range(REGISTRY)
        previous = {} if self._cache.reached == 0 else self._present()
        self._cache.load(page.entries, page.revision)
        for entry in page.entries:
            self._notify(entry.key, entry.body, previous.pop(entry.key, None), entry.revision)
        for key, body in previous.items():
            self._notify(key, None, body, page.revision)

    def _present(self) -> dict[str, Body]:
        entries: dict[str, Entry] = {}
        for resource in self._cache.resources():
            entries |= self._cache.of(resource).entries
        return {key: entry.body for key, entry in entries.items()}

    async def follow(self) -> None:
        while True:
            try:
                async for batch in self._store.watch(REGISTRY, after=self._cache.reached):
                    self._apply(batch)
            except Compacted as error:
                self._log.warn("watch cache reloads", cause="compacted", floor=error.floor)
                await self._reload()
            except StoreUnavailable as error:
                self._log.warn("watch cache waits for the store", error=str(error))
                await asyncio.sleep(RETRY_S)

    async def _reload(self) -> None:
        try:
            await self.load()
        except StoreUnavailable as error:
            self._log.warn("watch cache waits for the store", error=str(error))
            await asyncio.sleep(RETRY_S)

    def _apply(self, batch: Batch) -> None:
        for logged in self._cache.apply(batch):
            body = logged.body if logged.type != DELETED else None
            self._notify(logged.key, body, logged.previous, logged.revision)

    def _notify(self, key: str, body: Body | None, previous: Body | None, revision: int) -> None:
        resource, _, path = key.removeprefix(REGISTRY).partition("/")
        for observer in self._observers:
            observer(resource, path, body, previous, revision)
