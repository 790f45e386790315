"""Pass on the bytes of one client's WebSocket to an agent and back.

Neither side gets ahead of the other: the client is read only while there is room for what it sends, the agent
only while the client reads. What the bytes mean is the agent's business, see `client_frames`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fathom.api.client_frames import ClientFrames
from fathom.api.request import Tunnel

WAITING_BYTES_MAX = 256 << 10  # From the client; with more, it is not read on.
ALLOWED_CHECK_S = 1.0
# A peer whose machine is gone: noticed after a minute or two.
KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


class Relay:
    """Make it when the client's request is granted; `feed` it with what the client sends."""

    def __init__(
        self,
        transport: asyncio.Transport,
        tunnel: Tunnel,
        frames: ClientFrames,
        until_drained: Callable[[], Awaitable[None]],
    ) -> None:
        self._transport = transport
        self._tunnel = tunnel
        self._frames = frames
        self._until_drained = until_drained
        self._waiting = bytearray()  # From the client, for the agent.
        self._paused = False
        self._arrived = asyncio.Event()
        self._stopped = asyncio.Event()

    def feed(self, data: bytes) -> None:
        self._waiting += data
        self._arrived.set()
        if len(self._waiting) > WAITING_BYTES_MAX and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def stop(self) -> None:
        self._stopped.set()

    async def run(self, may_continue: Callable[[], bool] | None = None) -> None:
        """Until either side ends, `stop` is called, or it may not continue."""
        ways: list[Coroutine[Any, Any, object]] = [self._to_agent(), self._to_client(), self._stopped.wait()]
        if may_continue is not None:
            ways.append(self._while_allowed(may_continue))
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _to_agent(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                while self._waiting:
                    data = bytes(self._waiting)
                    self._waiting.clear()
                    await self._tunnel.write(self._frames.passed(data))
                    self._read_on()

    def _read_on(self) -> None:
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    async def _to_client(self) -> None:
        with contextlib.suppress(OSError):
            while (data := await self._tunnel.read()) and not self._transport.is_closing():
                self._transport.write(data)
                await self._until_drained()

    async def _while_allowed(self, may_continue: Callable[[], bool]) -> bool:
        while may_continue():  # noqa: ASYNC110  # Permissions end with time, too: nothing tells us.
            await asyncio.sleep(ALLOWED_CHECK_S)
        return False


def notice_dead_peer(connected: socket.socket | None) -> None:
    """A connection on which nobody writes would otherwise stay after the other machine is gone."""
    if connected is None:
        return
    with contextlib.suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE:
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
