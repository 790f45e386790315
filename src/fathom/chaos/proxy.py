"""The proxy between program and API server. It passes requests on, and does to them what the faults say.

    _answer ── a cut network? ── lost, refused, late? ── forwarded ── reply lost, late? ── answered
    _watch  ── the same at its beginning; then each piece may be held back, and the stream dropped or expired

A request that has been passed on is carried out whatever becomes of its client.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from fathom.chaos.schedule import OPERATOR, SERVER
from fathom.chaos.server import HOST, ApiServer
from fathom.model.errors import ApiError
from fathom.model.times import SECOND_NS
from fathom.seams.seam import Ask
from fathom.sim.world.active_faults import ActiveFaults
from fathom.sim.world.faults import (
    STORE,
    AnyFault,
    CrashAtWrite,
    LoseReply,
    LoseRequest,
    OfMessages,
    Refuse,
    SlowReply,
    SlowRequest,
    StopAtWrite,
)
from fathom.sim.world.network import WRITES

LOST_S = 2.0  # How long the client of a lost request waits before the connection is cut.
BODY_BYTES_MAX = 64 << 20
RETRY_AFTER_S = "1"
REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
# Between two hops only, or made anew for the next one. Without accept-encoding nothing is compressed.
HOP_BY_HOP = frozenset(("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"))
NOT_PASSED_ON = HOP_BY_HOP | {"host", "content-length", "accept-encoding"}
# aiohttp would add them to a request that lacks them, and so change what the program sent.
NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
DROP, EXPIRE = "drop", "expire"


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class _Meta(msgspec.Struct):
    resourceVersion: str = ""


class _Written(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class Watch:
    """An open watch. `ending` says how it shall end."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.ending: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def end(self, how: str) -> None:
        if not self.ending.done():
            self.ending.set_result(how)


class ProxyEvents(msgspec.Struct, frozen=True):
    """What the run is told."""

    arrived: Callable[[Ask], None]
    struck: Callable[..., None]  # fault, what, and by keyword: revision, culprit.
    crash: Callable[[CrashAtWrite], None]  # A process dies at its write.


class Proxy:
    def __init__(self, server: ApiServer, authority: ssl.SSLContext, events: ProxyEvents) -> None:
        self.watches: set[Watch] = set()
        self.faults: ActiveFaults | None = None  # None: nothing goes wrong.
        self._server = server
        self._authority = authority
        self._events = events
        self._healed = asyncio.Event()
        self._healed.set()
        self._remembered: dict[str, Answer] = {}  # Reads that may be answered from an old cache.
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.url = ""

    async def start(self, certificate: ssl.SSLContext) -> None:
        connector = aiohttp.TCPConnector(ssl=self._authority, limit=0)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, skip_auto_headers=NOT_ADDED
        )
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # A client that is gone ends its watch; what was passed on is shielded.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        self._runner = runner
        await runner.setup()
        site = web.TCPSite(runner, HOST, 0, ssl_context=certificate)
        await site.start()
        self.url = f"https://{HOST}:{runner.addresses[0][1]}"

    async def stop(self) -> None:
        self.heal()
        for watch in list(self.watches):
            watch.end(DROP)
        if self._runner is not None:
            await self._runner.cleanup()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def inject(self, faults: ActiveFaults) -> None:
        self.faults = faults
        self._healed.clear()

    def heal(self) -> None:
        """No fault any more; what waits because of one goes on."""
        self.faults = None
        self._healed.set()

    async def pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._healed.wait(), seconds)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        ask = Ask(request.method, request.raw_path, body)
        self._events.arrived(ask)
        watching = request.method == "GET" and request.query.get("watch") in {"1", "true"}
        fault = self.faults.message(OPERATOR, ask) if self.faults is not None else None
        if not await self._arrives(ask, fault):
            return cut(request)
        if isinstance(fault, Refuse):
            self._events.struck(fault, f"{line_of(ask)}: the request is refused with {fault.status}")
            return refusal(fault.status)
        try:
            if watching:
                return await self._watch(request, ask)
            return await self._answer(request, ask, fault)
        except (aiohttp.ClientError, TimeoutError, OSError):
            return cut(request)  # The server is down.

    async def _arrives(self, ask: Ask, fault: OfMessages | None) -> bool:
        """Whether the request gets to the server; late, it may be."""
        if isinstance(fault, LoseRequest):
            self._events.struck(fault, f"{line_of(ask)}: the request is lost")
            await self.pause(LOST_S)
            return False
        if isinstance(fault, SlowRequest):
            what = f"{line_of(ask)}: the request takes {fault.delay_s:g} s longer to arrive"
            self._events.struck(fault, what, culprit="late request")
            await self.pause(fault.delay_s)
        faults = self.faults
        if faults is None:
            return True
        between = faults.partition(OPERATOR, SERVER) or faults.partition(SERVER, STORE)
        if between is None:
            return True
        partition, until_ns = between
        self._events.struck(partition, f"{line_of(ask)}: cut off from {SERVER}, the request does not arrive")
        await self.pause((until_ns - self._now_ns()) / SECOND_NS)
        return not partition.drops

    def _now_ns(self) -> int:
        return round(asyncio.get_running_loop().time() * SECOND_NS)

    async def _answer(self, request: web.Request, ask: Ask, fault: OfMessages | None) -> web.StreamResponse:
        stale = self._old_answer(ask)
        if stale is not None:
            return response_of(stale)
        sending = self._keep(asyncio.create_task(self._forward(request, ask)))
        dying = self._dies_at(OPERATOR, ask)  # It was sent: the server carries it out.
        answer = await asyncio.shield(sending)
        if dying is None and 200 <= answer.status < 300:
            dying = self._dies_at(SERVER, ask)
        if dying is None:
            return await self._reply(request, ask, fault, answer)
        self._events.struck(
            dying, f"{_ending(dying)} {line_of(ask)}", revision=revision_of(answer), culprit="lost reply"
        )
        self._events.crash(dying)
        return response_of(answer) if isinstance(dying, StopAtWrite) else cut(request)

    async def _reply(
        self, request: web.Request, ask: Ask, fault: OfMessages | None, answer: Answer
    ) -> web.StreamResponse:
        if isinstance(fault, LoseReply):
            written = ask.method in WRITES and answer.status < 300
            done = "has carried it out" if written else "has answered"
            self._events.struck(
                fault,
                f"{line_of(ask)}: {SERVER} {done}, but the reply is lost",
                revision=revision_of(answer) if written else 0,
                culprit="lost reply" if written else "",
            )
            return cut(request)
        if isinstance(fault, SlowReply):
            self._events.struck(fault, f"{line_of(ask)}: the reply takes {fault.delay_s:g} s longer")
            await self.pause(fault.delay_s)
        return response_of(answer)

    def _dies_at(self, who: str, ask: Ask) -> CrashAtWrite | None:
        if self.faults is None or ask.method not in WRITES:
            return None
        return self.faults.crash_at_write(who, ask)

    def _keep(self, task: asyncio.Task[Answer]) -> asyncio.Task[Answer]:
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Answer]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # Its client may be gone: nobody else looks.

    async def _forward(self, request: web.Request, ask: Ask) -> Answer:
        assert self._session is not None
        async with self._session.request(
            ask.method, self._target(ask), data=ask.body or None, headers=passed_on(request.headers)
        ) as upstream:
            headers = tuple(passed_on(upstream.headers).items())
            answer = Answer(upstream.status, headers, await upstream.read())
        if may_be_old(ask) and answer.status == 200 and not self._is_stale():
            self._remembered[ask.target] = answer
        return answer

    def _target(self, ask: Ask) -> URL:
        return URL(f"{self._server.url}{ask.target}", encoded=True)

    def _is_stale(self) -> bool:
        return self.faults is not None and self.faults.stale(SERVER) is not None

    def _old_answer(self, ask: Ask) -> Answer | None:
        """While the server's cache is stale: the answer from before, to a read that allows for one."""
        if not may_be_old(ask) or self.faults is None:
            return None
        stale, remembered = self.faults.stale(SERVER), self._remembered.get(ask.target)
        if stale is None or remembered is None:
            return None
        self._events.struck(stale[0], f"{line_of(ask)}: answered from an old cache", culprit="stale read")
        return remembered

    # Watches.

    async def _watch(self, request: web.Request, ask: Ask) -> web.StreamResponse:
        assert self._session is not None
        async with self._session.get(self._target(ask), headers=passed_on(request.headers)) as upstream:
            response = web.StreamResponse(status=upstream.status, headers=passed_on(upstream.headers))
            await response.prepare(request)
            watch = Watch(ask)
            self.watches.add(watch)
            try:
                await self._pass_on(watch, upstream.content, response)
            except (aiohttp.ClientError, OSError):  # One of the ends is gone.
                return cut(request, response)
            finally:
                self.watches.discard(watch)
            if watch.ending.done() and watch.ending.result() == DROP:
                return cut(request, response)
            await response.write_eof()
            return response

    async def _pass_on(
        self, watch: Watch, content: aiohttp.StreamReader, response: web.StreamResponse
    ) -> None:
        while True:
            reading = asyncio.ensure_future(content.readany())
            try:
                await asyncio.wait((reading, watch.ending), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not reading.done():
                    reading.cancel()
            if watch.ending.done():
                if watch.ending.result() == EXPIRE:
                    await response.write(EXPIRED)
                return
            piece = reading.result()
            if not piece:
                return
            await self._hold(watch)
            await response.write(piece)

    async def _hold(self, watch: Watch) -> None:
        """Wait for as long as faults hold this watch back. Nothing overtakes: the stream waits as a whole."""
        reported: set[AnyFault] = set()
        while self.faults is not None and not watch.ending.done():
            held = (
                self.faults.hold(OPERATOR, watch.ask)
                or self.faults.stale(SERVER)
                or self.faults.partition(OPERATOR, SERVER)
            )
            if held is None:
                return
            fault, until_ns = held
            if fault not in reported:
                reported.add(fault)
                path = watch.ask.target.partition("?")[0]
                self._events.struck(fault, f"watch of {path}: its events are held back", culprit="stale read")
            await self.pause(max(0.01, (until_ns - self._now_ns()) / SECOND_NS))


def _ending(fault: CrashAtWrite) -> str:
    if isinstance(fault, StopAtWrite):
        return "is asked to stop (SIGTERM) just after it sent"
    return "dies just after it carried out" if fault.target == SERVER else "dies just after it sent"


def passed_on(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in NOT_PASSED_ON}


def response_of(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, headers=dict(answer.headers), body=answer.body)


def cut(request: web.Request, begun: web.StreamResponse | None = None) -> web.StreamResponse:
    """Cut the connection. The response that is returned reaches nobody."""
    if request.transport is not None:
        request.transport.abort()
    return begun or web.Response(status=503)


def refusal(status: int) -> web.Response:
    words = "fathom chaos: the server refuses this request on purpose"
    error = ApiError(status, REASONS[status], words)
    headers = {"retry-after": RETRY_AFTER_S} if status == 429 else {}
    return web.json_response(error.status(), status=status, headers=headers)


EXPIRED = (
    msgspec.json.encode(
        {
            "type": "ERROR",
            "object": ApiError(410, "Expired", "fathom chaos: too old resource version").status(),
        }
    )
    + b"\n"
)


def line_of(ask: Ask) -> str:
    return f"{ask.method} {ask.target.partition('?')[0]}"


def may_be_old(ask: Ask) -> bool:
    """Only a read with resourceVersion=0 may be answered from an old cache: any other must see every write
    that was made before it."""
    _, _, query = ask.target.partition("?")
    return ask.method == "GET" and "resourceVersion=0" in query.split("&") and "watch=" not in query


def revision_of(answer: Answer) -> int:
    """Of what a write has written; 0 where the answer does not say."""
    if not 200 <= answer.status < 300:
        return 0
    try:
        version = msgspec.json.decode(answer.body, type=_Written).metadata.resourceVersion
    except (msgspec.DecodeError, msgspec.ValidationError):
        return 0
    return int(version) if version.isdecimal() else 0
