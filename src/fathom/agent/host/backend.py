"""The agent's backend of the Seam: `runtime:` requests go to the driver, all others to the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from fathom.agent.host.driver import ProcessDriver
from fathom.agent.host.traced_calls import TracedCalls
from fathom.agent.runtime import ContainerNotStarted, ContainerRun, Launch
from fathom.agent.runtime_client import SCHEME, USED, Probing, RuntimeSignal
from fathom.agent.usage import NodeUsage
from fathom.client.http import HttpBackend
from fathom.model.objects import Obj
from fathom.seams.host import Host
from fathom.seams.log import Log
from fathom.seams.seam import Ask, Input

_encode = msgspec.json.encode


class AgentBackend:
    """Make it on the host's loop."""

    def __init__(
        self,
        host: Host,
        http: HttpBackend,
        driver: ProcessDriver | None,
        log: Log,
        *,
        used: Callable[[NodeUsage], None] = lambda usage: None,
        traces: TracedCalls | None = None,
    ) -> None:
        self._host = host
        self._http = http
        self._driver = driver
        self._log = log
        self._used = used  # Receives the usage of simulated containers: real ones are measured.
        self._traces = traces
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ends: dict[int, None] = {}  # Open streams that report ends of runs.
        if driver is not None:
            driver.watcher.on_end = self._ended

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        if not ask.target.startswith(SCHEME):
            self._http.start(number, ask, stream=stream)
        elif ask.target == USED:
            self._used(msgspec.json.decode(ask.body, type=NodeUsage))
            self._host.post(Input.REPLY, number, 200, b"null")
        elif stream:
            self._ends[number] = None
            self._host.post(Input.OPENED, number, 200)
        else:
            self._tasks[number] = self._loop.create_task(self._do(number, ask))

    def cancel(self, number: int) -> None:
        """The driver finishes what it has begun: an aborted start would leave a process without a record."""
        self._ends.pop(number, None)
        if self._tasks.pop(number, None) is None:
            self._http.cancel(number)

    async def close(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=5.0)
        await self._http.close()

    def _ended(self, run: ContainerRun) -> None:
        for number in self._ends:
            self._host.post(Input.CHUNK, number, 0, _encode(run) + b"\n")

    async def _do(self, number: int, ask: Ask) -> None:
        assert self._driver is not None
        call = ask.target.removeprefix(f"{SCHEME}/")
        began_ns = self._traces.now_ns() if self._traces is not None else 0
        answer: Any
        try:
            status, answer = await CALLS[call](self._driver, ask.body)
            body = _encode(answer)
        except Exception as error:  # A bug of ours must not stop the other pods: it is logged.
            self._log.error("the process driver failed", ask=ask.target, error=repr(error))
            status, answer = 500, _error_text(error)
            body = answer.encode()
        if self._traces is not None:
            self._traces.called(call, ask.body, status, answer, began_ns)
        self._tasks.pop(number, None)
        self._host.post(Input.REPLY, number, status, body)


def _error_text(error: Exception) -> str:
    """The error for the pod's Events: a system error, or a bug of ours."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}"


async def _listing(driver: ProcessDriver, body: bytes) -> tuple[int, Any]:
    return 200, driver.listing()


async def _admit(driver: ProcessDriver, body: bytes) -> tuple[int, Any]:
    return 200, await driver.admit(msgspec.json.decode(body, type=Obj))


async def _start(driver: ProcessDriver, body: bytes) -> tuple[int, Any]:
    began = await driver.start(msgspec.json.decode(body, type=Launch))
    return (422 if isinstance(began, ContainerNotStarted) else 200), began


async def _signal(driver: ProcessDriver, body: bytes) -> tuple[int, Any]:
    driver.signal(msgspec.json.decode(body, type=RuntimeSignal))
    return 200, None


async def _probe(driver: ProcessDriver, body: bytes) -> tuple[int, Any]:
    return 200, await driver.probe(msgspec.json.decode(body, type=Probing))


async def _remove(driver: ProcessDriver, body: bytes) -> tuple[int, Any]:
    await driver.remove(msgspec.json.decode(body, type=str))
    return 200, None


CALLS: dict[str, Callable[[ProcessDriver, bytes], Awaitable[tuple[int, Any]]]] = {
    "listing": _listing,
    "admit": _admit,
    "start": _start,
    "signal": _signal,
    "probe": _probe,
    "remove": _remove,
}
