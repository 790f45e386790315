"""The gateway against a real server: its deciding part on a Domain, its proxy on the host's loop."""

from __future__ import annotations

import asyncio

import msgspec

from fathom.agent.gateway.following import OBSERVED, TABLE, Observation
from fathom.agent.gateway.proxy import Proxy, allow_many
from fathom.agent.gateway.routes import Table
from fathom.client.http import HttpBackend, Server
from fathom.record.flight import Flight, fly
from fathom.seams.host import Host
from fathom.seams.log import Log
from fathom.seams.outside import live
from fathom.seams.seam import Ask, Input

ENTRY = "fathom.agent.gateway.following:begin"


async def run_gateway(server: Server, *, stop: asyncio.Event, log: Log) -> None:
    """On the host's loop, until `stop` is set."""
    allow_many()
    flight = Flight(ENTRY, {}, connect=lambda host: _Backend(host, server, log), outside=live(), log=log)
    await fly(flight, stop, who="the gateway")


class _Backend:
    """Asks about the gateway go to the proxy, all others to the API."""

    def __init__(self, host: Host, server: Server, log: Log) -> None:
        self._host = host
        self._http = HttpBackend(host, server)
        self._proxy = Proxy(self._observe, log)
        self._listener: int | None = None  # Who wants to hear what is seen.
        self._unheard: list[Observation] = []
        self._loop = asyncio.get_running_loop()  # The host's; `start` is called inside the Domain.
        self._tasks = {self._loop.create_task(self._proxy.look_for_ever())}

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        if ask.target == TABLE:
            task = self._loop.create_task(self._apply(number, ask))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif ask.target == OBSERVED:
            self._listener = number
            self._host.post(Input.OPENED, number, 200)
            self._tell()
        else:
            self._http.start(number, ask, stream=stream)

    def cancel(self, number: int) -> None:
        if number == self._listener:
            self._listener = None
        else:
            self._http.cancel(number)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await self._proxy.close()
        await self._http.close()

    async def _apply(self, number: int, ask: Ask) -> None:
        applied = await self._proxy.apply(msgspec.json.decode(ask.body, type=Table))
        self._host.post(Input.REPLY, number, 200, msgspec.json.encode(applied))

    def _observe(self, pod: str, uid: str, reached: bool) -> None:
        self._unheard.append(Observation(pod, uid, reached))
        self._tell()

    def _tell(self) -> None:
        if self._listener is None or not self._unheard:
            return
        lines = b"".join(msgspec.json.encode(each) + b"\n" for each in self._unheard)
        self._unheard = []
        self._host.post(Input.CHUNK, self._listener, 0, lines)
