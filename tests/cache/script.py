"""A scripted API server and a world around it: list and watch as Kubernetes does them, in memory, on virtual
time, with faults at command. Deterministic: the same script gives the same run.

    world = World()
    world.server.create(PODS, pod("a"))
    caches = world.caches({"Pod": PODS})
    world.run(2)                       # two virtual seconds
    world.server.drop_watches()
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from fathom.cache.caches import Caches
from fathom.cache.indexes import STANDARD, Index
from fathom.cache.observer import CacheCounts, CacheEvent
from fathom.cache.scope import CacheScope, ListPace
from fathom.client.api import Api, Resource
from fathom.client.events import ADDED, BOOKMARK, DELETED, ERROR, INITIAL_EVENTS_END, MODIFIED
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, bad_request, expired, timed_out
from fathom.model.objects import Key, Obj, key_of, with_metadata
from fathom.model.well_known import BOOKMARK_ANNOTATION
from fathom.seams.domain import Domain
from fathom.seams.seam import Ask, Input, Seam
from fathom.seams.streams import Streams

PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes", namespaced=False)
POLICIES = Resource("fathom.dev", "v1alpha1", "schedulingpolicies", namespaced=False)
KINDS = {"pods": "Pod", "nodes": "Node", "schedulingpolicies": "SchedulingPolicy"}

SECOND_NS = 1_000_000_000


def pod(name: str, namespace: str = "default", **parts: Any) -> Obj:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace, **parts.pop("meta", {})},
        **parts,
    }


def node(name: str, **parts: Any) -> Obj:
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, **parts.pop("meta", {})}, **parts}


class Commit(msgspec.Struct, frozen=True):
    revision: int
    resource: str
    type: str
    obj: Obj


class Watch(msgspec.Struct):
    """One stream being served."""

    number: int
    resource: str
    namespace: str
    after: int  # Everything up to here has been sent.
    bookmark_s: float  # 0: none.


Fault = Callable[[Ask], ApiError | None]


class Server:
    def __init__(self, world: World) -> None:
        self._world = world
        self.revision = 0
        self.floor = 0  # What is older has been compacted.
        self.history: list[Commit] = []
        self.watches: dict[int, Watch] = {}
        self.asks: list[tuple[float, Ask]] = []
        self._uids = itertools.count(1)
        # How it behaves.
        self.latency_s = 0.001
        self.has_watch_list = True
        self.ends_lists = True  # False: WatchList never ends, as where the API server's etcd is too old.
        self.knows_header = True  # Sends bookmarks as often as it is asked to; else one a minute.
        self.promises_bookmarks = True  # And says so at the end of a WatchList.
        self.sends_bookmarks = True
        self.page_max = 0  # Pages are no larger than this, whatever is asked for.
        self.pages_drift = False  # Later pages show a later revision.
        self.expires_by_event = True  # A watch of the past gets an ERROR event; else an HTTP 410.
        self.events_per_chunk = 0  # 0: as many as there are.
        self.chunks_left: int | None = None  # Then every connection breaks, in the middle of whatever it is.
        # What is wrong with it.
        self.faults: list[Fault] = []  # The first that answers for an ask decides; see `refuse`.
        self.deaf = False  # Connections stay, nothing comes through.
        self.behind: int | None = None  # It lives in the past: nothing after this revision is known to it.

    # The store.

    def create(self, resource: Resource, obj: Obj) -> Obj:
        return self.commit((ADDED, resource, obj))[0]

    def update(self, resource: Resource, obj: Obj) -> Obj:
        return self.commit((MODIFIED, resource, obj))[0]

    def delete(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        obj = self.objects(resource.name)[Key(namespace, name)]
        return self.commit((DELETED, resource, obj))[0]

    def commit(self, *changes: tuple[str, Resource, Obj]) -> list[Obj]:
        """Several changes at one revision."""
        self.revision += 1
        written = []
        for type_, resource, obj in changes:
            now = self.objects(resource.name).get(key_of(obj))
            uid = now["metadata"]["uid"] if now else f"uid-{next(self._uids)}"
            stamped = with_metadata(obj, uid=uid, resourceVersion=str(self.revision))
            assert (now is None) == (type_ == ADDED), f"{type_} of {key_of(obj)}"
            self.history.append(Commit(self.revision, resource.name, type_, stamped))
            written.append(stamped)
        self._serve_watches()
        return written

    def objects(self, resource: str, at: int | None = None) -> dict[Key, Obj]:
        """All objects, now or at a revision, sorted by key."""
        found: dict[Key, Obj] = {}
        for one in self.history:
            if one.resource != resource or (at is not None and one.revision > at):
                continue
            if one.type == DELETED:
                found.pop(key_of(one.obj), None)
            else:
                found[key_of(one.obj)] = one.obj
        return dict(sorted(found.items()))

    def compact(self) -> None:
        self.floor = self.revision

    # Faults.

    def refuse(self, error: ApiError, *, times: int = 1, only: str = "") -> None:
        """Answer the next asks (whose target has `only` in it) with an error."""
        left = itertools.count(times, -1)

        def fault(ask: Ask) -> ApiError | None:
            return error if only in ask.target and next(left) > 0 else None

        self.faults.append(fault)

    def drop_watches(self) -> None:
        """All streams end; clients are told."""
        for number in list(self.watches):
            self._end(number)

    def lists(self, since_s: float = 0.0) -> int:
        """How often all objects were asked for: first pages, and watches with initial events."""
        return sum(
            1
            for at_s, ask in self.asks
            if at_s >= since_s
            and "continue=" not in ask.target
            and ("watch=" not in ask.target or "sendInitialEvents" in ask.target)
        )

    # The Backend.

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        self.asks.append((self._world.now_s, ask))
        self._world.later(self.latency_s, self._arrive, number, ask, stream)

    def cancel(self, number: int) -> None:
        self.watches.pop(number, None)

    def _arrive(self, number: int, ask: Ask, stream: bool) -> None:
        if self.deaf:
            return
        try:
            for fault in self.faults:
                error = fault(ask)
                if error is not None:
                    raise error
            if stream:
                self._watch(number, ask)
            else:
                self._send(Input.REPLY, number, 200, self._body(self._list(ask)))
        except ApiError as error:
            kind = Input.OPENED if stream else Input.REPLY
            self._send(kind, number, error.code, self._body(error.status()))

    def _now(self) -> int:
        return self.revision if self.behind is None else min(self.behind, self.revision)

    def _list(self, ask: Ask) -> Obj:
        resource, namespace, query = _parsed(ask)
        limit = int(query.get("limit") or 0)
        limit = min(limit, self.page_max) if self.page_max and limit else limit
        at, _, start = query.get("continue", f"{self._now()}|").partition("|")
        if self.pages_drift:
            at = str(self._now())
        if int(at) < self.floor:
            raise expired("The provided continue parameter is too old to display a consistent list result.")
        found = [
            (key, obj)
            for key, obj in self.objects(resource, int(at)).items()
            if (not namespace or key.namespace == namespace) and f"{key.namespace}/{key.name}" > start
        ]
        page = found[:limit] if limit else found
        meta = {"resourceVersion": at}
        if len(page) < len(found):
            last = page[-1][0]
            meta["continue"] = f"{at}|{last.namespace}/{last.name}"
        kind = KINDS[resource.partition(".")[0]]
        items = [obj for _, obj in page]
        return {"kind": f"{kind}List", "apiVersion": "v1", "metadata": meta, "items": items}

    def _watch(self, number: int, ask: Ask) -> None:
        resource, namespace, query = _parsed(ask)
        initial = query.get("sendInitialEvents") == "true"
        if initial and not self.has_watch_list:
            raise bad_request("sendInitialEvents is forbidden for watch")
        after = int(query.get("resourceVersion") or 0)
        if after > self._now():
            raise timed_out(f"Too large resource version: {after}, current: {self._now()}")
        too_old = not initial and after < self.floor
        error = expired(f"too old resource version: {after} ({self.floor})")
        if too_old and not self.expires_by_event:
            raise error
        self._send(Input.OPENED, number, 200, b"")
        if too_old:
            self._chunk(number, [(ERROR, error.status())])
            self._send(Input.ENDED, number, 0, b"")
            return
        headers = {name.lower(): value for name, value in ask.headers}
        asked_s = float(headers.get("fathom-bookmark-seconds", 60)) if self.knows_header else 60.0
        watch = Watch(number, resource, namespace, after, asked_s if self.sends_bookmarks else 0.0)
        self.watches[number] = watch
        if initial:
            self._send_initial(watch)
        self._serve(watch)
        self._world.later(float(query.get("timeoutSeconds") or 300), self._end, number)
        if watch.bookmark_s:
            self._world.later(watch.bookmark_s, self._bookmark, number)

    def _send_initial(self, watch: Watch) -> None:
        watch.after = self._now()
        objs = [
            obj
            for key, obj in self.objects(watch.resource, watch.after).items()
            if not watch.namespace or key.namespace == watch.namespace
        ]
        annotations = {INITIAL_EVENTS_END: "true"}
        if self.knows_header and self.sends_bookmarks and self.promises_bookmarks:
            annotations[BOOKMARK_ANNOTATION] = f"{watch.bookmark_s:g}"
        end = [(BOOKMARK, self._mark(watch, annotations))] if self.ends_lists else []
        self._chunk(watch.number, [*((ADDED, obj) for obj in objs), *end])

    def _mark(self, watch: Watch, annotations: dict[str, str]) -> Obj:
        meta: Obj = {"resourceVersion": str(watch.after), "annotations": annotations}
        return {"kind": "Bookmark", "apiVersion": "v1", "metadata": meta}

    def _serve_watches(self) -> None:
        for watch in list(self.watches.values()):
            self._serve(watch)

    def _serve(self, watch: Watch) -> None:
        now = self._now()
        if self.deaf or now <= watch.after:
            return
        events = [
            (one.type, one.obj)
            for one in self.history
            if watch.after < one.revision <= now
            and one.resource == watch.resource
            and (not watch.namespace or key_of(one.obj).namespace == watch.namespace)
        ]
        watch.after = now
        if events:
            self._chunk(watch.number, events)

    def _bookmark(self, number: int) -> None:
        watch = self.watches.get(number)
        if watch is None:
            return
        self._world.later(watch.bookmark_s, self._bookmark, number)
        if not self.deaf:
            self._serve(watch)
            self._chunk(number, [(BOOKMARK, self._mark(watch, {}))])

    def _end(self, number: int) -> None:
        if self.watches.pop(number, None) is not None and not self.deaf:
            self._send(Input.ENDED, number, 0, b"")

    def _chunk(self, number: int, events: list[tuple[str, Obj]]) -> None:
        size = self.events_per_chunk or len(events)
        for at in range(0, len(events), size):
            if self.chunks_left == 0:
                self.chunks_left = None
                self.drop_watches()
                return
            if self.chunks_left is not None:
                self.chunks_left -= 1
            self._send(Input.CHUNK, number, 0, self._lines(events[at : at + size]))

    def _lines(self, events: list[tuple[str, Obj]]) -> Any:
        if not self._world.wire:
            return events
        return b"".join(encode_json({"type": type_, "object": obj}) + b"\n" for type_, obj in events)

    def _body(self, obj: Obj) -> Any:
        return encode_json(obj) if self._world.wire else obj

    def _send(self, kind: Input, number: int, status: int, payload: Any) -> None:
        self._world.later(self.latency_s, self._world.deliver, kind, number, status, payload)


def _parsed(ask: Ask) -> tuple[str, str, dict[str, str]]:
    url = urlsplit(ask.target)
    parts = url.path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 2 else ""
    plural = rest[2] if namespace else rest[0]
    return f"{plural}.{group}" if group else plural, namespace, dict(parse_qsl(url.query))


class Recorder(CacheCounts):
    """Counts, and keeps what happened."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[CacheEvent] = []

    def note(self, event: CacheEvent) -> None:
        super().note(event)
        self.events.append(event)


class World:
    """One process on a Domain, and its server. `wire`: everything is encoded, as over a network."""

    def __init__(self, *, wire: bool = True) -> None:
        self.wire = wire
        self.domain = Domain()
        self.server = Server(self)
        self.seam = Seam(self.domain, self.server)
        self.api = Api(self.seam)
        self.seen = Recorder()
        self.changes: list[tuple[str, Obj | None, Obj | None]] = []  # What handlers were told.
        self._due: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._now_ns = 0

    @property
    def now_s(self) -> float:
        return self._now_ns / SECOND_NS

    def caches(
        self,
        kinds: Mapping[str, Resource | CacheScope],
        *,
        indexes: Mapping[str, Index] = STANDARD,
        pace: ListPace | None = None,
        start: bool = True,
        **options: Any,
    ) -> Caches:
        """Caches of these kinds, started; what their handlers are told is kept in `changes`."""
        caches = Caches(
            self.api, streams=Streams("seed"), observer=self.seen, pace=pace, share=self.wire, **options
        )
        for kind, what in kinds.items():
            caches.add(kind, what if isinstance(what, CacheScope) else CacheScope(what), indexes=indexes)
            caches.on_change(kind, partial(self._told, kind))
        if start:
            self.do(caches.start)
        return caches

    def _told(self, kind: str, old: Obj | None, new: Obj | None) -> None:
        self.changes.append((kind, old, new))

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        end_ns = self._now_ns + round(seconds * SECOND_NS)
        while True:
            deadline_ns = self.domain.next_deadline_ns()
            mine_ns = self._due[0][0] if self._due else None
            next_ns = min((ns for ns in (deadline_ns, mine_ns) if ns is not None), default=end_ns + 1)
            if next_ns > end_ns:
                break
            self._now_ns = max(self._now_ns, next_ns)
            if mine_ns is not None and mine_ns <= self._now_ns:
                _, _, action, args = heapq.heappop(self._due)
                action(*args)
            else:
                self.domain.input(self._now_ns)
        self._now_ns = end_ns
        self.domain.input(end_ns)
        assert self.domain.failures == []

    def do(self, action: Callable[[], Any]) -> Any:
        """Call something inside the process, now."""
        results: list[Any] = []
        self.domain.input(self._now_ns, lambda: results.append(action()))
        return results[0] if results else None

    def wait(self, coroutine: Coroutine[Any, Any, Any], *, within_s: float = 60.0) -> Any:
        """Run a coroutine inside the process to its end."""
        task = self.do(lambda: self.domain.create_task(coroutine))
        end_s = self.now_s + within_s
        while not task.done():
            assert self.now_s < end_s, "it takes too long"
            self.run(0.01)
        return task.result()

    def later(self, seconds: float, action: Callable[..., None], *args: Any) -> None:
        at_ns = self._now_ns + round(seconds * SECOND_NS)
        heapq.heappush(self._due, (at_ns, next(self._order), action, args))

    def deliver(self, kind: Input, number: int, status: int, payload: Any) -> None:
        self.domain.input(self._now_ns, self.seam.deliver, kind, number, status, payload)

    # What tests look at.

    def names(self, caches: Caches, kind: str) -> list[str]:
        return [obj["metadata"]["name"] for obj in self.do(caches.snapshot).list(kind)]

    def is_settled(self, caches: Caches, kind: str, resource: Resource) -> bool:
        """The cache has exactly what the store has."""
        have = {key_of(obj): obj for obj in self.do(caches.snapshot).list(kind)}
        return have == self.server.objects(resource.name)
