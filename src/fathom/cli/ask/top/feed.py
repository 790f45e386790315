"""What `fathom top` follows: each kind by a list and a watch, in a thread of its own. The only I/O, with
`questions`.

A thread, not a task: the rest of the command line speaks HTTP without an event loop, and loading one more
library would take longer than the first screen. Threads only replace whole mappings, under one lock; who
draws takes a snapshot.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from fathom.cli.api_server import NoAnswerNow, Refused, ServerConnection
from fathom.cli.ask.top import seen as what
from fathom.cli.ask.top.seen import (
    READING,
    Answer,
    BreakerSeen,
    ClusterSeen,
    LeaseSeen,
    NodeLoad,
    lease_seen,
    node_loads,
    pod_seen,
)
from fathom.cli.problem import Problem
from fathom.kinds.shape import GROUP, VERSION
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.brake import SHOWN
from fathom.model.objects import Key, Obj, key_of, metadata
from fathom.seams.outside import SystemClock

PAGE_OBJECTS = 500
ANSWER_S = 10.0  # Of a request; a server that takes longer counts as lost.
WATCH_S = 300
SILENT_S = 90.0  # A watch without a line for so long is opened again: bookmarks come every minute.
LEASES_SILENT_S = 15.0  # Leases are renewed every few seconds: their silence shows that the server hangs.
RETRY_S, RETRY_S_MAX = 0.5, 3.0
REFUSED_S = 30.0  # Rights may be granted meanwhile.
OWN = f"/apis/{GROUP}/{VERSION}"
EXPIRED = 410


class FollowedKind(msgspec.Struct, frozen=True):
    name: str  # In messages: 'not allowed to list NAME'.
    path: str  # {} is the place of the namespace.
    fields: str = ""  # A field selector.
    silent_s: float = SILENT_S

    @property
    def namespaced(self) -> bool:
        return "{}" in self.path

    def target(self, namespace: str, **query: str) -> str:
        place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        chosen = {**({"fieldSelector": self.fields} if self.fields else {}), **query}
        return f"{self.path.format(place)}?{urlencode(chosen)}"


SYSTEM = f"namespaces/{SYSTEM_NAMESPACE}"
FOLLOWED = (
    FollowedKind(what.PROGRESS, OWN + "{}/workloadprogresses"),
    FollowedKind(what.NODES, "/api/v1/nodes"),
    FollowedKind(what.PODS, "/api/v1{}/pods"),
    FollowedKind(
        what.LEASES, f"/apis/coordination.k8s.io/v1/{SYSTEM}/leases", silent_s=LEASES_SILENT_S
    ),
    FollowedKind(what.BRAKE, f"/api/v1/{SYSTEM}/configmaps", fields=f"metadata.name={SHOWN.name}"),
    FollowedKind(what.OVERRIDES, OWN + "{}/scheduleroverrides"),
    FollowedKind(what.SIGNALS, OWN + "/componentsignals"),
)  # fmt: skip
QUIET = frozenset({what.LEASES})  # Their changes change no answer.


class Feed:
    """All that is known, and since when the server does not answer."""

    def __init__(self, kubeconfig: Path | None, namespace: str) -> None:
        """Raises Problem."""
        self.kubeconfig = kubeconfig
        self.clock = SystemClock()
        self._server = ServerConnection(kubeconfig, answer_s=ANSWER_S)
        self._lock = Lock()
        self._namespace = namespace
        self._objects: dict[str, dict[Key, Any]] = {kind.name: {} for kind in FOLLOWED}
        self._notes: dict[str, str] = {kind.name: READING for kind in FOLLOWED}
        self._notes |= {what.STUCK: READING, what.BREAKERS: READING}
        self._loads: Mapping[str, NodeLoad] | None = None  # None: the pods have changed since.
        self._stuck: tuple[Answer, ...] = ()
        self._breakers: tuple[BreakerSeen, ...] = ()
        self._lost: dict[str, tuple[int, str]] = {}  # Who has no answer: since when, and why.
        self._changes: Counter[str] = Counter()  # By namespace: what questions depend on.
        self._followers: list[Follower] = []
        self.version = 0  # Grows with every change: whoever draws compares.

    @property
    def namespace(self) -> str:
        return self._namespace

    def connection(self) -> ServerConnection:
        """One for another thread. Raises Problem."""
        return ServerConnection(self.kubeconfig, answer_s=ANSWER_S)

    def check(self) -> None:
        """That there is a server which knows the user. Raises Problem."""
        status, answer = self._server.request("GET", "/version")
        if status == 401:
            raise Problem(str(answer.get("message") or "the API server does not know the user"))

    def start(self) -> None:
        """Follow every kind. Called again, it follows with another namespace."""
        for follower in self._followers:
            follower.end()
        self._followers = [Follower(self, kind) for kind in FOLLOWED]
        for follower in self._followers:
            Thread(target=follower.run, name=f"follow {follower.kind.name}", daemon=True).start()

    def read_once(self) -> None:
        """Lists only, for one page. Raises Problem."""
        for kind in FOLLOWED:
            Follower(self, kind).read()

    def switch(self, namespace: str) -> None:
        """Show another namespace. Only a user who may not list all of them has to read again."""
        with self._lock:
            self._namespace = namespace
            self._stuck, self._notes[what.STUCK] = (), READING
            self._changed(namespace)
            limited = any(each.limited for each in self._followers)
        if limited:
            self.start()

    def snapshot(self) -> ClusterSeen:
        with self._lock:
            if self._loads is None:
                self._loads = node_loads(self._objects[what.PODS])
            lost_ns, lost_why = min(self._lost.values(), default=(0, ""))
            objects = self._objects
            return ClusterSeen(
                namespace=self._namespace,
                now_ns=self.clock.now_ns(),
                server=self._server.url,
                pods=dict(objects[what.PODS]),
                loads=self._loads,
                nodes=dict(objects[what.NODES]),
                leases=dict(objects[what.LEASES]),
                brake=objects[what.BRAKE].get(Key(*SHOWN)),
                overrides=dict(objects[what.OVERRIDES]),
                signals=dict(objects[what.SIGNALS]),
                progress=dict(objects[what.PROGRESS]),
                stuck=self._stuck,
                breakers=self._breakers,
                notes=dict(self._notes),
                lost_since_ns=lost_ns,
                lost_why=lost_why,
            )

    def changes(self, namespace: str) -> int:
        """A number that grows with every change that may change an answer about the namespace."""
        with self._lock:
            return self._changes.total() if not namespace else self._changes[namespace] + self._changes[""]

    # What followers and questions report.

    def listed(self, kind: str, objs: dict[Key, Any], *, limited: bool) -> None:
        with self._lock:
            self._objects[kind] = objs
            self._notes.pop(kind, None)
            if kind == what.PODS:
                self._loads = None
                self._note(what.ALL_PODS, f"not allowed to list {what.ALL_PODS}" if limited else "")
            self._lost.pop(kind, None)
            if kind not in QUIET:
                self._changed("")

    def changed(self, kind: str, key: Key, value: Any | None) -> None:
        with self._lock:
            if value is None:
                self._objects[kind].pop(key, None)
            else:
                self._objects[kind][key] = value
            if kind == what.PODS:
                self._loads = None
            self.version += 1
            if kind not in QUIET:
                self._changed(key.namespace)

    def refused(self, kind: str, why: str) -> None:
        with self._lock:
            self._objects[kind] = {}
            self._note(kind, why)
            self._lost.pop(kind, None)

    def lost(self, who: str, why: str) -> None:
        with self._lock:
            self._lost.setdefault(who, (self.clock.now_ns(), why))
            self.version += 1

    def answered_stuck(self, namespace: str, items: tuple[Answer, ...], note: str) -> None:
        with self._lock:
            if namespace == self._namespace:  # Else it is the answer for the namespace before.
                self._stuck = items
                self._note(what.STUCK, note)

    def answered_breakers(self, breakers: tuple[BreakerSeen, ...], note: str) -> None:
        with self._lock:
            self._breakers = breakers
            self._note(what.BREAKERS, note)

    def note(self, name: str, text: str) -> None:
        """Why something is not known; '' if it is."""
        with self._lock:
            self._note(name, text)

    def sighting(self, key: Key) -> LeaseSeen | None:
        with self._lock:
            return self._objects[what.LEASES].get(key)

    def _note(self, name: str, text: str) -> None:
        if text:
            self._notes[name] = text
        else:
            self._notes.pop(name, None)
        self.version += 1

    def _changed(self, namespace: str) -> None:
        self._changes[namespace] += 1
        self.version += 1


class Follower:
    """Keeps the feed's objects of one kind up to date."""

    def __init__(self, feed: Feed, kind: FollowedKind) -> None:
        self.kind = kind
        self.limited = False  # Whether the user may not list all namespaces: another one must be read anew.
        self._feed = feed
        self._server = feed.connection()
        self._ended = Event()
        self._keep: Callable[[Obj], Any] = self._keeper()

    def end(self) -> None:
        """It stops at its next line; until then it changes nothing."""
        self._ended.set()

    def run(self) -> None:
        failures = 0
        while not self._ended.is_set():
            try:
                revision = self.read()
                failures = 0
                self._follow(revision)
                continue
            except NoAnswerNow as error:
                if self._ended.is_set():
                    return
                failures += 1
                self._feed.lost(self.kind.name, str(error))
                pause_s = min(RETRY_S * 2 ** (failures - 1), RETRY_S_MAX)
            except Problem as error:
                if self._ended.is_set():
                    return
                self._feed.refused(self.kind.name, str(error))
                pause_s = REFUSED_S
            self._ended.wait(pause_s)

    def read(self) -> str:
        """The list's revision; '' if the user may not list. Raises NoAnswerNow."""
        namespace = ""
        status, answer = self._page(namespace, "")
        self.limited = status == 403 and self.kind.namespaced
        if self.limited and self._feed.namespace:
            namespace = self._feed.namespace
            status, answer = self._page(namespace, "")
        if status != 200:
            self._refuse(status, answer)
        objs: dict[Key, Any] = {}
        while True:
            objs |= {key_of(item): self._keep(item) for item in answer.get("items") or ()}
            meta = metadata(answer)
            if not meta.get("continue"):
                break
            status, answer = self._page(namespace, str(meta["continue"]))
            if status != 200:  # The list has expired while it was read, or the server is unwell.
                raise NoAnswerNow(str(answer.get("message") or f"HTTP {status}"))
        if not self._ended.is_set():
            self._feed.listed(self.kind.name, objs, limited=self.limited)
        return str(meta.get("resourceVersion") or "")

    def _page(self, namespace: str, token: str) -> tuple[int, Obj]:
        more = {"continue": token} if token else {}
        target = self.kind.target(namespace, limit=str(PAGE_OBJECTS), **more)
        return self._server.request("GET", target)

    def _refuse(self, status: int, answer: Answer) -> None:
        name = self.kind.name
        if status == 403:
            raise Refused(f"not allowed to list {name}", code=status)
        if status == 404:
            raise Refused(f"this API server has no {name}", code=status)
        message = str(answer.get("message") or f"HTTP {status}")
        if status == 429 or status >= 500:
            raise NoAnswerNow(message)
        raise Refused(f"{name}: {message}", code=status)

    def _follow(self, revision: str) -> None:
        """Watches, one after the other, until a new list is necessary."""
        namespace = self._feed.namespace if self.limited else ""
        while revision and not self._ended.is_set():
            target = self.kind.target(
                namespace, watch="true", allowWatchBookmarks="true", resourceVersion=revision,
                timeoutSeconds=str(WATCH_S),
            )  # fmt: skip
            before, began_s = revision, time.monotonic()
            for text in self._server.lines(target, seconds=self.kind.silent_s):
                revision = self._apply(msgspec.json.decode(text))
                if not revision or self._ended.is_set():
                    return
            if revision == before and time.monotonic() - began_s < self.kind.silent_s:
                return  # It ended early, and at once perhaps: a list shows whether the server is well.
            if self.kind.silent_s == LEASES_SILENT_S:
                return

    def _apply(self, event: Obj) -> str:
        """The revision of the event; '' if a new list is necessary."""
        obj = event.get("object") or {}
        if event.get("type") == "ERROR":
            return ""
        if event.get("type") != "BOOKMARK" and not self._ended.is_set():
            deleted = event.get("type") == "DELETED"
            self._feed.changed(self.kind.name, key_of(obj), None if deleted else self._keep(obj))
        return str(metadata(obj).get("resourceVersion") or "")

    def _keeper(self) -> Callable[[Obj], Any]:
        if self.kind.name == what.PODS:
            return pod_seen
        if self.kind.name == what.LEASES:
            return lambda lease: lease_seen(
                self._feed.sighting(key_of(lease)), lease, self._feed.clock.now_ns()
            )
        return lambda obj: obj
