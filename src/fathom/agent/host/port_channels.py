"""Port-forward by Kubernetes' older WebSocket protocol: two channels for each port, named in the query.

    2 * i      the bytes of the i-th port          2 * i + 1    what went wrong with it

The first message of each channel is the port, as two bytes, the lower first. Python's client speaks this, and
`fathom port-forward`: one connection for each use of a port.
"""

from __future__ import annotations

import asyncio
import contextlib

from fathom.agent.host.channels import GONE, Channels
from fathom.agent.host.exec_session import cancel
from fathom.agent.host.pod_ports import BUFFER_BYTES, PodPorts, no_delay
from fathom.agent.host.port_forward import send_to_pod


class PortChannels:
    def __init__(self, channels: Channels, ports: PodPorts, numbers: tuple[int, ...]) -> None:
        self._channels, self._ports, self._numbers = channels, ports, numbers
        self._waiting: list[asyncio.Queue[bytes]] = [asyncio.Queue(1) for _ in numbers]
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Until all ports have ended, or the client is gone."""
        reading = asyncio.ensure_future(self._read())
        idle = asyncio.ensure_future(self._channels.until_idle())
        self._tasks = [
            asyncio.ensure_future(self._carry(index, port)) for index, port in enumerate(self._numbers)
        ]
        carried = asyncio.gather(*self._tasks)
        try:
            await asyncio.wait((reading, idle, carried), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(reading, idle, carried, *self._tasks)

    async def _read(self) -> None:
        while message := await self._channels.receive():
            index, is_error = divmod(message[0], 2)
            if is_error or index >= len(self._numbers) or self._tasks[index].done():
                continue
            putting = asyncio.ensure_future(self._waiting[index].put(message[1:]))
            try:
                await asyncio.wait((putting, self._tasks[index]), return_when=asyncio.FIRST_COMPLETED)
            finally:
                putting.cancel()

    async def _carry(self, index: int, port: int) -> None:
        with contextlib.suppress(*GONE):
            for channel in (2 * index, 2 * index + 1):
                await self._channels.send(channel, port.to_bytes(2, "little"))
            if problem := await self._connected(index, port):
                await self._channels.send(2 * index + 1, problem.encode())

    async def _connected(self, index: int, port: int) -> str:
        """What went wrong; '' if nothing did."""
        try:
            reader, writer = await self._ports.connect(port)
        except OSError as error:
            return f"cannot forward port {port}: {error.strerror or error}"
        no_delay(writer)
        to_pod = asyncio.ensure_future(send_to_pod(self._waiting[index].get, writer))
        try:
            while data := await reader.read(BUFFER_BYTES):
                await self._channels.send(2 * index, data)
        except ConnectionResetError as error:
            return f"the connection to port {port} was lost: {error.strerror or error}"
        finally:
            writer.close()
            await cancel(to_pod)
        return ""
