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
import bisect
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from fathom.model.body import Body
from fathom.model.objects import Key, Obj, lookup
from fathom.model.view import Seen
from fathom.store.protocol import Batch, Change, Entry

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

REGISTRY = "/registry/"

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

# Enough for a watcher to lag some seconds behind thousands of writes a second; older events come from the
# store. At most twice as many are held between two trims.
LOG_EVENTS_MAX = 4096

# Limits of the bytes in the log of one resource, and in all logs. Objects may be megabytes, and an event
# holds its object twice: as the stored body and as the frame that is sent. A decoded object takes some five
# times its bytes. The oldest events are dropped first, down to a part of the limit, so that not every event
# moves the log.
LOG_BYTES_MAX = 48 << 20
LOGS_BYTES_MAX = 128 << 20
LOG_BYTES_KEPT = 3 / 4
EVENT_BYTES = 512  # Of the event itself, without its object.
DECODED_FACTOR = 5

# The newest events keep their decoded objects: watchers with selectors read them at about the same time, and
# a new object is soon read and changed again. Large objects are decoded on demand.
DECODED_EVENTS_MAX = 512
DECODED_BYTES_MAX = 8 << 10

JOINED_MAX = 4
JOINED_BYTES_MAX = 256 << 10  # Longer chunks are joined for each watcher: they hold few events.

BY_NODE = "spec.nodeName="  # Cannot be the name of a namespace.


def node_trigger(node: str) -> str:
    return f"{BY_NODE}{node}"


class WatchEvent:
    """One event of a resource, as watchers read it."""

    __slots__ = (
        "_frame",
        "_obj",
        "_previous_obj",
        "body",
        "end_bytes",
        "held_bytes",
        "key",
        "previous",
        "revision",
        "type",
    )

    def __init__(self, change: Change, previous: Entry | None) -> None:
        last = change.entry or previous or change.previous
        assert last is not None, f"deletion of {change.key} with nothing known before it"
        self.key = change.key
        self.revision = change.revision
        self.body: Body = last.body  # For a deletion: the last state.
        self.previous: Body | None = previous.body if previous else None
        if change.entry is None:
            self.type = DELETED
        else:
            self.type = MODIFIED if change.entry.created != change.revision else ADDED
        self.held_bytes = 0  # What the event counts for in the log's memory,
        self.end_bytes = 0  # and its end among all events ever logged, in bytes on the wire.
        self._frame: bytes | None = None
        self._obj: Obj | None = None
        self._previous_obj: Obj | None = None

    @property
    def obj(self) -> Obj:
        if self._obj is None:
            self._obj = self.body.obj_at(self.revision)
        return self._obj

    @property
    def previous_obj(self) -> Obj | None:
        if self._previous_obj is None and self.previous is not None:
            self._previous_obj = self.previous.obj
        return self._previous_obj

    @property
    def frame(self) -> bytes:
        """The event on the wire, encoded once for all watchers."""
        if self._frame is None:
            self._frame = frame(self.type, self.body.encoded_at(self.revision))
        return self._frame

    @property
    def is_changed(self) -> bool:
        """Whether a reader of the shared object has modified it."""
        return self._obj is not None and self._obj != self.body.obj_at(self.revision)

    def forget_objects(self, *, keep_body: bool) -> None:
        self._obj = self._previous_obj = None
        if not keep_body:
            self.body.forget_obj()


def frame(event: str, encoded: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (event.encode(), encoded)


def _node_of(obj: Obj | None) -> str:
    return str(lookup(obj, "spec", "nodeName") or "")


class Watcher:
    """A cursor in a resource's log. `wake` is called when an event may concern the watcher, or when its timer
    is due; so no event that was logged while it slept concerned it, and those need not be read again."""

    __slots__ = ("_waiter", "cursor", "trigger")

    def __init__(self, cursor: int, trigger: str) -> None:
        self.cursor = cursor  # The next position in the log to read.
        self.trigger = trigger
        self._waiter: asyncio.Future[None] | None = None

    def wake(self, position: int = -1) -> None:
        """`position` is that of the first event that may concern the watcher."""
        if self._waiter is not None and not self._waiter.done():
            self.cursor = max(self.cursor, position)
            self._waiter.set_result(None)

    async def wait(self) -> None:
        # Not the loop's own future class: nothing else holds this future, so its hash never matters.
        waiter = self._waiter = asyncio.Future(loop=asyncio.get_running_loop())
        try:
            await waiter
        finally:
            self._waiter = None


class FellBehind(Exception):
    """The watcher's cursor points at events that are no longer in the log."""


class LogBytes:
    """Bytes in the logs of all resources together."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = 0


class ResourceCache:
    """All objects of one resource and their recent events."""

    def __init__(
        self, resource: str, *, keep_objects: bool, keep_all: bool = False, total: LogBytes | None = None
    ) -> None:
        """`keep_all`: old events keep their decoded objects too, for simulation, where nothing is ever
        encoded."""
        self.resource = resource
        self.prefix = f"{REGISTRY}{resource}/"
        self.revision = 0  # Of the last change to any object of the resource.
        self.entries: dict[str, Entry] = {}
        self.log: list[WatchEvent] = []
        self.base = 0  # Absolute position of log[0]; positions only grow.
        self.floor = 0  # Every change after this revision is in the log.
        self.log_bytes = 0  # Bytes in the log; also counted in the total.
        self._total = total or LogBytes()
        self._end_bytes = 0  # Of all events ever logged.
        self._keep, self._keep_all = keep_objects, keep_all
        self._keys: list[str] = []  # Sorted unless `_unsorted`; may hold keys of deleted objects.
        self._unsorted = False
        self._gone = 0
        self._watchers: dict[str, dict[Watcher, None]] = {}
        self._by_node = 0  # How many watchers watch one node's objects.
        self._joined: dict[tuple[int, int, str | None], bytes] = {}
        # Node -> keys of the objects on it. Built on the first request for one node, and kept up to date from
        # then on.
        self._on_nodes: dict[str, dict[str, None]] | None = None

    def load(self, entries: Iterable[Entry], revision: int) -> None:
        self.entries = {entry.key: entry for entry in entries}
        self._keys = sorted(self.entries)
        self._unsorted, self._gone = False, 0
        self._on_nodes = None
        self.base += len(self.log) + 1  # One more, so that no watcher's cursor survives a gap.
        self.log.clear()
        self._hold(-self.log_bytes)
        self.floor = revision
        self.revision = max((entry.revision for entry in self.entries.values()), default=0)
        for entry in self.entries.values():
            if self._keep:
                entry.body.keep_obj()
            else:
                entry.body.forget_obj()

    def apply(self, change: Change) -> WatchEvent:
        previous = self.entries.get(change.key)
        logged = WatchEvent(change, previous)
        if change.entry is None:
            if self.entries.pop(change.key, None) is not None:
                self._gone += 1
                self._forget_keys()
        else:
            self.entries[change.key] = change.entry
            if previous is None:
                self._unsorted = self._unsorted or bool(self._keys and self._keys[-1] >= change.key)
                self._keys.append(change.key)
        self.revision = change.revision
        self._append(logged)
        if self._on_nodes is not None:
            self._move(logged, self._on_nodes)
        return logged

    def _forget_keys(self) -> None:
        """Drop keys of deleted objects. Resources that no client lists, such as events, would keep them for
        ever."""
        if self._gone > max(LOG_EVENTS_MAX, len(self.entries)):
            self._keys, self._unsorted, self._gone = list(self.entries), True, 0

    def keys(self, namespace: str | None) -> list[str]:
        """Sorted keys, of one namespace or all. The caller may modify the list."""
        if self._unsorted or self._gone:
            self._keys = sorted(self.entries)
            self._unsorted, self._gone = False, 0
        if namespace is None:
            return self._keys.copy()
        prefix = f"{self.prefix}{namespace}/"
        low = bisect.bisect_left(self._keys, prefix)
        high = bisect.bisect_left(self._keys, f"{self.prefix}{namespace}0")  # '0' follows '/'.
        return self._keys[low:high]

    def keys_on(self, node: str, namespace: str | None) -> list[str]:
        """Like `keys`, for the objects on one node: thousands of kubelets list theirs."""
        if self._on_nodes is None:
            self._on_nodes = {}
            for key, entry in self.entries.items():
                self._on_nodes.setdefault(_node_of(entry.body.obj), {})[key] = None
        prefix = self.prefix if namespace is None else f"{self.prefix}{namespace}/"
        return sorted(key for key in self._on_nodes.get(node, ()) if key.startswith(prefix))

    def _move(self, logged: WatchEvent, on_nodes: dict[str, dict[str, None]]) -> None:
        previous_keys = on_nodes.get(_node_of(logged.previous_obj), {})
        previous_keys.pop(logged.key, None)
        if not previous_keys:
            on_nodes.pop(_node_of(logged.previous_obj), None)
        if logged.type != DELETED:
            on_nodes.setdefault(_node_of(logged.obj), {})[logged.key] = None

    def position_after(self, revision: int) -> int:
        """The position of the first event after a revision. The revision must not lie below the floor."""
        return self.base + bisect.bisect_right(self.log, revision, key=attrgetter("revision"))

    def position_from(self, revision: int) -> int:
        """Where a watch resumes whose client has seen the revision, perhaps not all events of it: after it,
        unless its commit changed several objects."""
        end = self.position_after(revision)
        first = self.base + bisect.bisect_left(self.log, revision, key=attrgetter("revision"))
        return first if end - first > 1 else end

    @property
    def end(self) -> int:
        return self.base + len(self.log)

    def read(self, cursor: int, count_max: int) -> list[WatchEvent]:
        if cursor < self.base:
            raise FellBehind
        start = cursor - self.base
        return self.log[start : start + count_max]

    def chunk_end(self, cursor: int, *, count_max: int, bytes_max: int) -> int:
        """The end of one chunk that starts at the cursor: at most so many events or bytes, but at least one
        event."""
        if cursor < self.base:
            raise FellBehind
        log, start = self.log, cursor - self.base
        end = min(start + count_max, len(log))
        if end - start <= 1:
            return self.base + end
        before = log[start].end_bytes - log[start].body.encoded_bytes
        if log[end - 1].end_bytes - before <= bytes_max:
            return self.base + end
        end = bisect.bisect_right(log, before + bytes_max, start, end, key=attrgetter("end_bytes"))
        return self.base + max(end, start + 1)

    def joined(self, start: int, end: int, namespace: str | None) -> bytes:
        """The frames of [start, end) as one chunk. The last results are kept: watchers move together."""
        wanted = (start, end, namespace)
        chunk = self._joined.get(wanted)
        if chunk is None:
            prefix = self.prefix if namespace is None else f"{self.prefix}{namespace}/"
            events = self.read(start, end - start)
            chunk = b"".join([logged.frame for logged in events if logged.key.startswith(prefix)])
            if len(self._joined) >= JOINED_MAX:
                self._joined.clear()
            if len(chunk) <= JOINED_BYTES_MAX:
                self._joined[wanted] = chunk
        return chunk

    def pairs(self, start: int, end: int, namespace: str | None) -> list[tuple[str, Obj]]:
        """The same events as (type, object), for requests that share objects."""
        prefix = self.prefix if namespace is None else f"{self.prefix}{namespace}/"
        events = self.read(start, end - start)
        return [(logged.type, logged.obj) for logged in events if logged.key.startswith(prefix)]

    def watch(self, cursor: int, trigger: str) -> Watcher:
        watcher = Watcher(cursor, trigger)
        self._by_node += trigger.startswith(BY_NODE)
        self._watchers.setdefault(trigger, {})[watcher] = None
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        group = self._watchers.get(watcher.trigger)
        if group is not None and watcher in group:
            del group[watcher]
            self._by_node -= watcher.trigger.startswith(BY_NODE)
            if not group:
                del self._watchers[watcher.trigger]

    def wake(self, triggers: Mapping[str, int]) -> None:
        """Wake the watchers of each trigger. Trigger -> the position of its first event."""
        for trigger, position in triggers.items():
            for watcher in self._watchers.get(trigger, ()):
                watcher.wake(position)

    def wake_all(self) -> None:
        self.wake(dict.fromkeys(self._watchers, -1))

    @property
    def watchers(self) -> int:
        return sum(len(group) for group in self._watchers.values())

    def triggers_of(self, logged: WatchEvent) -> list[str]:
        """The watchers that an event concerns: watchers of everything, of its namespace, and of the node
        that the object is or was on. (A kubelet watches its own pods only, and there are thousands of
        kubelets.)"""
        concerned = [""]
        start = len(self.prefix)
        slash = logged.key.find("/", start)
        if slash >= 0:
            concerned.append(logged.key[start:slash])
        if self._by_node:
            for obj in (logged.obj, logged.previous_obj):
                node = _node_of(obj)
                if node:
                    concerned.append(node_trigger(node))
        return concerned

    def _append(self, logged: WatchEvent) -> None:
        log, body, decoded = self.log, logged.body, True
        log.append(logged)
        if self._keep:
            body.keep_obj()
            size = body.encoded_bytes
        else:
            size = len(body.encoded)
            if size > DECODED_BYTES_MAX:
                body.forget_obj()
                decoded = False
        self._end_bytes = logged.end_bytes = self._end_bytes + size
        held = logged.held_bytes = EVENT_BYTES + size * (2 + DECODED_FACTOR if decoded else 2)
        if len(log) > DECODED_EVENTS_MAX:
            held -= self._make_small(log[-1 - DECODED_EVENTS_MAX])
        self._hold(held)
        if len(log) >= 2 * LOG_EVENTS_MAX:
            self._drop(LOG_EVENTS_MAX)
        if self.log_bytes > LOG_BYTES_MAX:
            self.shrink(int(LOG_BYTES_MAX * LOG_BYTES_KEPT))

    def _hold(self, count: int) -> None:
        self.log_bytes += count
        self._total.held += count

    def _make_small(self, logged: WatchEvent) -> int:
        """Drop the decoded objects of an event that is no longer new; the object's current state stays
        decoded where the resource keeps its objects. Returns how many bytes that saves."""
        logged.forget_objects(keep_body=self._keep_all or (self._keep and self._is_current(logged)))
        held = logged.held_bytes
        logged.held_bytes = small = EVENT_BYTES + 2 * logged.body.encoded_bytes
        return held - small  # An object's current state counts with the objects.

    def _is_current(self, logged: WatchEvent) -> bool:
        current = self.entries.get(logged.key)
        return current is not None and current.body is logged.body

    def shrink(self, bytes_max: int) -> None:
        """Drop the oldest events until the log holds at most this many bytes, or one event."""
        count, held = 0, self.log_bytes
        while held > bytes_max and count < len(self.log) - 1:
            held -= self.log[count].held_bytes
            count += 1
        if count:
            self._drop(count)

    def _drop(self, count: int) -> None:
        self.floor = self.log[count - 1].revision
        self._hold(-sum(logged.held_bytes for logged in self.log[:count]))
        del self.log[:count]
        self.base += count


class WatchCache:
    """The caches of all resources, moved forward together by one watch of the store. It is also the `View`
    that admission, authorization and strategies read."""

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
