"""The world's end of a TCP connection: HTTP/1.1 requests are read, sent by the Seam, and answered.

    bytes of any HTTP client ──feed──> httptools ──Ask──> Seam ──Reply, Stream──> bytes ──on_data──> client

Every client library meets the world here, whatever it is built on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import httptools
import msgspec

from fathom.model.body import encode_json
from fathom.model.errors import ApiError
from fathom.seams.seam import Ask, Reply, Stream

if TYPE_CHECKING:
    from fathom.sim.foreign.machine import Machine

# When no answer comes at all, the connection breaks after this time, as a load balancer in between breaks it.
# Clients with a shorter deadline of their own give up before.
NO_ANSWER_S = 30.0

# Headers of the connection and not of the request; and the process's identity, which the world knows itself.
NOT_PASSED_ON = frozenset(
    {
        *("host", "connection", "content-length", "transfer-encoding", "accept-encoding", "keep-alive"),
        *("authorization", "expect", "te", "upgrade"),
    }
)


class Connection:
    """`on_data(b"")` is the end of the connection, `on_data(error)` one that broke."""

    def __init__(self, machine: Machine, on_data: Callable[[bytes | OSError], None]) -> None:
        self._machine = machine
        self._on_data: Callable[[bytes | OSError], None] | None = on_data
        self._parser = _RequestParser()
        self._waiting: list[ParsedRequest] = []
        self._serving: asyncio.Task[None] | None = None
        self._stream: Stream | None = None

    def feed(self, data: bytes) -> None:
        """Bytes from the client."""
        if self._on_data is None:
            return
        try:
            self._waiting += self._parser.feed(data)
        except httptools.HttpParserError:
            self._answer(Reply(400, encode_json(ApiError(400, "BadRequest", "not an HTTP request").status())))
            self._say(b"")
            return
        if self._waiting and self._serving is None:
            self._serving = self._machine.kernel_task(self._serve())

    def close(self) -> None:
        """The client closed its end: nobody waits for what is under way."""
        self._on_data = None
        if self._stream is not None:
            self._stream.close()
        if self._serving is not None:
            self._serving.cancel()

    async def _serve(self) -> None:
        try:
            while self._waiting and self._on_data is not None:
                await self._serve_one(self._waiting.pop(0))
        finally:
            self._serving = None

    async def _serve_one(self, parsed: ParsedRequest) -> None:
        ask, seam = parsed.ask, self._machine.inside.seam
        if not is_stream(ask):
            self._answer(await seam.request(ask, timeout_s=NO_ANSWER_S), last=parsed.last)
            return
        opened = await seam.open(ask, timeout_s=NO_ANSWER_S)
        if isinstance(opened, Reply):
            self._answer(opened, last=parsed.last)
            return
        self._stream = opened
        self._say(head(200, "Transfer-Encoding: chunked"))
        while (chunks := await opened.read()) is not None:
            for chunk in chunks:
                self._say(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self._stream = None
        self._say(b"0\r\n\r\n")

    def _answer(self, reply: Reply, *, last: bool = False) -> None:
        if reply.status == 0:  # Nobody knows whether it was carried out.
            self._say(ConnectionResetError(104, "Connection reset by peer"))
            return
        body = reply.body if isinstance(reply.body, bytes) else msgspec.json.encode(reply.body)
        self._say(head(reply.status, f"Content-Length: {len(body)}") + body)
        if last:
            self._say(b"")

    def _say(self, data: bytes | OSError) -> None:
        if self._on_data is not None:
            self._on_data(data)


def is_stream(ask: Ask) -> bool:
    query = parse_qs(ask.target.partition("?")[2])
    wanted = (*query.get("watch", ()), *query.get("follow", ()))
    return ask.method == "GET" and any(value.lower() in {"1", "true"} for value in wanted)


def head(status: int, *headers: str, content_type: str = "application/json") -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    typed = [f"Content-Type: {content_type}"] if content_type else []
    lines = [f"HTTP/1.1 {status} {phrase}", *typed, *headers, "", ""]
    return "\r\n".join(lines).encode()


class ParsedRequest(msgspec.Struct):
    ask: Ask
    last: bool  # The client closes the connection after the answer.
    headers: list[tuple[str, str]]  # All of them.


class _RequestParser:
    """httptools calls its methods."""

    def __init__(self) -> None:
        self._complete: list[ParsedRequest] = []
        self._begin()

    def feed(self, data: bytes) -> list[ParsedRequest]:
        with suppress(httptools.HttpParserUpgrade):  # Answered as if it had not asked for that.
            self._parser.feed_data(data)
        complete, self._complete = self._complete, []
        if complete:
            self._begin()
        return complete

    def _begin(self) -> None:
        self._parser: Any = httptools.HttpRequestParser(self)
        self._url, self._body = b"", b""
        self._headers: list[tuple[str, str]] = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        target = self._url.decode()
        if "://" in target:  # As to a proxy.
            target = "/" + target.partition("://")[2].partition("/")[2]
        headers = tuple((name, value) for name, value in self._headers if name not in NOT_PASSED_ON)
        last = ("connection", "close") in self._headers
        method = self._parser.get_method().decode()
        self._complete.append(ParsedRequest(Ask(method, target, self._body, headers), last, self._headers))
