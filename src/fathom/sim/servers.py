"""An API server as a process of the world: the same core as live, on a Domain, behind the world's network."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs

from fathom.api.auth.jws import SigningKey
from fathom.api.auth.static_tokens import Tokens
from fathom.api.request import Request, Response
from fathom.assembly import Parts, Wanted, assemble, bootstrap
from fathom.model.audit import AuditEntry
from fathom.sim.network import Exchange, Network
from fathom.sim.process import Process
from fathom.sim.storelink import StoreLink, WorldStore


class AuditTrail:
    """What the world remembers of all writes, for timelines."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def record(self, entry: AuditEntry) -> None:
        self._process.world.audited(self._process, entry)


class SimServer:
    """One incarnation of one API server."""

    def __init__(self, process: Process, store: WorldStore, *, signing: SigningKey, tokens: Tokens) -> None:
        self._process = process
        self._network: Network = process.world.network
        self._tokens = tokens
        self.ready = False
        self.parts: Parts = assemble(
            Wanted(
                store=StoreLink(process, store),
                outside=process.outside,
                log=process.log,
                audit=AuditTrail(process),
                signing=signing,
                token=f"housekeeping of {process.name}",
                shared_store=True,
                keep_all_objects=True,
            )
        )

    def begin(self) -> None:
        asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        parts = self.parts
        parts.authenticator.replace_tokens({**parts.own_tokens, **self._tokens})
        await parts.feed.load()
        async with asyncio.TaskGroup() as group:
            group.create_task(parts.feed.follow())
            group.create_task(parts.housekeeping.run())
            await bootstrap(parts)
            self.ready = True

    def accept(self, exchange: Exchange, fault: Any) -> None:
        """A request has arrived."""
        asyncio.get_running_loop().create_task(self._serve(exchange, fault))

    async def _serve(self, exchange: Exchange, fault: Any) -> None:
        if not self.ready:
            self._network.reply(exchange, 503, b'{"message":"not ready"}', fault)
            return
        answer = await self.parts.server.handle(_request(exchange))
        if isinstance(answer, Response):
            self._network.reply(exchange, answer.status, answer.body, fault)
            return
        exchange.source = answer.source
        self._network.reply(exchange, answer.status, b"", fault)
        while self._network.is_wanted(exchange) and (chunk := await answer.source.next()) is not None:
            self._network.chunk(exchange, chunk)
        answer.source.close()
        self._network.end(exchange)


def _request(exchange: Exchange) -> Request:
    ask = exchange.ask
    path, _, query = ask.target.partition("?")
    headers = {name.lower(): value for name, value in ask.headers}
    headers.setdefault("authorization", f"Bearer {exchange.process.name}")
    body = ask.body if isinstance(ask.body, bytes) else b""
    return Request(
        method=ask.method,
        path=path,
        query=parse_qs(query, keep_blank_values=True) if query else {},
        headers=headers,
        body=body,
        remote=exchange.process.name,
    )
