"""Copies a foreign cluster's objects into a store: lists and watches there, commits here.

    caches (on a Domain) ──change──> waiting changes ──a commit each──> store, then audit entries

A commit holds changes of different objects; two changes of one object are two commits, so that history has
both.
Objects that are in the store and not in the first list were deleted while nobody watched.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fathom.attach.kinds import MirroredKind
from fathom.attach.observed_writes import copied, observed_write
from fathom.cache.caches import Caches
from fathom.cache.observer import CacheEvent, CacheFailed, CacheObserver, Listed, Resumed
from fathom.cache.scope import CacheScope
from fathom.client.api import Api
from fathom.client.http import HttpBackend, ServerAddress
from fathom.model.audit import AuditSink
from fathom.model.body import Body, canonical
from fathom.model.objects import Obj, key_of
from fathom.model.times import SECOND_NS, micro_timestamp
from fathom.seams.domain import Domain
from fathom.seams.host import Host, NoTape
from fathom.seams.log import Log
from fathom.seams.outside import Clock, Outside
from fathom.seams.seam import Seam
from fathom.seams.streams import Streams
from fathom.store.protocol import Committed, Delete, Entry, Put, Store, StoreUnavailable, Write

WRITES_MAX = 100  # Of a commit: etcd's limit.
RETRY_S = 1.0
TELL_S = 30.0  # So often it is said which kinds are missing.
USER_AGENT = "fathom attach"


class ObservedChange(msgspec.Struct, frozen=True):
    resource: str
    key: str  # In the store.
    old: Obj | None
    new: Obj | None
    told: bool = True  # Whether it happened while we watched, so that it is worth an audit entry.


def store_key(resource: str, obj: Obj) -> str:
    key = key_of(obj)
    return (
        f"/registry/{resource}/{key.namespace}/{key.name}"
        if key.namespace
        else f"/registry/{resource}/{key.name}"
    )


def body_of(obj: Obj) -> Body:
    return Body(canonical(obj))


def next_commit(waiting: deque[ObservedChange]) -> list[ObservedChange]:
    """The changes of the next commit, taken off the queue: in order, each object once."""
    taken: list[ObservedChange] = []
    keys: set[str] = set()
    while waiting and waiting[0].key not in keys and len(taken) < WRITES_MAX:
        keys.add(waiting[0].key)
        taken.append(waiting.popleft())
    return taken


def first_changes(
    resource: str, listed: Sequence[Obj], stored: Mapping[str, Entry], *, copied_before: bool
) -> list[ObservedChange]:
    """What makes the store equal to a first list. `copied_before`: the store has an earlier copy, so that
    what differs has changed meanwhile; else nothing is known about when."""
    changes, missing = [], dict(stored)
    for obj in listed:
        key = store_key(resource, obj)
        entry = missing.pop(key, None)
        before = None if entry is None else entry.body.obj
        if before is None or before != canonical(obj):
            reported = copied_before and before is not None
            changes.append(ObservedChange(resource, key, before, obj, reported))
    # A server begins with namespaces of its own, which the cluster may not have: their end is no news of it.
    reported = copied_before and resource != "namespaces"
    changes += [
        ObservedChange(resource, key, entry.body.obj, None, reported) for key, entry in missing.items()
    ]
    return changes


class Mirror:
    """Create it on the host's loop."""

    def __init__(
        self,
        server: ServerAddress,
        kinds: Sequence[MirroredKind],
        store: Store,
        *,
        stored: Callable[[str], Mapping[str, Entry]],
        copied_before: bool,
        audit: AuditSink,
        outside: Outside,
        log: Log,
    ) -> None:
        """`stored`: the entries of a resource, by key, before the first commit."""
        self._kinds = kinds
        self._store = store
        self._stored = stored
        self._copied_before = copied_before
        self._audit = audit
        self._outside = outside
        self._log = log
        self._waiting: deque[ObservedChange] = deque()
        self._woken = asyncio.Event()
        self._revision = 0  # Of the last commit.
        self.synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.failing = Failing(log, outside.clock)
        self._domain = Domain()
        self._host = Host(self._domain, outside.clock, NoTape(), log=log)
        self._backend = HttpBackend(self._host, server)
        self._seam = Seam(self._domain, self._backend)
        self._caches = self._made_caches()
        self._tasks: list[asyncio.Task[None]] = []

    def _made_caches(self) -> Caches:
        api = Api(self._seam, headers=(("user-agent", USER_AGENT),))
        streams = Streams(f"{self._outside.rng.getrandbits(64):x}")
        caches = Caches(api, streams=streams, observer=self.failing, shared_revisions=False)
        for kind in self._kinds:
            for namespace in kind.namespaces or ("",):
                name = f"{kind.kind} {namespace}".rstrip()
                caches.add(name, CacheScope(kind.resource, namespace, kind=kind.kind), indexes={})
        return caches

    async def run(self) -> None:
        """Run until cancelled. `synced` is done when the store is equal to the first lists."""
        self._host.start(self._seam, lambda: self._tasks.append(self._domain.create_task(self._follow())))
        gc.enable()  # Nothing here is replayed: Python may collect when it likes.
        try:
            await self._commit_for_ever()
        finally:
            self._host.stop()
            await self._backend.close()

    # On the Domain.

    async def _follow(self) -> None:
        self._caches.start()
        while late := await self._caches.until_synced(timeout_s=TELL_S):
            self._log.warn("waiting for the first lists", kinds=list(late))
        self._take_first_lists()
        for name in self._caches.kinds:
            resource = self._caches.scope(name).resource.name
            self._following(name, resource)
        self._waiting.append(SYNCED)
        self._wake()

    def _take_first_lists(self) -> None:
        view = self._caches.snapshot()
        listed: dict[str, list[Obj]] = {}
        for name in self._caches.kinds:
            resource = self._caches.scope(name).resource.name
            listed.setdefault(resource, []).extend(view.list(name))
        for resource, objs in listed.items():
            stored = self._stored(resource)
            self._waiting.extend(first_changes(resource, objs, stored, copied_before=self._copied_before))

    def _following(self, name: str, resource: str) -> None:
        begun = False

        def changed(old: Obj | None, new: Obj | None) -> None:
            if begun and (new or old) is not None:
                key = store_key(resource, new or old or {})
                self._waiting.append(ObservedChange(resource, key, old, new))
                self._wake()

        self._caches.on_change(name, changed)  # Calls it for every object that is there: those are taken.
        begun = True

    def _wake(self) -> None:
        self._woken.set()

    # On the host.

    async def _commit_for_ever(self) -> None:
        while True:
            while self._waiting:
                await self._commit(next_commit(self._waiting))
            self._woken.clear()
            await self._woken.wait()

    async def _commit(self, changes: list[ObservedChange]) -> None:
        wanted = [change for change in changes if change is not SYNCED]
        writes: list[Write] = [
            Delete(change.key) if change.new is None else Put(change.key, body_of(change.new))
            for change in wanted
        ]
        if writes:
            self._revision = await self._committed(writes)
            for change in wanted:
                self._note(change, self._revision)
        if len(wanted) < len(changes) and not self.synced.done():
            self._audit.record(copied(self._outside.ids.uid(), self._now(), self._revision))
            self.synced.set_result(None)

    async def _committed(self, writes: list[Write]) -> int:
        """Repeated until it succeeds: puts and deletes without conditions may happen twice."""
        while True:
            try:
                outcome = await self._store.commit([], writes)
            except StoreUnavailable as error:
                self._log.warn("the copy is not written", error=str(error))
            else:
                if isinstance(outcome, Committed):
                    return outcome.revision
            await asyncio.sleep(RETRY_S)

    def _note(self, change: ObservedChange, revision: int) -> None:
        if not change.told:
            return
        entry = observed_write(
            change.resource,
            change.old,
            change.new,
            id_=self._outside.ids.uid(),
            time=self._now(),
            revision=revision,
        )
        if entry is not None:
            self._audit.record(entry)

    def _now(self) -> str:
        return micro_timestamp(self._outside.clock.now_ns())


SYNCED = ObservedChange("", "", None, None)  # Behind the changes that make the copy complete.


class Failing(CacheObserver):
    """Logs lists and watches that fail, and knows which do."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._since: dict[str, tuple[int, str]] = {}  # Kind -> since when it fails, and the last error.

    def behind(self) -> str:
        """Which kinds the copy cannot follow; '' if it follows all."""
        now_ns = self._clock.now_ns()
        return "; ".join(
            f"{kind} has not been followed for {(now_ns - since_ns) / SECOND_NS:.0f} s: {error}"
            for kind, (since_ns, error) in self._since.items()
        )

    def note(self, event: CacheEvent) -> None:
        if isinstance(event, Listed | Resumed):
            self._since.pop(event.kind, None)
        if isinstance(event, CacheFailed):
            since_ns, _ = self._since.get(event.kind, (self._clock.now_ns(), ""))
            self._since[event.kind] = since_ns, event.error
            self._log.warn(
                "cannot follow the cluster",
                kind=event.kind,
                error=event.error,
                pause_s=round(event.pause_s, 1),
            )
