"""Run the gateway against a real API server: its controller on a Domain, its proxy on the host's loop.

The last table is kept in a file. A restarted gateway begins with it: it carries connections before an API
server has answered, or while none does.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import msgspec

from fathom import private_files
from fathom.client.http import HttpBackend, ServerAddress
from fathom.gateway.controller import OBSERVED, PROXY_REPORT, TABLE, Observation
from fathom.gateway.metrics import measure_proxy
from fathom.gateway.proxy import Proxy
from fathom.gateway.routes import Table
from fathom.kept_sockets import KeptSockets
from fathom.metrics.registry import NOT_MEASURED
from fathom.metrics.registry import Part as MetricsPart
from fathom.model.decision import Journal
from fathom.record.recorded_process import RecordedProcess, fly
from fathom.record.tape import DiskTape
from fathom.seams.host import Host
from fathom.seams.log import Log
from fathom.seams.outside import live
from fathom.seams.seam import Ask, Input

ENTRY = "gateway"


async def run_gateway(
    server: ServerAddress,
    *,
    stop: asyncio.Event,
    log: Log,
    remember: Path | None = None,
    tape: DiskTape | None = None,
    journal: Journal | None = None,
    metrics: MetricsPart = NOT_MEASURED,
    kept: KeptSockets | None = None,
) -> None:
    """Run on the host's loop until `stop` is set. `remember`: the file that keeps the last table."""

    def connect(host: Host) -> _Backend:
        backend = _Backend(host, server, log, Memory(remember), kept)
        measure_proxy(metrics, backend.proxy)
        return backend

    flight = RecordedProcess(
        ENTRY, {}, connect=connect, outside=live(), tape=tape, journal=journal, log=log, metrics=metrics
    )
    await fly(flight, stop, component="the gateway")


class Memory:
    """The last table, in a file. Read and write errors are ignored: the file only saves a wait."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def table(self) -> Table:
        if self._file is None:
            return ()
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=Table)
        except (OSError, msgspec.DecodeError):
            return ()

    def keep(self, table: bytes) -> None:
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            private_files.write(self._file, table)


class _Backend:
    """Sends requests under /gateway/ to the proxy, all others to the API server."""

    def __init__(
        self, host: Host, server: ServerAddress, log: Log, memory: Memory, kept: KeptSockets | None
    ) -> None:
        self._host = host
        self._http = HttpBackend(host, server)
        self.proxy = Proxy(self._observe, log, kept)
        self._memory = memory
        self._applying = asyncio.Lock()  # One table at a time, the remembered one first.
        self._listener: int | None = None  # Number of the stream that observations go to.
        self._unsent: list[Observation] = []
        self._loop = asyncio.get_running_loop()  # The host's; `start` is called inside the Domain.
        self._tasks = {
            self._loop.create_task(self._begin()),
            self._loop.create_task(self.proxy.probe_for_ever()),
        }

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        if ask.target == TABLE:
            task = self._loop.create_task(self._apply(number, ask))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif ask.target == OBSERVED:
            self._listener = number
            self._host.post(Input.OPENED, number, 200)
            self._send_observations()
        elif ask.target == PROXY_REPORT:
            self._host.post(Input.REPLY, number, 200, msgspec.json.encode(self.proxy.proxy_report()))
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
        await self.proxy.close()
        await self._http.close()

    async def _begin(self) -> None:
        async with self._applying:
            await self.proxy.apply(self._memory.table())

    async def _apply(self, number: int, ask: Ask) -> None:
        async with self._applying:
            applied = await self.proxy.apply(msgspec.json.decode(ask.body, type=Table))
        self._memory.keep(ask.body)
        self._host.post(Input.REPLY, number, 200, msgspec.json.encode(applied))

    def _observe(self, pod: str, uid: str, reached: bool) -> None:
        self._unsent.append(Observation(pod, uid, reached))
        self._send_observations()

    def _send_observations(self) -> None:
        if self._listener is None or not self._unsent:
            return
        lines = b"".join(msgspec.json.encode(each) + b"\n" for each in self._unsent)
        self._unsent = []
        self._host.post(Input.CHUNK, self._listener, 0, lines)
