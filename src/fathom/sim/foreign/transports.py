"""asyncio's Transport over a foreign process's socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from fathom.sim.foreign.event_loop import ForeignLoop
    from fathom.sim.foreign.sockets import ForeignSocket


class ForeignTransport(asyncio.Transport):
    def __init__(self, loop: ForeignLoop, sock: ForeignSocket, protocol: asyncio.BaseProtocol) -> None:
        super().__init__({"socket": sock, "peername": sock.getpeername(), "sockname": sock.getsockname()})
        self._loop = loop
        self._sock = sock
        self._protocol = protocol
        self._closing = False
        self._reading = True
        self._scheduled = False

    def begin(self) -> None:
        self._expect()

    # From the connection to the protocol: always by a callback of the loop.

    def _expect(self) -> None:
        if not self._closing and self._reading and not self._scheduled:
            self._scheduled = True
            self._sock.call_when_readable(lambda: self._loop.call_soon(self._read))

    def _read(self) -> None:
        self._scheduled = False
        if self._closing or not self._reading:
            return
        try:
            data = self._sock.take()
        except OSError as error:
            self._lose(error)
            return
        if data:
            self._pass_on(data)
            self._expect()
        elif not self._protocol.eof_received():  # type: ignore[attr-defined]  # every protocol has it
            self._lose(None)

    def _pass_on(self, data: bytes) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            cast(asyncio.Protocol, self._protocol).data_received(data)
            return
        while data:
            buffer = memoryview(self._protocol.get_buffer(len(data)))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            self._protocol.buffer_updated(size)
            data = data[size:]

    def _lose(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._sock.close()
            self._loop.call_soon(self._protocol.connection_lost, error)

    # From the protocol.

    def write(self, data: Any) -> None:
        if not self._closing:
            self._sock.pass_on(bytes(data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self._lose(None)

    abort = close

    def is_closing(self) -> bool:
        return self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._expect()

    def is_reading(self) -> bool:
        return self._reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


class LostDatagrams(asyncio.DatagramTransport):
    """Nobody receives what it sends: metrics and logs, most of it."""

    def __init__(self, loop: ForeignLoop, protocol: Any, local: Any, remote: Any) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self._loop = loop
        self._protocol = protocol
        self._closing = False

    def sendto(self, data: Any, addr: Any = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close
