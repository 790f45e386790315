"""The parts of one API server (`Core`) and one request in progress (`Call`); every verb works with both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec

from fathom.api.admission.chain import Chain
from fathom.api.admission.lanes import Lanes
from fathom.api.agent_connections import Agents, NoAgents
from fathom.api.connection_limits import ConnectionLimits
from fathom.api.request import Caller, Request, RequestTarget
from fathom.api.response_forms import ResponseForm
from fathom.api.shared_timers import SharedTimers
from fathom.api.store_health import StoreHealth
from fathom.api.watch_cache import WatchCache, resource_of
from fathom.kube.definitions.decode import Decoder
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry
from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.table import DEFAULT, RULES
from fathom.model.audit import Verdict
from fathom.model.errors import ApiError, timed_out
from fathom.model.times import SECOND_NS, timestamp
from fathom.model.updates import UpdateObserver
from fathom.model.user import User
from fathom.seams.outside import Outside
from fathom.store.protocol import Entry, Store, StoreUnavailable

# kube-apiserver waits this long for its watch cache before it answers "Too large resource version".
FRESH_WAIT_S = 3.0

# Changes of watched keys mostly arrive within this time. A progress request for the other keys costs etcd a
# read, and before 3.5.13 a write.
PROGRESS_AFTER_S = 0.01
PROGRESS_AGAIN_S = 0.1

# Bookmarks say how new the cache is. Where others write too, the store is asked for that at most this often.
AS_OF_S = 0.5


# kube-apiserver sends at most 4 KiB of warnings, which is some dozens.
WARNINGS_MAX = 50


class RequestLimits(msgspec.Struct, frozen=True):
    body_bytes_max: int = 3 * 1024 * 1024  # kube-apiserver's limit.
    request_s: float = 60.0
    watch_s_min: int = 1800  # A watch without a timeout ends after this to twice this, as kube's do.
    bookmark_s: float = 60.0


class ServerCounts(msgspec.Struct):
    """Counters since the start of the server, for operators."""

    watches_dropped: int = 0  # Watches ended because the client read too slowly.
    commits_retried: int = 0  # Commits that lost a race and were decided again.


class Core:
    """The parts of one server. Nothing here knows about sockets."""

    def __init__(
        self,
        *,
        store: Store,
        cache: WatchCache,
        registry: Registry,
        decoder: Decoder,
        chain: Chain,
        outside: Outside,
        shared_store: bool,
        audited: bool = True,
        limits: RequestLimits | None = None,
        agents: Agents | None = None,
        updates: UpdateObserver | None = None,
    ) -> None:
        self.store = store
        self.health = StoreHealth(store)
        self.cache = cache
        self.registry = registry
        self.decoder = decoder
        self.chain = chain
        self.lanes = Lanes()
        self.shared_timers = SharedTimers()
        self.outside = outside
        self.shared_store = shared_store  # Other servers write too: the cache may be behind their writes.
        self.audited = audited  # Record which fields a write changed.
        self.limits = limits or RequestLimits()
        self.agents: Agents = agents or NoAgents()  # Connections to the node agents.
        self.updates = updates  # Is told which fields each committed update changed.
        self.connections = ConnectionLimits()  # Of exec, attach and port-forward.
        self.read_only = ""  # Why no write is taken; '': they are.
        self.draining = False  # About to stop: not ready any more, but all requests are still answered.
        self.stopping = False  # Watches end.
        self.counts = ServerCounts()
        self._current_s = float("-inf")  # The cache has all that the store had at this time.
        self._asking: asyncio.Task[None] | None = None

    def rules(self, kind: Kind) -> KindRules:
        if self.registry.is_custom(kind.resource):
            return DEFAULT  # Also one that has the name of a kind of ours, which is not built in here.
        return RULES.get(kind.stored_as or kind.resource, DEFAULT)

    def moment(self, user: User) -> WriteMoment:
        return WriteMoment(now=timestamp(self.outside.clock.now_ns()), view=self.cache, user=user)

    async def current(self, key: str) -> Entry | None:
        """One entry, at least as new as in any answer given so far. The cache is new enough where this server
        is the store's only writer, because it then holds every acknowledged write."""
        if self.shared_store:
            return await self.store.get(key)
        return self.cache.of(resource_of(key)).entries.get(key)

    async def catch_up(self) -> int:
        """Bring the cache to the store's newest revision, for a consistent list or watch."""
        if self.shared_store:
            asked_s = self._now_s()
            await self.wait_for(await self.store.revision())
            self._current_s = max(self._current_s, asked_s)
        return self.cache.reached

    def as_of_s(self) -> float:
        """The cache has all that the store had at this time of the monotonic clock, as far as is known. A
        server that is cut off from a shared store hears of no changes, and must not call that current."""
        now_s = self._now_s()
        if not self.shared_store:
            return now_s  # It has every write that was acknowledged.
        if now_s - self._current_s > AS_OF_S and (self._asking is None or self._asking.done()):
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        return self._current_s

    async def _ask(self) -> None:
        with contextlib.suppress(ApiError, StoreUnavailable):
            await self.catch_up()

    def _now_s(self) -> float:
        return self.outside.clock.monotonic_ns() / SECOND_NS

    async def wait_for(self, revision: int) -> None:
        if self.cache.reached >= revision:
            return
        try:
            async with asyncio.timeout(FRESH_WAIT_S):
                await self._reach(revision)
        except TimeoutError:
            raise too_new(revision, self.cache.reached) from None

    async def _reach(self, revision: int) -> None:
        """The revision of a shared store also rises with keys that this server does not watch. No event would
        arrive for those, so after a short wait the server asks the store for its progress."""
        patience_s = PROGRESS_AFTER_S if self.shared_store else FRESH_WAIT_S
        while self.cache.reached < revision:
            try:
                async with asyncio.timeout(patience_s):
                    await self.cache.at_least(revision)
            except TimeoutError:
                await self.store.request_progress()
                patience_s = PROGRESS_AGAIN_S


def too_new(revision: int, reached: int) -> ApiError:
    error = timed_out(f"Too large resource version: {revision}, current: {reached}")
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    error.details = {"causes": [cause], "retryAfterSeconds": 1}
    error.retry_after_s = 1
    return error


class WriteVerdicts(msgspec.Struct):
    """The effects of one write, collected for its audit entry."""

    name: str = ""
    uid: str = ""
    revision: int = 0
    changed: Sequence[str] = ()
    admission: Sequence[Verdict] = ()
    decision: str = ""  # Of this object's part; '': the request's.
    break_glass: str = ""  # The override that allows the request, where no role does.
    container: str = ""  # Of a connection into a pod: its container, command or ports.
    command: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


class Call(msgspec.Struct):
    """One request in progress."""

    request: Request
    target: RequestTarget
    kind: Kind
    caller: Caller
    form: ResponseForm
    warnings: dict[str, None]  # Without duplicates, in order of arrival; bounded by `warn`.
    audit: WriteVerdicts
    warnings_untold: int = 0
    parts: list[Call] = msgspec.field(default_factory=list)  # One per object, if the call writes several.

    @property
    def namespace(self) -> str:
        return self.target.namespace if self.kind.namespaced else ""

    @property
    def store_key(self) -> str:
        return self.kind.store_key(self.namespace, self.target.name)

    @property
    def dry_run(self) -> bool:
        return bool(self.request.query.get("dryRun"))

    def warn(self, message: str) -> None:
        """Add a warning. Each entry of a long list may cause one: those beyond WARNINGS_MAX are only
        counted."""
        if message in self.warnings:
            return
        if len(self.warnings) < WARNINGS_MAX:
            self.warnings[message] = None
        else:
            self.warnings_untold += 1
