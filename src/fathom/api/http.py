"""The shell between sockets and the core: HTTP/1.1 on a connection, one request after another.

    bytes ──httptools──> Request ──> ApiServer.handle ──> Response: one write
                            │                        ├──> Stream: a chunk for each piece
                            │                        └──> Upgrade: a WebSocket, its bytes passed on
                            └ complete ones that came meanwhile wait, and the client is not read on

Only the transport is decided here: how much and how slowly a client may send, and how connections end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from typing import Any, Protocol, cast
from weakref import WeakSet

import httptools
import msgspec

from fathom.api import http_limits, http_text, response_forms
from fathom.api.core import Core
from fathom.api.http_limits import (
    HEAD_BYTES_MAX,
    HEAD_S_MAX,
    HEADERS_MAX,
    LINGER_S,
    PARSED_BODY_BYTES,
    PARSED_BYTES,
    PIPELINED_MAX,
    SMALL_BODY_BYTES_MAX,
    TURN_REQUESTS,
    UNREAD_S_MIN,
    URL_BYTES_MAX,
    WIRE_BYTES_FACTOR,
)
from fathom.api.relay import Relay, notice_dead_peer
from fathom.api.request import Answer, Request, Response, StreamResponse, UpgradeResponse
from fathom.model.errors import ApiError, bodies_full, too_large, too_slow
from fathom.model.times import SECOND_NS

PIECE_BYTES = 64 << 10  # Longer answers are sent in pieces of this size.
# A stream's chunk up to this size is sent at once: as much as a watch sends in one chunk. In pieces, each
# would wait until the client has read the one before: under load a scheduler then learned of its pods some 60
# ms later.
WHOLE_CHUNK_BYTES = 1 << 20

DRAIN_LOOK_S = 0.02


class HttpServer(Protocol):
    """What answers the requests of connections."""

    core: Core

    async def handle(self, request: Request) -> Answer: ...

    def check_sender(self, request: Request, body_bytes: int) -> None:
        """Called before a body is read. Raises ApiError."""
        ...


class Http:
    """All connections of one server."""

    def __init__(self, server: HttpServer, *, keep_alive_s: float) -> None:
        self.server = server
        self.keep_alive_s = keep_alive_s
        self.open: dict[HttpConnection, None] = {}
        self.connecting: WeakSet[HttpConnection] = WeakSet()  # In their TLS handshake.
        self.budgets = http_limits.ByteBudgets()
        # Connections whose clients do not read: (unread bytes, since when), longest first.
        self.unread: dict[HttpConnection, tuple[int, float]] = {}
        self._stopped = asyncio.Event()  # Set when the last connection has closed after `stop` was called.
        self._stopping = False
        self._draining = False
        self._date = (0, "")

    def connection(self) -> HttpConnection:
        """For each connection that is accepted; its TLS handshake is still to come."""
        connection = HttpConnection(self)
        self.connecting.add(connection)
        return connection

    def gone(self, connection: HttpConnection) -> None:
        self.open.pop(connection, None)
        if self._stopping and not self.open:
            self._stopped.set()

    @property
    def draining(self) -> bool:
        return self._draining

    async def drain(self, *, seconds: float) -> None:
        """Serve on, and close each connection with its next answer, so that clients go to another server and
        none sends a request into a connection that closes. Ends early when there is no connection, not even
        one in its handshake: its client will send a request that it believes to be taken."""
        self._draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.open or self.connecting:  # noqa: ASYNC110 - a failed handshake tells nobody
                    await asyncio.sleep(DRAIN_LOOK_S)

    async def stop(self, *, patience_s: float) -> None:
        """Answer the requests in progress, unless they take longer than `patience_s`, and close all
        connections."""
        self._stopping = True
        self._stopped.clear()
        for connection in list(self.open):
            connection.finish()
        if not self.open:
            return
        try:
            async with asyncio.timeout(patience_s):
                await self._stopped.wait()
        except TimeoutError:
            for connection in list(self.open):
                connection.abort()

    def stalled(self, connection: HttpConnection, size: int) -> None:
        """A client does not read what was written. If all unread bytes exceed the limit, the connections that
        have not read for longest are closed."""
        budget, now_s = self.budgets.unread, asyncio.get_running_loop().time()
        while self.unread and budget.used + size > budget.limit:
            longest, (_, since_s) = next(iter(self.unread.items()))
            if now_s - since_s < UNREAD_S_MIN:
                break
            budget.refused += 1
            self.reads_again(longest)
            longest.abort()
        self.unread[connection] = (size, now_s)
        budget.take_anyway(size)

    def reads_again(self, connection: HttpConnection) -> None:
        waiting = self.unread.pop(connection, None)
        if waiting is not None:
            self.budgets.unread.give(waiting[0])

    def date(self) -> str:
        second = self.server.core.outside.clock.now_ns() // SECOND_NS
        if self._date[0] != second:
            self._date = (second, formatdate(second, usegmt=True))
        return self._date[1]


class _IncomingRequest(msgspec.Struct):
    """A request as it arrives; or, if the transport refuses it, the answer to it."""

    request: Request
    keep_alive: bool
    expects: bool  # The client waits for 100 Continue before it sends the body.
    pieces: list[bytes]
    size_bytes: int = 0  # Bytes taken from `ByteBudgets.bodies`, unless
    small_bytes: int = 0  # these bytes are taken from `ByteBudgets.small`.
    refused: Response | None = None


class HttpConnection(asyncio.Protocol):
    """One connection. Its task serves the requests that have arrived, and sleeps when there is none."""

    def __init__(self, http: Http) -> None:
        self._http, self._server = http, http.server
        limits = http.server.core.limits
        self._body_bytes_max, self._body_s_max = limits.body_bytes_max, limits.request_s
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)  # None once the connection is lost.
        self._certificate, self._remote = b"", ""
        # The request being read.
        self._url = b""
        self._headers: dict[str, str] = {}
        self._repeated: dict[str, list[str]] | None = None  # Headers that occur several times, if any.
        self._unparsed = b""  # The rest of a piece with very many requests; not empty only while paused.
        self._parser_refusal = http_text.NOT_HTTP  # The answer if the parser stops.
        self._incoming: _IncomingRequest | None = None  # A request whose head has arrived, its body not yet.
        self._wants_websocket = False  # The last request in `_waiting` does; nothing behind it is parsed.
        self._relay: Relay | None = None  # The connection has become a WebSocket.
        self._upgrading = False  # The request asks for another protocol: a second parser reads its body.
        self._in_head = False  # A part of a head has arrived, not all of it.
        self._head_bytes = self._wire_bytes = 0  # Bytes so far: of the head, and of what follows it.
        self._head_held = 0  # Bytes taken from `ByteBudgets.heads`.
        self._deadline: asyncio.TimerHandle | None = None  # Set while waiting for a head or a body.
        self._paused = False  # Reading is paused until the requests that have arrived are served.
        # The requests being served.
        self._waiting: deque[_IncomingRequest] = deque()
        self._task: asyncio.Task[None] | None = None
        self._sleep: asyncio.Future[None] | None = None  # Set while the task sleeps.
        self._close_source: Callable[[], None] | None = None  # Of the stream that is being sent.
        self._idle_since_s = 0.0
        self._idle_check: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None  # Set while the client does not read.
        self._sending_bytes = 0  # Bytes of the answer that is sent in pieces.
        # The answer to what could not be parsed, sent after those to the requests before it: a client tells
        # answers apart by their order alone. Nothing is read once it is set.
        self._last_answer = b""
        self._last = False  # Nothing is read or served after the requests in progress.
        self._lost = False

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._http.connecting.discard(self)
        self._http.open[self] = None
        peer = transport.get_extra_info("peername")
        self._remote = str(peer[0]) if isinstance(peer, tuple) else ""
        ssl_object = transport.get_extra_info("ssl_object")
        if ssl_object is not None:
            self._certificate = ssl_object.getpeercert(binary_form=True) or b""
        self._deadline = self._loop.call_later(HEAD_S_MAX, transport.close)
        self._idle_check = self._loop.call_later(self._http.keep_alive_s, self._close_if_idle)
        self._task = self._loop.create_task(self._serve())

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = self._last = True
        self._free_head()
        for incoming in (*self._waiting, *((self._incoming,) if self._incoming is not None else ())):
            self._free_body(incoming)
        self._waiting.clear()
        self._incoming = None
        self._unparsed = b""
        self._stop_waiting()
        self.resume_writing()
        if self._idle_check is not None:
            self._idle_check.cancel()
        if self._close_source is not None:
            self._close_source()
        if self._relay is not None:
            self._relay.stop()
        self._wake()
        # The parser and the connection refer to each other: without this, a closed connection keeps its
        # buffers and its TLS until the garbage collector runs, which is seldom.
        self._parser = None
        self._http.gone(self)

    def pause_writing(self) -> None:
        if self._drained is None:
            self._drained = self._loop.create_future()
            self._http.stalled(self, self._transport.get_write_buffer_size() + self._sending_bytes)

    def resume_writing(self) -> None:
        if self._drained is not None:
            self._http.reads_again(self)
            if not self._drained.done():  # The waiting task may have been cancelled.
                self._drained.set_result(None)
            self._drained = None

    def finish(self) -> None:
        """Answer the requests in progress, and close."""
        self._last = True
        if self._relay is not None:
            self._relay.stop()
        self._wake()

    def abort(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    def _close_if_idle(self) -> None:
        """One timer for all idle periods of a connection: it checks when the first of them could have become
        too long."""
        idle_s = self._loop.time() - self._idle_since_s if self._sleep is not None else 0.0
        left_s = self._http.keep_alive_s - idle_s
        if left_s <= 0:
            self._transport.close()
        else:
            self._idle_check = self._loop.call_later(left_s, self._close_if_idle)

    # Reading.

    def data_received(self, data: bytes) -> None:
        if self._relay is not None:
            self._relay.feed(data)
        elif self._is_done_reading():
            self._throw_away(data)
        elif self._wants_websocket:
            self._unparsed += data
            self._pause()
        elif len(data) <= PARSED_BYTES and not self._unparsed:
            self._parse(data)
        else:
            self._unparsed += data
            self._parse_on()

    def _is_done_reading(self) -> bool:
        return self._last or self._last_answer != b""

    def _parse_on(self) -> None:
        """Parse in small steps: very many requests may have come at once, and each takes memory when it is
        parsed."""
        data, at = self._unparsed, 0
        self._unparsed = b""
        while (
            at < len(data)
            and len(self._waiting) < PIPELINED_MAX
            and not self._is_done_reading()
            and not self._wants_websocket
        ):
            size = PARSED_BYTES if self._incoming is None else PARSED_BODY_BYTES
            self._parse(data[at : at + size])
            at += size
        if self._wants_websocket:  # The rest of the last step is there already.
            self._unparsed += data[at:]
        else:
            self._unparsed = b"" if self._is_done_reading() else data[at:]
        if self._unparsed:
            self._pause()

    def _parse(self, data: bytes) -> None:
        try:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as stopped:
                self._at_upgrade(data[stopped.args[0] :])
        except httptools.HttpParserError:
            self._give_up(self._parser_refusal)
            return
        if self._in_head:
            self._count_head(len(data))
        elif self._incoming is not None:
            self._wire_bytes += len(data)
            if self._wire_bytes > self._body_bytes_max * WIRE_BYTES_FACTOR:
                self._refuse(too_large(self._body_bytes_max))
            elif self._deadline is None:
                self._deadline = self._loop.call_later(self._body_s_max, self._refuse, too_slow())

    def _at_upgrade(self, data: bytes) -> None:
        """The parser stops behind the head of a request that asks for another protocol. What follows a
        request for a WebSocket is kept until that is answered: it may be for the agent."""
        if self._wants_websocket:
            self._unparsed = data + self._unparsed
            self._pause()
        else:
            self._feed_rest(data)

    def _feed_rest(self, data: bytes) -> None:
        """To other protocols nothing is upgraded, as RFC 9110 allows: the body of the request follows, if it
        has one, and then the next request."""
        while True:
            self._parser = httptools.HttpRequestParser(self)
            try:
                if self._upgrading:
                    self._parser.feed_data(http_text.head_of_body(self._headers))
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as stopped:
                data = data[stopped.args[0] :]
                if self._wants_websocket:
                    self._at_upgrade(data)
                    return

    def _count_head(self, size: int) -> None:
        """A part of a head has arrived, without its end."""
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES_MAX:
            self._give_up(http_text.TOO_MUCH_HEAD)
        elif not self._http.budgets.heads.take(size):
            self._give_up(http_text.TOO_BUSY)
        else:
            self._head_held += size
            if self._deadline is None:
                self._deadline = self._loop.call_later(HEAD_S_MAX, self._transport.close)

    def _free_head(self) -> None:
        self._http.budgets.heads.give(self._head_held)
        self._head_held = 0

    def _free_body(self, incoming: _IncomingRequest) -> None:
        if incoming.small_bytes:
            self._http.budgets.small.give(incoming.small_bytes)
        else:
            self._http.budgets.bodies.give(incoming.size_bytes)
        incoming.size_bytes = incoming.small_bytes = 0

    def _throw_away(self, data: bytes) -> None:
        """Bytes after a refusal are read and dropped as long as the client may not have seen the refusal."""
        self._wire_bytes += len(data)
        if self._wire_bytes > self._body_bytes_max:
            self._wake()

    def on_message_begin(self) -> None:
        if self._upgrading:
            return  # Only another parser, continuing with the same request.
        self._url, self._headers, self._repeated = b"", {}, None
        self._in_head, self._head_bytes, self._wire_bytes = True, 0, 0

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > URL_BYTES_MAX:
            self._parser_refusal = http_text.TOO_LONG_URL
            raise ValueError("the address is too long")  # Stops the parser.

    def on_header(self, raw_name: bytes, raw_value: bytes) -> None:
        if not self._in_head:
            return  # A trailer, after the body: the checks of the head have not seen it.
        name = http_text.HEADERS.get(raw_name) or raw_name.decode("latin-1").lower()
        value, headers = raw_value.decode("latin-1"), self._headers
        if name not in headers:
            headers[name] = value
        else:
            self._repeated = {} if self._repeated is None else self._repeated
            self._repeated.setdefault(name, [headers[name]]).append(value)

    def on_headers_complete(self) -> None:
        if self._upgrading:
            self._upgrading = False
            return
        self._in_head = False
        if self._deadline is not None:
            self._stop_waiting()
        if self._head_held:
            self._free_head()
        parser, headers = self._parser, self._headers
        if self._repeated is not None or len(headers) > HEADERS_MAX:
            self._join_repeated(headers, self._repeated or {})
        path, query = http_text.split(self._url)
        request = Request(
            method=parser.get_method().decode("ascii"),
            path=path.decode("ascii"),  # Anything else is not HTTP.
            query={},
            headers=headers,
            client_certificate=self._certificate,
            remote=self._remote,
        )
        keep_alive = parser.should_keep_alive()
        if keep_alive and "connection" in headers:  # HTTP/1.0 must ask for it, and cannot receive chunks.
            keep_alive = parser.get_http_version() != "1.0"
        expects = headers.get("expect", "").lower() == "100-continue"
        self._incoming = _IncomingRequest(request, keep_alive, expects, [])
        try:
            if query:
                request.query = http_text.parsed(query)
            length = headers.get("content-length", "0")
            if "transfer-encoding" in headers:
                http_text.check_coding(headers["transfer-encoding"])
                self._check_body(self._incoming, "")
            elif length != "0":
                self._check_body(self._incoming, length)
        except ApiError as error:
            self._refuse(error)
        else:
            if expects and self._sleep is not None:
                self._send_continue()

    def _join_repeated(self, headers: dict[str, str], repeated: dict[str, list[str]]) -> None:
        if len(headers) + sum(len(values) - 1 for values in repeated.values()) > HEADERS_MAX:
            self._parser_refusal = http_text.TOO_MUCH_HEAD
            raise ValueError("too many headers")  # Stops the parser.
        for name, values in repeated.items():
            headers[name] = "\n".join(values)  # A header's value cannot contain a newline.

    def on_body(self, body: bytes) -> None:
        incoming = self._incoming
        if incoming is None:
            return  # Already refused.
        if incoming.size_bytes + len(body) > self._body_bytes_max:
            self._refuse(too_large(self._body_bytes_max))
        elif not incoming.small_bytes and not self._http.budgets.bodies.take(len(body)):
            self._refuse(bodies_full())
        else:
            incoming.pieces.append(body)
            incoming.size_bytes += len(body)

    def on_message_complete(self) -> None:
        incoming = self._incoming
        if incoming is None:
            return
        if self._parser.should_upgrade() and http_text.has_body(self._headers):
            self._upgrading = True
            return
        if self._deadline is not None:
            self._stop_waiting()
        if self._parser.should_upgrade() and http_text.wants_websocket(self._headers):
            self._wants_websocket = incoming.request.upgradable = True
        pieces, incoming.pieces = incoming.pieces, []
        incoming.request.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._hand_over(incoming)

    def _check_body(self, incoming: _IncomingRequest, length: str) -> None:
        """Before a body is read: check its size ('' if not declared) and authenticate its sender. A small
        body that comes with credentials is read first: checking the credentials twice would cost every
        write."""
        declared = length.isdigit()
        if declared and (len(length) > 18 or int(length) > self._body_bytes_max):
            raise too_large(self._body_bytes_max)
        size, request = int(length) if declared else self._body_bytes_max, incoming.request
        shows_credentials = request.client_certificate or "authorization" in request.headers
        if size <= SMALL_BODY_BYTES_MAX and shows_credentials and self._http.budgets.small.take(size):
            incoming.small_bytes = size
        else:
            self._server.check_sender(request, size)

    def _send_continue(self) -> None:
        if self._incoming is not None and self._incoming.expects:
            self._incoming.expects = False
            self._transport.write(http_text.CONTINUE)

    def _refuse(self, error: ApiError) -> None:
        """Refuse the request for how it was sent. The rest of it on the connection cannot be told from the
        next request."""
        self._stop_waiting()
        if self._incoming is not None:
            self._free_body(self._incoming)
            self._incoming.pieces.clear()
            self._incoming.refused, self._incoming.keep_alive = response_forms.failure(error), False
            self._hand_over(self._incoming)

    def _hand_over(self, incoming: _IncomingRequest) -> None:
        self._incoming = None
        self._waiting.append(incoming)
        if self._sleep is None:
            self._pause()
        self._wake()

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _give_up(self, why: bytes) -> None:
        """What follows on this connection cannot be read."""
        self._last_answer = why
        self._stop_waiting()
        self._free_head()
        if self._incoming is not None:
            self._free_body(self._incoming)
            self._incoming = None
        self._wake()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # Serving.

    def _wake(self) -> None:
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)

    async def _serve(self) -> None:
        try:
            turn = 0
            while not self._last:
                if not self._waiting and self._unparsed:
                    self._parse_on()
                elif not self._waiting and self._last_answer:
                    self._transport.write(self._last_answer)
                    return
                elif not self._waiting:
                    turn = 0
                    await self._wait_for_request()
                elif not await self._serve_one(self._waiting.popleft()):
                    return
                else:
                    turn += 1
                    if turn % TURN_REQUESTS == 0:
                        await asyncio.sleep(0)  # Let the other connections run.
        finally:
            self._last = True
            self._transport.close()

    async def _wait_for_request(self) -> None:
        self._sleep = self._loop.create_future()
        self._idle_since_s = self._loop.time()
        self._read_on()
        self._send_continue()
        try:
            await self._sleep
        finally:
            self._sleep = None

    async def _serve_one(self, incoming: _IncomingRequest) -> bool:
        """Serve one request; return whether the connection may continue with the next."""
        if self._drained is not None:
            await self._drained
        try:
            answer = incoming.refused or await self._server.handle(incoming.request)
        finally:
            if incoming.size_bytes or incoming.small_bytes:
                self._free_body(incoming)
        if isinstance(answer, UpgradeResponse):
            await self._tunnel(answer)
            return False
        if incoming.request.upgradable and not self._lost:  # Refused: the next request follows.
            self._wants_websocket = False
            self._parser = httptools.HttpRequestParser(self)
        keep_alive = incoming.keep_alive and not self._last and not self._http.draining
        has_body = incoming.request.method != "HEAD"
        if isinstance(answer, StreamResponse):
            await self._stream(answer, has_body=has_body, close=not keep_alive)
        elif not self._lost:
            body: bytes = answer.body
            head = http_text.head(answer, self._http.date(), len(body), close=not keep_alive)
            if has_body and len(body) > PIECE_BYTES:
                await self._in_pieces(head, body)
            else:
                self._transport.write(head + body if has_body else head)
        if incoming.refused is not None and not self._lost:
            await self._linger()
        return keep_alive

    async def _tunnel(self, answer: UpgradeResponse) -> None:
        """Pass on bytes between the client and the agent until one of them ends."""
        relay = self._relay = Relay(self._transport, answer.tunnel, answer.frames, self._until_drained)
        try:
            if self._lost or self._last:
                return
            notice_dead_peer(self._transport.get_extra_info("socket"))
            self._transport.write(http_text.upgrade_head(answer, self._http.date()))
            relay.feed(self._unparsed)
            self._unparsed = b""
            self._read_on()
            await relay.run(answer.may_continue)
        finally:
            answer.tunnel.close()
            if answer.ended is not None:
                answer.ended()

    async def _until_drained(self) -> None:
        if self._drained is not None:
            await self._drained

    async def _linger(self) -> None:
        """The client may still be sending. If the connection were closed now, the client would see a closed
        connection and not the refusal."""
        self._last = True
        self._wire_bytes = 0
        self._sleep = self._loop.create_future()
        timer = self._loop.call_later(LINGER_S, self._wake)
        self._paused = True
        self._read_on()
        try:
            await self._sleep
        finally:
            timer.cancel()
            self._sleep = None

    async def _in_pieces(self, head: bytes, body: bytes) -> None:
        """Each byte is copied several times on its way through TLS: a piece reuses the memory of the one
        before, while twenty megabytes need new memory each time. And for a client that does not read, the
        body is buffered only once."""
        self._transport.write(head)
        rest = memoryview(body)
        self._sending_bytes = len(body)
        try:
            for start in range(0, len(body), PIECE_BYTES):
                if self._drained is not None:
                    await self._drained
                if self._lost:
                    return
                self._transport.write(rest[start : start + PIECE_BYTES])
        finally:
            self._sending_bytes = 0

    async def _stream(self, answer: StreamResponse, *, has_body: bool, close: bool) -> None:
        """Send chunks until the source ends or the client leaves. While the client does not read, nothing is
        taken from the source, so nothing is buffered here."""
        source, transport = answer.source, self._transport
        self._close_source = source.close
        try:
            if transport.is_closing():
                return
            if not self._unparsed:
                self._read_on()  # Without reading, we would not notice that the client leaves.
            transport.write(http_text.head(answer, self._http.date(), None, close=close))
            while has_body and (chunk := await source.next()) is not None:
                if self._lost:
                    return
                if len(chunk) > WHOLE_CHUNK_BYTES:
                    await self._in_pieces(b"%x\r\n" % len(chunk), chunk)
                    transport.write(b"\r\n")
                elif chunk:  # An empty chunk would end the stream.
                    transport.write(http_text.chunk(chunk))
                if self._drained is not None:
                    await self._drained
            if has_body and not self._lost:
                transport.write(http_text.LAST_CHUNK)
        finally:
            self._close_source = None
            source.close()
