"""Keeps the watch cache up to date with the store: load, then follow, for ever.

A store that answers at an older revision than it did before (members of an etcd that disagree, an older copy
in its place) does not end the server: it answers 503 and is not ready until the store is back, and then reads
everything anew. See `_recover`.

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
from fathom.store.keys import RAISE_KEY
from fathom.store.protocol import (
    Batch,
    Committed,
    Compacted,
    Entry,
    FutureRevision,
    Put,
    Store,
    StoreUnavailable,
    went_back_text,
)

# Arguments: resource, path below it ('default/web'), the body now, the body before, the change's revision.
Observer = Callable[[str, str, Body | None, Body | None, int], None]

RETRY_S = 0.2

# A store that went back, and is still the same cluster's, is raised above every revision that was handed out.
# Not at once: the newer member may only be restarting. Not over any distance: each revision is a commit, and
# a large gap is a restored backup, which an operator should look at.
SURPASS_AFTER = 50  # Tries, RETRY_S apart.
SURPASS_MAX = 10_000
IDENTITY = f"{REGISTRY}namespaces/kube-system"  # Its uid is the cluster's identity, as in Kubernetes.


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
            except FutureRevision as error:
                await self._recover(error.current)
            except StoreUnavailable as error:
                self._log.warn("watch cache waits for the store", error=str(error))
                await asyncio.sleep(RETRY_S)

    async def _recover(self, current: int) -> None:
        """Wait until the store has reached all revisions that we have handed out; then forget its history and
        read everything again: it need not have the changes that we have seen. All watches end, and a client
        that resumes one is told to list again (410): a revision that it holds may mean another state now."""
        reached = self._cache.reached
        self._cache.problem = went_back_text(current, reached)
        self._log.error("the store went back", revision=current, seen=reached, problem=self._cache.problem)
        self._store.accept_past()
        tries = 1
        while not await self._is_back(reached, tries):
            await asyncio.sleep(RETRY_S)
            tries += 1
        self._log.warn("the store is back; everything was read again", revision=self._cache.reached)
        self._cache.problem = ""

    async def _is_back(self, reached: int, tries: int) -> bool:
        try:
            current = await self._store.revision()
            if current < reached:
                self._cache.problem = went_back_text(current, reached)
                if tries % SURPASS_AFTER or not await self._may_surpass(current, reached):
                    return False
            if (revision := await self._surpass(reached)) is None:
                return False
            await self._store.compact(revision)
            await self.load()
        except (StoreUnavailable, FutureRevision, Compacted) as error:
            self._log.warn("watch cache waits for the store", error=str(error))
            return False
        return True

    async def _may_surpass(self, current: int, reached: int) -> bool:
        known = self._cache.of("namespaces").entries.get(IDENTITY)
        page = await self._store.range(IDENTITY, limit=1)
        same = known is not None and [_uid(entry) for entry in page.entries] == [_uid(known)]
        if same and reached - current <= SURPASS_MAX:
            return True
        why = "it is far behind" if same else "it is not the store of this cluster"
        advice = "bring the newer store back, or restart the API servers to go on with this one"
        self._log.error("the store went back", revision=current, seen=reached, problem=why, advice=advice)
        return False

    async def _surpass(self, reached: int) -> int | None:
        """Commit until the revision is above; None if that failed. Commits of other servers count too."""
        while True:
            outcome = await self._store.commit((), (Put(RAISE_KEY, Body({"above": reached})),))
            if not isinstance(outcome, Committed):
                return None
            if outcome.revision > reached:
                return outcome.revision

    async def _reload(self) -> None:
        try:
            await self.load()
        except (StoreUnavailable, FutureRevision, Compacted) as error:
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


def _uid(entry: Entry) -> str:
    return str(entry.body.obj["metadata"]["uid"])
