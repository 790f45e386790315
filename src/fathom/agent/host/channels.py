"""Kubernetes' channels on a WebSocket: each message begins with the number of its channel.

0 stdin   1 stdout   2 stderr   3 how it ended: a Status   4 size of the terminal   255 close a channel (v5)
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
V5 = "v5.channel.k8s.io"
MESSAGE_BYTES_MAX = 1 << 20  # kubectl sends 32 KiB; a message is whole in memory.
IDLE_S = 4 * 3600.0  # kubelet's --streaming-connection-idle-timeout.
# A client that pings must not take us for dead while its input waits for a program that does not read: pongs
# may be sent unasked. They also notice a client that is gone.
ALIVE_S = 10.0
CLOSE_S = 5.0  # How long the other end may take to close.

GONE = (ConnectionError, RuntimeError)  # What aiohttp raises when the connection is closing.


def websocket(protocol: str) -> web.WebSocketResponse:
    return web.WebSocketResponse(
        protocols=(protocol,), compress=False, max_msg_size=MESSAGE_BYTES_MAX, timeout=CLOSE_S
    )


class Channels:
    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._used_s = asyncio.get_running_loop().time()

    async def receive(self) -> bytes:
        """The next message; empty when the client is gone, or breaks the rules of the protocol."""
        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                data: bytes = message.data
            elif message.type is WSMsgType.TEXT:  # Python's client sends these.
                data = message.data.encode("utf-8", "surrogateescape")
            else:
                return b""
            self._used_s = asyncio.get_running_loop().time()
            if data:
                return data

    async def send(self, channel: int, data: bytes) -> None:
        """Returns when there is room for more."""
        await self.send_raw(bytes((channel,)) + data)

    async def send_raw(self, message: bytes) -> None:
        self._used_s = asyncio.get_running_loop().time()
        await self._socket.send_bytes(message)

    async def until_idle(self) -> None:
        """Returns when nothing was sent or received for four hours, or the client is gone."""
        loop = asyncio.get_running_loop()
        try:
            while loop.time() - self._used_s < IDLE_S:
                await asyncio.sleep(ALIVE_S)
                await self._socket.pong()
        except GONE:
            return

    async def close(self, *, code: int = WSCloseCode.OK, message: bytes = b"") -> None:
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._socket.close(code=code, message=message)
        except (*GONE, TimeoutError):
            pass


def success() -> bytes:
    return msgspec.json.encode({"metadata": {}, "status": "Success"})


def exit_status(code: int) -> bytes:
    """As kubelet reports it, and kubectl reads the exit code from it."""
    if code == 0:
        return success()
    return _failure(
        "NonZeroExitCode",
        f"command terminated with non-zero exit code: exit status {code}",
        details={"causes": [{"reason": "ExitCode", "message": str(code)}]},
    )


def failure(message: str) -> bytes:
    return _failure("InternalError", message, code=500)


def _failure(reason: str, message: str, **more: Any) -> bytes:
    return msgspec.json.encode(
        {"metadata": {}, "status": "Failure", "message": message, "reason": reason, **more}
    )
