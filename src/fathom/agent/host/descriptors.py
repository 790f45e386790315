"""Read and write pipes and terminals without blocking, and without reading ahead."""

from __future__ import annotations

import asyncio
import os

READ_BYTES = 32 << 10
AFTER_END_BYTES_MAX = 1 << 20  # Of processes that outlive their command and go on writing.


class DescriptorReader:
    """Owns the descriptor. One reader at a time."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._ready: asyncio.Future[None] | None = None
        self._left_bytes = -1  # Set once the writer has ended: what may still be read.

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        while self._left_bytes != 0:
            try:
                data = os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                if self._left_bytes > 0:
                    return b""
                await self._wait()
                continue
            except OSError:  # A terminal whose other end is closed.
                return b""
            if self._left_bytes > 0:
                self._left_bytes = max(0, self._left_bytes - len(data))
            return data
        return b""

    def finish(self) -> None:
        """The writer has ended: all that it wrote is there to be read, and nothing is waited for."""
        self._left_bytes = AFTER_END_BYTES_MAX
        self._wake()

    def close(self) -> None:
        self._wake()
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        loop.add_reader(self._fd, self._wake)
        try:
            await self._ready
        finally:
            self._ready = None
            loop.remove_reader(self._fd)

    def _wake(self) -> None:
        if self._ready is not None:
            _set(self._ready)


class DescriptorWriter:
    """Owns the descriptor."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    async def write(self, data: bytes) -> None:
        """Returns when all is written, or nobody reads any more."""
        rest = memoryview(data)
        while rest and self._fd >= 0:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                await self._wait()
            except OSError:
                self.close()

    def close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_writer(self._fd)
            os.close(self._fd)
            self._fd = -1

    async def _wait(self) -> None:
        loop, fd = asyncio.get_running_loop(), self._fd
        ready = loop.create_future()
        loop.add_writer(fd, _set, ready)
        try:
            await ready
        finally:
            if self._fd == fd:
                loop.remove_writer(fd)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
