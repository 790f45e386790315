"""Copies bytes between a client and an endpoint until both have ended, and notes who broke it off."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Literal

from fathom.seams.loop_clock import loop_now_s

PIECE_BYTES = 256 << 10

Side = Literal["client", "endpoint"]


class Peer:
    """One side of a connection."""

    __slots__ = ("first_s", "reader", "side", "writer")

    def __init__(self, side: Side, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.side = side
        self.reader = reader
        self.writer = writer
        self.first_s: float | None = None  # When its first bytes came.


class _BrokenOff(Exception):
    def __init__(self, side: Side) -> None:
        self.side = side


class Exchange:
    """What happened on one connection."""

    __slots__ = ("_client", "_endpoint", "_start_s", "broken_by")

    def __init__(self, client: Peer, endpoint: Peer, start_s: float) -> None:
        self._client = client
        self._endpoint = endpoint
        self._start_s = start_s
        self.broken_by: Side | None = None

    @property
    def response_s(self) -> float | None:
        """From the client's first bytes to the endpoint's first; from the start, if the endpoint speaks
        first. None: the endpoint has sent nothing."""
        answered_s = self._endpoint.first_s
        if answered_s is None:
            return None
        asked_s = self._client.first_s
        return answered_s - (self._start_s if asked_s is None or asked_s > answered_s else asked_s)

    async def carry(self) -> None:
        """Copy until both sides have sent EOF. If one side is reset, the other is reset too: a truncated
        stream must not look complete."""
        tasks = [
            asyncio.ensure_future(_copy_stream(self._client, self._endpoint)),
            asyncio.ensure_future(_copy_stream(self._endpoint, self._client)),
        ]
        try:
            await asyncio.gather(*tasks)
        except _BrokenOff as error:
            self.broken_by = error.side
            break_off(self._client.writer)
            break_off(self._endpoint.writer)
        finally:
            for task in tasks:
                task.cancel()


async def _copy_stream(source: Peer, sink: Peer) -> None:
    while piece := await _read(source):
        if source.first_s is None:
            source.first_s = loop_now_s()
        try:
            sink.writer.write(piece)
            await sink.writer.drain()
        except OSError as error:
            raise _BrokenOff(sink.side) from error
    with contextlib.suppress(OSError):
        if sink.writer.can_write_eof():
            sink.writer.write_eof()


async def _read(source: Peer) -> bytes:
    try:
        return await source.reader.read(PIECE_BYTES)
    except OSError as error:
        raise _BrokenOff(source.side) from error


def break_off(writer: asyncio.StreamWriter) -> None:
    """Close the connection with RST instead of FIN."""
    with contextlib.suppress(OSError, AttributeError):
        mine = writer.get_extra_info("socket")
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
