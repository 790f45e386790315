"""HTTP of uvicorn with a deadline for the head of a request: uvicorn waits for it without end, and a client
that sends it byte by byte would keep a connection from others."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S_MAX = 10.0
_TOO_SLOW = b'{"error":"the head of the request took longer than %d s"}' % HEAD_S_MAX
_ANSWER = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%s" % (len(_TOO_SLOW), _TOO_SLOW)
)


class TimedHeads(H11Protocol):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._arrived = False  # Part of a head.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_S_MAX, self._end)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:  # The head is complete.
            self._forget()
        elif self._deadline is None:  # The first bytes of a further request.
            self._deadline = self.loop.call_later(HEAD_S_MAX, self._end)
        self._arrived = self._deadline is not None

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self) -> None:
        self._deadline = None
        if self._arrived:
            self.transport.write(_ANSWER)
        self.transport.close()
