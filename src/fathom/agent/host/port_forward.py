"""`kubectl port-forward` at the agent: SPDY inside a WebSocket, a pair of streams for each connection.

    error stream   headers streamType=error, port, requestID; we write to it what went wrong, or nothing
    data stream    the same headers but streamType=data; carries the bytes of one TCP connection

A pair is connected when both streams are there. kubectl's SPDY has no windows: while one pod's socket is
full, the connection is not read on, so nothing is buffered beyond that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from fathom.agent.host.channels import GONE, Channels
from fathom.agent.host.exec_session import cancel
from fathom.agent.host.pod_ports import BUFFER_BYTES, PodPorts, end_writing, no_delay
from fathom.api.named_ports import port_of
from fathom.api.spdy import (
    GOAWAY,
    PING,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    SYN_STREAM,
    Frame,
    FrameReader,
    FrameWriter,
    SpdyError,
)  # fmt: skip

STREAMS_MAX = 512  # Open streams of one connection: two for each of 256 connections.
PAIR_S = 30.0  # kubelet's: how long one stream of a pair waits for the other.
WAITING_BYTES_MAX = 256 << 10  # Of one stream, until its connection to the pod is there.


class Pair:
    """One forwarded connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.data = self.error = 0  # Stream ids; 0: not there yet.
        self.waiting: asyncio.Queue[bytes | None] = asyncio.Queue(1)  # From the client; None is its end.
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None


class PortForward:
    """One connection of kubectl."""

    def __init__(self, channels: Channels, ports: PodPorts) -> None:
        self._channels, self._ports = channels, ports
        self._frames, self._writer = FrameReader(), FrameWriter()
        self._pairs: dict[str, Pair] = {}  # By request id.
        self._streams: dict[int, tuple[str, Pair]] = {}  # Data and error streams, by id.

    async def run(self) -> None:
        """Until the client is gone, or breaks the rules."""
        reading = asyncio.ensure_future(self._read())
        idle = asyncio.ensure_future(self._channels.until_idle())
        try:
            await asyncio.wait((reading, idle), return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and isinstance(reading.exception(), SpdyError):
                await self._channels.send_raw(self._writer.go_away(0))
        except GONE:
            pass
        finally:
            tasks = [pair.task for pair in self._pairs.values() if pair.task is not None]
            for pair in self._pairs.values():
                if pair.timer is not None:
                    pair.timer.cancel()
            await cancel(reading, idle, *tasks)

    async def _read(self) -> None:
        while message := await self._channels.receive():
            for frame in self._frames.feed(message):
                await self._obey(frame)
                if frame.kind == GOAWAY:
                    return

    async def _obey(self, frame: Frame) -> None:
        if frame.kind == SYN_STREAM:
            await self._open(frame)
        elif frame.kind == PING and frame.number % 2:  # Even numbers would be ours.
            await self._send(self._writer.ping(frame.number))
        elif frame.kind == RST_STREAM:
            self._reset(frame.stream)
        elif frame.kind == 0:
            await self._data(frame)

    async def _send(self, frame: bytes) -> None:
        await self._channels.send_raw(frame)

    # Streams.

    async def _open(self, frame: Frame) -> None:
        if frame.stream % 2 == 0 or frame.stream in self._streams:
            raise SpdyError(f"stream {frame.stream} cannot be opened")
        role, port = frame.headers.get("streamtype", ""), port_of(frame.headers.get("port", ""))
        if len(self._streams) >= STREAMS_MAX:
            await self._send(self._writer.reset(frame.stream, REFUSED_STREAM))
            return
        if role not in {"data", "error"} or not port:
            await self._send(self._writer.reset(frame.stream, PROTOCOL_ERROR))
            return
        request = frame.headers.get("requestid") or _request_of(frame.stream, role)
        pair = self._pairs.get(request)
        if pair is None:
            pair = self._pairs[request] = Pair(port)
            expire = self._expire
            pair.timer = asyncio.get_running_loop().call_later(PAIR_S, expire, request)
        if getattr(pair, role):
            raise SpdyError(f"request {request} has two {role} streams")
        setattr(pair, role, frame.stream)
        self._streams[frame.stream] = (role, pair)
        await self._send(self._writer.syn_reply(frame.stream))
        if pair.data and pair.error:
            if pair.timer is not None:
                pair.timer.cancel()
            pair.task = asyncio.ensure_future(self._forward(request, pair))

    def _expire(self, request: str) -> None:
        pair = self._pairs.pop(request, None)
        if pair is not None:
            self._forget(pair)

    def _forget(self, pair: Pair) -> None:
        for stream in (pair.data, pair.error):
            self._streams.pop(stream, None)

    def _reset(self, stream: int) -> None:
        role, pair = self._streams.get(stream, ("", None))
        if pair is None:
            return
        if role == "data" and pair.task is not None:
            pair.task.cancel()

    async def _data(self, frame: Frame) -> None:
        """Waits while the pod does not read, unless the connection has ended."""
        role, pair = self._streams.get(frame.stream, ("", None))
        if pair is None or role == "error":
            return  # Late, or the end of an error stream, on which kubectl sends nothing.
        if frame.data:
            await self._put(pair, frame.data)
        if frame.is_last:
            await self._put(pair, None)

    async def _put(self, pair: Pair, data: bytes | None) -> None:
        putting = asyncio.ensure_future(pair.waiting.put(data))
        ending = [pair.task] if pair.task is not None else []
        try:
            await asyncio.wait((putting, *ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            putting.cancel()

    # Connections.

    async def _forward(self, request: str, pair: Pair) -> None:
        problem = ""
        try:
            problem = await self._carry(pair)
        finally:
            self._pairs.pop(request, None)
            with contextlib.suppress(*GONE):
                await self._send(self._writer.data(pair.error, problem.encode(), last=True))
                await self._send(self._writer.data(pair.data, b"", last=True))
            self._forget(pair)

    async def _carry(self, pair: Pair) -> str:
        """What went wrong; '' if nothing did."""
        try:
            reader, writer = await self._ports.connect(pair.port)
        except OSError as error:
            return f"cannot forward port {pair.port}: {error.strerror or error}"
        no_delay(writer)
        to_pod = asyncio.ensure_future(send_to_pod(pair.waiting.get, writer))
        try:
            while data := await reader.read(BUFFER_BYTES):
                await self._send(self._writer.data(pair.data, data))
        except ConnectionError as error:
            return f"the connection to port {pair.port} was lost: {error.strerror or error}"
        finally:
            writer.close()
            await cancel(to_pod)
        return ""


async def send_to_pod(take: Callable[[], object], writer: asyncio.StreamWriter) -> None:
    """Until the client ends its side; the pod may still answer then."""
    with contextlib.suppress(ConnectionError):
        while (data := await take()) is not None:  # type: ignore[misc]  # a coroutine of bytes
            writer.write(data)
            await writer.drain()
        end_writing(writer)


def _request_of(stream: int, role: str) -> str:
    """Old clients name no request: they open the error stream first, then the data stream, whose id is the
    next one."""
    return f"stream {stream if role == 'error' else stream - 2}"
