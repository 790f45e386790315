"""TCP connections between processes that can be cut: then nothing is closed, and nothing arrives."""

from __future__ import annotations

import asyncio
import contextlib
import threading

CHUNK_BYTES = 1 << 16


class Link:
    """A port of this machine that leads to another one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: str) -> None:
        self.port = 0
        self._loop, self._target = loop, target
        self._is_whole = asyncio.Event()
        self._is_whole.set()

    async def open(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._is_whole.clear)

    def heal(self) -> None:
        self._loop.call_soon_threadsafe(self._is_whole.set)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        try:
            await self._is_whole.wait()
            there = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._forward(reader, there[1]), self._forward(there[0], writer))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await self._is_whole.wait()
                writer.write(chunk)
                await writer.drain()
        writer.close()


class Links:
    """All links, in a thread of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def to(self, target: str) -> Link:
        """`target`: HOST:PORT."""
        link = Link(self._loop, target)
        asyncio.run_coroutine_threadsafe(link.open(), self._loop).result(10)
        return link

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
