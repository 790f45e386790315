"""The watch cache: current objects of every resource, and their recent events for watches.

    store.watch ──Batch──> WatchCache.apply ──> ResourceCache.entries      (get, list, views)
                                           └──> ResourceCache.log  <──cursor── Watcher  (one per watch)

A watcher has a cursor into the shared log, not a queue of its own: the log bounds the cost of a slow watcher,
and a watcher that falls out of the log is ended cleanly (it resumes from the store's history). An event is
encoded once, and a batch that many watchers need is joined once.

Entries hold bytes; objects are decoded on demand, except for the resources that every request reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from operator import attrgetter

from fathom.api.resource_cache import LOG_BYTES_KEPT, REGISTRY, LogBytes, ResourceCache
from fathom.api.watch_events import WatchEvent
from fathom.model.objects import Key
from fathom.model.view import Seen
from fathom.store.protocol import Batch, Entry

# Authorization and admission read these on nearly every request: their objects stay decoded.
LOOKED_INTO = frozenset(
    {
        "namespaces",
        "nodes",
        "limitranges",
        "resourcequotas",
        "serviceaccounts",
        "priorityclasses.scheduling.k8s.io",
        "nodeledgers.fathom.dev",
        "tenantledgers.fathom.dev",
        "tenantquotas.fathom.dev",
        "capacityclasses.fathom.dev",
        "policyrollouts.fathom.dev",
        "customresourcedefinitions.apiextensions.k8s.io",
        "roles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
    }
)

LOGS_BYTES_MAX = 128 << 20  # Of the logs of all resources together.


class WatchCache:
    """The caches of all resources, moved forward together by one watch of the store. It is also the `View`
    that admission, authorization and the rules of kinds read."""

    def __init__(self, *, keep_all_objects: bool = False) -> None:
        self.reached = 0  # Every commit up to this revision has been applied.
        self.problem = ""  # Why the objects cannot be trusted now; '' if they can.
        self._caches: dict[str, ResourceCache] = {}
        self._keep_all = keep_all_objects  # In simulation: nothing is ever encoded.
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._log_bytes = LogBytes()

    def load(self, entries: Iterable[Entry], revision: int) -> None:
        """Load all objects: at the start, or again after the store compacted revisions not yet read. All
        watchers end."""
        grouped: dict[str, list[Entry]] = {resource: [] for resource in self._caches}
        for entry in entries:
            grouped.setdefault(resource_of(entry.key), []).append(entry)
        for resource, group in grouped.items():
            self.of(resource).load(group, revision)
        self.reached = revision
        for cache in self._caches.values():
            cache.floor = revision
            cache.wake_all()
        self._release()

    def apply(self, batch: Batch) -> list[WatchEvent]:
        """Apply one batch; return its events, for observers that must see every change."""
        learned: list[WatchEvent] = []
        touched: dict[ResourceCache, dict[str, int]] = {}
        for change in batch.changes:
            cache = self.of(resource_of(change.key))
            if change.entry is None and change.previous is None and change.key not in cache.entries:
                continue  # The object was created and deleted before we read it.
            logged = cache.apply(change)
            learned.append(logged)
            triggers, position = touched.setdefault(cache, {}), cache.end - 1
            for trigger in cache.triggers_of(logged):
                triggers.setdefault(trigger, position)
        self.reached = max(self.reached, batch.revision)
        self._check_bytes()
        for cache, triggers in touched.items():
            cache.wake(triggers)
        self._release()
        return learned

    def of(self, resource: str) -> ResourceCache:
        cache = self._caches.get(resource)
        if cache is None:
            keep = self._keep_all or resource in LOOKED_INTO
            cache = self._caches[resource] = ResourceCache(
                resource, keep_objects=keep, keep_all=self._keep_all, total=self._log_bytes
            )
            cache.floor = self.reached
        return cache

    def _check_bytes(self) -> None:
        """If all logs together hold too much, the longest log is shortened."""
        while self._log_bytes.held > LOGS_BYTES_MAX:
            largest = max(self._caches.values(), key=attrgetter("log_bytes"))
            held = largest.log_bytes
            largest.shrink(int(held * LOG_BYTES_KEPT))
            if largest.log_bytes == held:
                return  # One event of each is left: these are as large as their objects.

    @property
    def log_bytes(self) -> int:
        return self._log_bytes.held

    def resources(self) -> list[str]:
        return [resource for resource, cache in self._caches.items() if cache.entries]

    async def at_least(self, revision: int) -> None:
        """Wait until everything up to the revision has been applied."""
        if self.reached >= revision:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((revision, waiter))
        await waiter

    def wake_all(self) -> None:
        for cache in self._caches.values():
            cache.wake_all()

    @property
    def watchers(self) -> int:
        return sum(cache.watchers for cache in self._caches.values())

    @property
    def objects(self) -> int:
        return sum(len(cache.entries) for cache in self._caches.values())

    # The View of model/view.py.

    def get(self, resource: str, key: Key) -> Seen | None:
        cache = self._caches.get(resource)  # Not `of`, which would create a cache for any name.
        if cache is None:
            return None
        path = f"{key.namespace}/{key.name}" if key.namespace else key.name
        entry = cache.entries.get(f"{cache.prefix}{path}")
        return None if entry is None else Seen(entry.body.obj, entry.revision)

    def list(self, resource: str, namespace: str | None = None) -> Iterator[Seen]:
        cache = self._caches.get(resource)
        if cache is None:
            return
        for key in cache.keys(namespace):
            entry = cache.entries[key]
            yield Seen(entry.body.obj, entry.revision)

    def revision(self, resource: str) -> int:
        cache = self._caches.get(resource)
        return 0 if cache is None else cache.revision

    def copied(self, resource: str) -> tuple[int, int, dict[str, Entry]]:
        """The revision that the cache has reached, that of the resource's last change, and the entries of the
        resource. May be called in another thread: copying a dict with keys that are strings runs no Python
        code, so nothing comes between."""
        cache = self._caches.get(resource)
        if cache is None:
            return self.reached, 0, {}
        return self.reached, cache.revision, dict(cache.entries)

    def _release(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for revision, waiter in waiting:
            if waiter.done():
                continue
            if revision <= self.reached:
                waiter.set_result(None)
            else:
                self._waiting.append((revision, waiter))


def resource_of(key: str) -> str:
    """'/registry/pods/default/web' -> 'pods'"""
    return key[len(REGISTRY) : key.index("/", len(REGISTRY))]
