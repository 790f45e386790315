"""One API server on a store, without sockets: what the verbs do, seen from a client's side."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from fathom.api.agent_connections import Agents
from fathom.api.auth.authenticate import Authenticator
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.certificates import ensure_pki
from fathom.api.auth.jws import SigningKey
from fathom.api.request import Request, Response, StreamResponse, UpgradeResponse
from fathom.api.web_page import WebPage
from fathom.ask.collect import Sources
from fathom.assembly import Parts, ServerSettings, assemble, bootstrap
from fathom.model.body import decode_json, encode_json
from fathom.model.decision import Journal, NoJournal
from fathom.model.objects import Obj
from fathom.model.traced import SpanSink
from fathom.model.user import MASTERS, User
from fathom.record.audit import AuditLog
from fathom.seams.log import JsonLog, NoLog
from fathom.seams.outside import Clock, Outside, RandomIds, SystemClock
from fathom.store.memory import MemoryStore
from fathom.store.protocol import Entry, Store

ADMIN = "admin-token"
JANE = "jane-token"


class MovedClock:
    """The system's clock, moved on by a story."""

    def __init__(self) -> None:
        self._ahead_ns = 0

    def now_ns(self) -> int:
        return time.time_ns() + self._ahead_ns

    def monotonic_ns(self) -> int:
        return time.monotonic_ns() + self._ahead_ns

    def move(self, *, minutes: int) -> None:
        self._ahead_ns += minutes * 60 * 1_000_000_000


class Answer(msgspec.Struct):
    status: int
    obj: Any
    headers: dict[str, str]

    @property
    def reason(self) -> str:
        return str(self.obj.get("reason", ""))

    @property
    def causes(self) -> list[tuple[str, str]]:
        """(field, cause type) of each cause."""
        found = (self.obj.get("details") or {}).get("causes") or ()
        return [(cause.get("field", ""), cause.get("reason", "")) for cause in found]


class Watching:
    """A watch, read event by event."""

    def __init__(self, stream: StreamResponse) -> None:
        self._stream = stream
        self._lines: list[bytes] = []

    async def next(self, timeout: float = 5.0) -> Obj | None:
        """The next event; None at the end of the stream."""
        while not self._lines:
            chunk = await asyncio.wait_for(self._stream.source.next(), timeout)
            if chunk is None:
                return None
            self._lines = chunk.splitlines()
        event: Obj = decode_json(self._lines.pop(0))
        return event

    async def take(self, count: int) -> list[tuple[str, str]]:
        """(type, name) of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(e["type"], e["object"]["metadata"].get("name", "")) for e in events if e is not None]

    def close(self) -> None:
        self._stream.source.close()


class Api:
    def __init__(self, parts: Parts, audit: AuditLog) -> None:
        self.parts = parts
        self.audit = audit

    @property
    def core(self) -> Any:
        return self.parts.server.core

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = ADMIN,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        answer = await self.raw(method, path, body, token=token, headers=headers)
        assert isinstance(answer, Response), f"{method} {path} answered a stream"
        obj = decode_json(answer.body) if answer.content_type.startswith("application/json") else answer.body
        return Answer(answer.status, obj, dict(answer.headers))

    async def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = ADMIN,
        headers: dict[str, str] | None = None,
    ) -> Response | StreamResponse:
        path, _, query = path.partition("?")
        raw = body if isinstance(body, bytes) else b"" if body is None else encode_json(body)
        sent = {"content-type": "application/json"} if method != "GET" else {}
        if token:
            sent["authorization"] = f"Bearer {token}"
        sent |= headers or {}
        request = Request(
            method=method, path=path, query=parse_qs(query, keep_blank_values=True), headers=sent, body=raw
        )
        answer = await self.parts.server.handle(request)
        assert not isinstance(answer, UpgradeResponse)  # Nothing here asks for a WebSocket.
        return answer

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.call("POST", path, body, **options)

    async def put(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.call("PUT", path, body, **options)

    async def delete(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.call("DELETE", path, body, **options)

    async def patch(self, path: str, body: Any, kind: str = "merge", **options: Any) -> Answer:
        media = {"merge": "merge-patch", "json": "json-patch", "strategic": "strategic-merge-patch"}
        headers = {"content-type": f"application/{media[kind]}+json"}
        return await self.call("PATCH", path, body, headers=headers, **options)

    async def watch(self, path: str, **options: Any) -> Watching:
        joined = f"{path}{'&' if '?' in path else '?'}watch=true"
        answer = await self.raw("GET", joined, **options)
        if isinstance(answer, Response):
            raise AssertionError(f"watch refused: {answer.status} {answer.body!r}")
        return Watching(answer)

    async def eventually(self, check: Callable[[], Awaitable[bool]], timeout_s: float = 5.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not await check():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(
    data: Path,
    store: Store | None = None,
    *,
    shared_store: bool = False,
    plugins: list[str] | None = None,
    journal: Journal | None = None,
    sources: Sources | None = None,
    agents: Agents | None = None,
    traces: SpanSink | None = None,
    clock: Clock | None = None,
    own_kinds: bool = True,
    read_only: str = "",
    make_page: Callable[[Authenticator, Authorizer], WebPage] | None = None,
) -> AsyncIterator[Api]:
    rng = random.Random(7)
    if store is None and clock is None and not plugins:
        store = await _new_cluster(rng, own_kinds=own_kinds)
    outside = Outside(clock=clock or SystemClock(), ids=RandomIds(rng), rng=rng)
    log = JsonLog((data / "log").open("a"), outside.clock) if (data / "log").exists() else NoLog()
    audit = AuditLog(data / "audit", clock=outside.clock, log=log)
    pki = ensure_pki(data, clock=outside.clock)
    store = store or MemoryStore()
    parts = assemble(
        ServerSettings(
            store=store,
            outside=outside,
            log=log,
            audit=audit,
            signing=SigningKey(pki.accounts_key),
            token="housekeeping-token",
            shared_store=shared_store,
            plugins=tuple(plugins or ()),
            journal=journal or NoJournal(),
            sources=sources,
            agents=agents,
            traces=traces,
            own_kinds=own_kinds,
            read_only=read_only,
            make_page=make_page,
        )
    )
    parts.authenticator.replace_tokens({**parts.own_tokens, **_tokens()})
    await parts.feed.load()
    runs = (parts.feed.follow(), *(() if read_only else (parts.housekeeping.run(), parts.fights.run())))
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        await bootstrap(parts)
        yield Api(parts, audit)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await store.close()


class NewCluster(msgspec.Struct, frozen=True):
    """What a first server writes into an empty store: a hundred objects, the same for most stories."""

    entries: tuple[Entry, ...]
    revision: int
    rng: Any  # Where its random numbers go on, so that no id is given twice.


_new_clusters: dict[bool, NewCluster] = {}


async def _new_cluster(rng: random.Random, *, own_kinds: bool) -> MemoryStore:
    """A store that a server has been started on before. The first one of each kind is kept for all tests."""
    if own_kinds not in _new_clusters:
        _new_clusters[own_kinds] = await _begin(own_kinds=own_kinds)
    begun = _new_clusters[own_kinds]
    rng.setstate(begun.rng)
    store = MemoryStore()
    store.load(begun.entries, begun.revision)
    return store


async def _begin(*, own_kinds: bool) -> NewCluster:
    rng, store = random.Random(7), MemoryStore()
    parts = assemble(
        ServerSettings(
            store=store,
            outside=Outside(clock=SystemClock(), ids=RandomIds(rng), rng=rng),
            log=NoLog(),
            audit=None,
            signing=SigningKey(ec.generate_private_key(ec.SECP256R1())),
            token="housekeeping-token",
            own_kinds=own_kinds,
        )
    )
    await parts.feed.load()
    tasks = [asyncio.create_task(run) for run in (parts.feed.follow(), parts.housekeeping.run())]
    await bootstrap(parts)
    async with asyncio.timeout(30):  # Housekeeping gives every namespace its service account.
        while await _count(store, "serviceaccounts") < await _count(store, "namespaces"):
            await asyncio.sleep(0.001)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    page = await store.range("")
    return NewCluster(page.entries, page.revision, rng.getstate())


async def _count(store: MemoryStore, kind: str) -> int:
    return len((await store.range(f"/registry/{kind}/")).entries)


def _tokens() -> dict[bytes, User]:
    from fathom.api.auth.static_tokens import digest

    return {
        digest(ADMIN): User("admin", (MASTERS, "system:authenticated")),
        digest(JANE): User("jane", ("developers", "system:authenticated")),
    }


Story = Callable[[Api], Awaitable[None]]


def tell(story: Story, data: Path, **options: Any) -> None:
    """Run one story against a fresh server."""

    async def main() -> None:
        async with serving(data, **options) as api:
            await story(api)

    asyncio.run(main())


def config_map(name: str, **data: str) -> Obj:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": data}


def pod(name: str, **meta: Any) -> Obj:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, **meta},
        "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}]},
    }


def deployment(name: str, replicas: int = 1) -> Obj:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "nginx:1.25", "ports": [{"containerPort": 80}]}]},
    }
    return {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }
