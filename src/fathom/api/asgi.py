"""The one shell between HTTP and the core: an ASGI application, and uvicorn's protocol taught to hand over
client certificates and to lose patience. Nothing is decided here but what belongs to the transport: how much
and how slowly a client may send, and disconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fathom.api import represent
from fathom.api.request import Answer, Request, Response, Stream
from fathom.api.server import ApiServer
from fathom.model.errors import ApiError, bad_request, too_large, too_slow

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# Before anybody is known, a head could fill the memory, and one that never ends would be waited for. Both as
# Go's server and kube-apiserver have them.
HEAD_BYTES_MAX = 1 << 20
HEAD_S_MAX = 32.0

TLS = "tls"  # The ASGI extension that names the client's certificate; ours holds it in DER.


class Application:
    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._body_bytes_max = server.core.limits.body_bytes_max
        self._body_s_max = server.core.limits.request_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            request = self._request(scope)
            if scope["method"] != "GET":
                async with asyncio.timeout(self._body_s_max):
                    request.body = await self._body(request, receive)
        except ApiError as error:
            await _respond(represent.failure(error), send, close=True)
            return
        except TimeoutError:
            await _respond(represent.failure(too_slow()), send, close=True)
            return
        except _Gone:
            return
        answer = await self._server.handle(request)
        if isinstance(answer, Stream):
            await _stream(answer, receive, send)
        else:
            await _respond(answer, send)

    def _request(self, scope: Scope) -> Request:
        headers: dict[str, str] = {}
        for raw_name, raw_value in scope["headers"]:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            # A newline cannot stand in a header's value, so it can stand between two.
            headers[name] = f"{headers[name]}\n{value}" if name in headers else value
        query = scope["query_string"]
        try:
            parsed = parse_qs(query.decode(), keep_blank_values=True, max_num_fields=100) if query else {}
        except (ValueError, UnicodeDecodeError):
            raise bad_request("the query string could not be read") from None
        client = scope.get("client")
        return Request(
            method=scope["method"],
            path=scope["raw_path"].decode("latin-1"),
            query=parsed,
            headers=headers,
            client_certificate=scope.get("extensions", {}).get(TLS, b""),
            remote=client[0] if client else "",
        )

    async def _body(self, request: Request, receive: Receive) -> bytes:
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and len(declared) < 19 and int(declared) > self._body_bytes_max:
            raise too_large(self._body_bytes_max)
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            return self._sized(body)
        parts, size = [body], len(body)
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._body_bytes_max:
                raise too_large(self._body_bytes_max)
        return self._sized(b"".join(parts))

    def _sized(self, body: bytes) -> bytes:
        if len(body) > self._body_bytes_max:
            raise too_large(self._body_bytes_max)
        return body


_TOO_MUCH_HEAD = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)


class _Gone(Exception):
    """The client left before its request was complete."""


async def _respond(answer: Response, send: Send, *, close: bool = False) -> None:
    headers = _headers(answer)
    headers.append((b"content-length", b"%d" % len(answer.body)))
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-type", answer.content_type.encode("latin-1"))]
    headers += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    return headers


async def _stream(answer: Stream, receive: Receive, send: Send) -> None:
    """Send chunks until the source ends or the client leaves. `send` waits while the client does not read,
    so nothing is buffered here."""
    source = answer.source
    listener = asyncio.ensure_future(_until_gone(receive, source.close))
    try:
        await send({"type": "http.response.start", "status": answer.status, "headers": _headers(answer)})
        while (chunk := await source.next()) is not None:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        source.close()
        listener.cancel()


async def _until_gone(receive: Receive, close: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    close()


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, with the client's verified certificate in the scope, and with bounds on a request's
    head: its line and headers."""

    _certificate = b""
    _in_head = False  # Some of a head has come, but not all of it.
    _head_bytes = 0
    _deadline: asyncio.TimerHandle | None = None  # There while a head is waited for.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._wait_for_head()
        ssl_object = transport.get_extra_info("ssl_object")
        if ssl_object is not None:
            self._certificate = ssl_object.getpeercert(binary_form=True) or b""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_waiting()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
                self.transport.write(_TOO_MUCH_HEAD)
                self.transport.close()
            elif self._deadline is None:
                self._wait_for_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0
        self.scope["extensions"] = {TLS: self._certificate}  # type: ignore[dict-item]  # ours, not ASGI's

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def _wait_for_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_S_MAX, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
