"""The API server's end of a connection on which an agent speaks WebSocket with a client.

The API server sends the client's handshake on, with the key that the client chose; from then on it passes
bytes.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from urllib.parse import quote, urlencode

import httptools

from fathom.api.agent_connections import AgentAddress, ConnectAsk
from fathom.api.relay import notice_dead_peer
from fathom.model.errors import ApiError, bad_request, not_found, too_many_requests, unavailable

READ_BYTES = 64 << 10
HEAD_BYTES_MAX = 16 << 10
REFUSAL_BYTES_MAX = 4 << 10
ANSWER_S = 10.0  # For the connection and the answer to the handshake.
PASSED_ON = ("sec-websocket-accept", "sec-websocket-protocol")

Headers = tuple[tuple[str, str], ...]


class AgentTunnel:
    """Implements `api.request.Tunnel`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes) -> None:
        self._reader, self._writer = reader, writer
        self._first = first  # Bytes that came with the head.

    async def read(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        return await self._reader.read(READ_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        if not self._writer.is_closing():
            self._writer.close()


async def open_tunnel(
    at: AgentAddress, ask: ConnectAsk, context: ssl.SSLContext | None
) -> tuple[AgentTunnel, Headers]:
    """Raises ApiError."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(at.host, at.port, ssl=context, limit=READ_BYTES)
            notice_dead_peer(writer.get_extra_info("socket"))
            writer.write(request_head(at, ask))
            answer = await _answer(reader)
        if answer.status != 101:
            raise _refusal(at, ask, answer)
    except (OSError, TimeoutError, httptools.HttpParserError) as error:
        _drop(writer)
        raise _no_answer(at, _words(error)) from None
    except BaseException:
        _drop(writer)
        raise
    headers = tuple((name, answer.headers[name]) for name in PASSED_ON if name in answer.headers)
    return AgentTunnel(reader, writer, answer.rest), headers


def request_head(at: AgentAddress, ask: ConnectAsk) -> bytes:
    """Nothing in it can end a line: words of the path and the query are quoted, key and protocol checked."""
    words = [ask.action, ask.namespace, ask.pod, ask.uid, *([ask.container] if ask.container else [])]
    path = "/" + "/".join(quote(word, safe="") for word in words)
    host = f"[{at.host}]" if ":" in at.host else at.host
    lines = (
        f"GET {path}?{urlencode(ask.options)} HTTP/1.1",
        f"host: {host}:{at.port}",
        "connection: Upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        f"sec-websocket-key: {ask.key}",
        f"sec-websocket-protocol: {ask.protocol}",
    )
    return "\r\n".join((*lines, "", "")).encode("ascii")


class _Answer:
    """What the agent answers to the handshake."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = b""
        self.rest = b""
        self.status = 0
        self.complete = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as stopped:
            self.rest, self.complete = data[stopped.args[0] :], True

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


async def _answer(reader: asyncio.StreamReader) -> _Answer:
    answer, size = _Answer(), 0
    while not answer.complete and size < HEAD_BYTES_MAX:
        data = await reader.read(REFUSAL_BYTES_MAX)
        if not data:
            break
        size += len(data)
        answer.feed(data)
    return answer


def _refusal(at: AgentAddress, ask: ConnectAsk, answer: _Answer) -> ApiError:
    text = answer.body[:REFUSAL_BYTES_MAX].decode("utf-8", "replace").strip()
    if answer.status == 400:
        return bad_request(text)
    if answer.status == 429:
        return too_many_requests(text)
    if answer.status == 410:
        return not_found("pods", ask.pod)
    if answer.status == 404:
        return unavailable(f"{at.whose} {at.node} is of an older fathom that has no {ask.action}: restart it")
    return _no_answer(at, text or f"HTTP {answer.status}" if answer.status else "it closed the connection")


def _words(error: Exception) -> str:
    """asyncio says `Connect call failed`, whatever the reason."""
    number = error.errno if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
    return os.strerror(number) if number else str(error) or type(error).__name__


def _drop(writer: asyncio.StreamWriter | None) -> None:
    if writer is not None:
        writer.transport.abort()


def _no_answer(at: AgentAddress, why: str) -> ApiError:
    return unavailable(f"{at.whose} {at.node} does not answer: {why}")
