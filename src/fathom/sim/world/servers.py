"""An API server as a process of the world: the live server's core, on a Domain and the world's network."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs

from fathom.api.agent_connections import AgentAddress, ConnectAsk, LogAsk, NoAgents, ReachedAgent
from fathom.api.auth.jws import SigningKey
from fathom.api.auth.static_tokens import Tokens
from fathom.api.request import Request, Response, StreamSource, Tunnel, UpgradeResponse
from fathom.assembly import Parts, ServerSettings, assemble, bootstrap
from fathom.client.local import Answered, Send
from fathom.model.audit import AuditEntry
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, bad_request, unavailable
from fathom.model.objects import Obj, metadata
from fathom.seams.process import Inside
from fathom.sim.world.network import OWN_HEADERS, SERVING, Exchange, Network
from fathom.sim.world.process import SimProcess
from fathom.sim.world.store_link import StoreLink, WorldStore
from fathom.store.protocol import StoreUnavailable
from fathom.store.retention import Retention

# How long a supervisor waits before it restarts a server that failed to start.
RESTART_S = 1.0
# The round trip to an agent, and how long a server waits for an answer that does not come.
TRIP_S, CONNECT_S = 0.005, 3.0


class AuditTrail:
    """Passes audit entries of all writes to the world, for timelines."""

    def __init__(self, process: SimProcess) -> None:
        self._process = process

    def record(self, entry: AuditEntry) -> None:
        self._process.world.audited(self._process, entry)


class WorldAgents:
    """Reaches the world's agents: each is a process with its node's name. If it died, its machine did too."""

    def __init__(self, process: SimProcess) -> None:
        self._process = process

    async def logs(self, at: AgentAddress, ask: LogAsk) -> StreamSource:
        return await NoAgents().logs(at, ask)

    async def connect(self, at: AgentAddress, ask: ConnectAsk) -> tuple[Tunnel, tuple[tuple[str, str], ...]]:
        raise bad_request(f"pods are simulated here, and run no programs: there is no {ask.action}")

    async def usage(self, at: AgentAddress) -> dict[str, Any]:
        usage_of, agent = self._process.world.usage_of, self._process.world.processes.get(at.node)
        if usage_of is None or agent is None or not agent.alive:
            return await NoAgents().usage(at)
        return usage_of(at.node)

    async def page(self, at: AgentAddress, path: str) -> tuple[int, bytes]:
        return await NoAgents().page(at, path)

    async def reach(self, node: Obj) -> ReachedAgent:
        world, name = self._process.world, str(metadata(node)["name"])
        agent = world.processes.get(name)
        if agent is None:
            return ReachedAgent("unknown", "the world has no process for its agent")
        await asyncio.sleep(TRIP_S)
        if not agent.alive or world.faults.partition(name, self._process.name) is not None:
            await asyncio.sleep(CONNECT_S)
            return ReachedAgent("gone", "the agent does not answer")
        if agent.paused:
            await asyncio.sleep(CONNECT_S)
            return ReachedAgent("unsure", "the agent is paused")
        return ReachedAgent("alive")


class SimServer:
    """One incarnation of one API server."""

    def __init__(
        self,
        process: SimProcess,
        inside: Inside,
        store: WorldStore,
        *,
        signing: SigningKey,
        tokens: Tokens,
        alone: bool,
    ) -> None:
        self._process = process
        self._network: Network = process.world.network
        self._tokens = tokens
        self.ready = False
        self._idle: list[asyncio.Future[tuple[Exchange, Any]]] = []  # Tasks that wait for a request.
        self.link = StoreLink(process, store)
        self._inside = inside
        self.parts: Parts = assemble(
            ServerSettings(
                store=self.link,
                outside=inside.outside,
                log=inside.log,
                audit=AuditTrail(process) if process.world.chronicle is not None else None,
                signing=signing,
                token=f"housekeeping of {process.name}",
                shared_store=not alone,
                keep_all_objects=True,
                agents=WorldAgents(process),
                measured=False,
                journal=inside.journal,
                decision_prefix=f"{inside.streams.stream('decisions').getrandbits(48):012x}",
                detect_fights=process.world.detect_fights,
            )
        )
        self.parts.client.send = _with_own_headers(self.parts.client.send)
        asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        parts = self.parts
        self._tokens |= parts.own_tokens
        parts.authenticator.replace_tokens(self._tokens)
        try:
            await parts.feed.load()
            async with asyncio.TaskGroup() as group:
                group.create_task(parts.feed.follow())
                group.create_task(parts.housekeeping.run())
                group.create_task(parts.fights.run())
                group.create_task(Retention(self.link, self._inside.outside.clock).run())
                group.create_task(self._stop_on_signal())
                await bootstrap(parts)
                self.ready = True
                self._process.world.server_ready()
        except (ApiError, StoreUnavailable):
            self._gave_up()
        except ExceptionGroup as group_of:
            if group_of.split((ApiError, StoreUnavailable))[1] is not None:
                raise
            self._gave_up()

    def _gave_up(self) -> None:
        """The store failed during the start: a live server exits with one line, and is restarted."""
        self._process.doom_s = RESTART_S

    async def _stop_on_signal(self) -> None:
        await self._inside.seam.signal()
        core = self.parts.core
        core.stopping = True
        core.cache.wake_all()  # Watches end by themselves.

    def accept(self, exchange: Exchange, fault: Any) -> None:
        """Serve a request that has arrived, in an idle task if there is one."""
        if self._idle:
            self._idle.pop().set_result((exchange, fault))
        else:
            self._inside.domain.create_task(self._serve_on(exchange, fault))

    async def _serve_on(self, exchange: Exchange, fault: Any) -> None:
        """Serve this request and later ones: a task that waits for the next is cheaper than a new one."""
        while True:
            await self._serve(exchange, fault)
            turn = self._inside.domain.private_future()
            self._idle.append(turn)
            exchange, fault = await turn

    async def _serve(self, exchange: Exchange, fault: Any) -> None:
        SERVING.set(exchange)
        if not self.ready:
            refused = encode_json(unavailable("the server is starting").status())
            self._network.reply(exchange, 503, refused, fault)
            return
        world = self._process.world
        listeners = world.listeners
        if listeners:
            world.overheard(lambda listener: listener.arrived(exchange))
        shares = exchange.process.shares and not world.codec
        answer = await self.parts.server.handle(_request(exchange, shares=shares))
        body = answer.body if isinstance(answer, Response) else b""
        if listeners:
            world.overheard(lambda listener: listener.answered(exchange, answer.status, body))
        assert not isinstance(answer, UpgradeResponse)  # Our agents refuse to be connected to.
        if isinstance(answer, Response):
            self._network.reply(exchange, answer.status, answer.body, fault)
            return
        source = exchange.source = answer.source
        self._network.reply(exchange, answer.status, b"", fault)
        while not exchange.over and (chunk := await source.next()) is not None:
            if world.stream_listeners:
                world.overheard_chunk(exchange, chunk)
            self._network.chunk(exchange, chunk)
            if world.drip_s:
                await asyncio.sleep(world.drip_s)
        source.close()
        self._network.end(exchange)


def _with_own_headers(send: Send) -> Send:
    """Note the headers of a request that the server sends to itself: checkers see them with its commit."""

    async def noted(
        method: str, path: str, query: dict[str, list[str]], headers: dict[str, str], body: bytes
    ) -> Answered:
        before = OWN_HEADERS.set(tuple(headers.items()))
        try:
            return await send(method, path, query, headers, body)
        finally:
            OWN_HEADERS.reset(before)

    return noted


def _request(exchange: Exchange, *, shares: bool) -> Request:
    ask = exchange.ask
    path, _, query = ask.target.partition("?")
    headers = {name.lower(): value for name, value in ask.headers}
    headers.setdefault("authorization", f"Bearer {exchange.process.name}")
    return Request(
        method=ask.method,
        path=path,
        query=parse_qs(query, keep_blank_values=True) if query else {},
        headers=headers,
        body=ask.body,
        remote=exchange.process.name,
        shares=shares,
    )
