"""The current objects of one resource, and the log of its recent events. See `watch_cache`."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from operator import attrgetter

from fathom.api.watch_events import BY_NODE, DELETED, Watcher, WatchEvent, node_of, node_trigger
from fathom.model.objects import Obj
from fathom.store.protocol import Change, Entry

REGISTRY = "/registry/"

# Enough for a watcher to lag some seconds behind thousands of writes a second; older events come from the
# store. At most twice as many are held between two trims.
LOG_EVENTS_MAX = 4096

# Limit of the bytes in the log of one resource. Objects may be megabytes, and an event holds its object twice
# (as the stored body and as the frame that is sent). A decoded object takes some five times its bytes. The
# oldest events are dropped first, down to a part of the limit, so that not every event moves the log.
LOG_BYTES_MAX = 48 << 20
LOG_BYTES_KEPT = 3 / 4
EVENT_BYTES = 512  # Of the event itself, without its object.
DECODED_FACTOR = 5

# The newest events keep their decoded objects: watchers with selectors read them at about the same time, and
# a new object is soon read and changed again. Large objects are decoded on demand.
DECODED_EVENTS_MAX = 512
DECODED_BYTES_MAX = 8 << 10

JOINED_MAX = 4
JOINED_BYTES_MAX = 256 << 10  # Longer chunks are joined for each watcher: they hold few events.


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
        self.revision = 0  # Of the last change to any object of the resource, or of a load after that.
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
        # Loaded again: what was deleted in the gap has left no revision, and whoever asks must not think that
        # nothing has changed.
        newest = max((entry.revision for entry in self.entries.values()), default=0)
        self.revision = revision if self.revision else newest
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
                self._on_nodes.setdefault(node_of(entry.body.obj), {})[key] = None
        prefix = self.prefix if namespace is None else f"{self.prefix}{namespace}/"
        return sorted(key for key in self._on_nodes.get(node, ()) if key.startswith(prefix))

    def _move(self, logged: WatchEvent, on_nodes: dict[str, dict[str, None]]) -> None:
        previous_keys = on_nodes.get(node_of(logged.previous_obj), {})
        previous_keys.pop(logged.key, None)
        if not previous_keys:
            on_nodes.pop(node_of(logged.previous_obj), None)
        if logged.type != DELETED:
            on_nodes.setdefault(node_of(logged.obj), {})[logged.key] = None

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
                node = node_of(obj)
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
