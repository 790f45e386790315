"""The agent's endpoint for `exec`, `attach` and `portforward`: finds the container, then speaks WebSocket.

GET /exec/NAMESPACE/POD/UID/CONTAINER?command=…&stdin=…      the API server has checked who may
GET /attach/NAMESPACE/POD/UID/CONTAINER?stdin=…
GET /portforward/NAMESPACE/POD/UID?ports=…
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import WSCloseCode, web

from fathom.agent.host.attach_session import run_attach
from fathom.agent.host.channels import STDOUT, Channels, websocket
from fathom.agent.host.exec_session import ExecOptions, owner_of, run_exec
from fathom.agent.host.pod_ports import PodPorts
from fathom.agent.host.port_channels import PortChannels
from fathom.agent.host.port_forward import PortForward
from fathom.agent.host.records import Records, RunRecord, is_alive
from fathom.api.subresources.connect import COMMAND_PROTOCOLS, PORT_PROTOCOLS, SPDY

SESSIONS_MAX = 200  # At a time, of one node; each holds a few descriptors.
# kubectl opens its streams after the connection, and discards what comes before ("Unknown stream id 1").
KUBECTL_OPENS_STREAMS_S = 0.03
NO_PROGRAMS = "containers are simulated on this node, and run no programs to connect to"


class ConnectEndpoint:
    """`records`: None where containers are simulated."""

    def __init__(self, records: Records | None) -> None:
        self._records = records
        self._sessions: set[asyncio.Task[None]] = set()

    def add_to(self, app: web.Application) -> None:
        app.router.add_get("/exec/{namespace}/{pod}/{uid}/{container}", self._exec)
        app.router.add_get("/attach/{namespace}/{pod}/{uid}/{container}", self._attach)
        app.router.add_get("/portforward/{namespace}/{pod}/{uid}", self._port_forward)
        app.on_shutdown.append(self._end_all)

    async def _end_all(self, app: web.Application) -> None:
        for session in self._sessions:
            session.cancel()

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        records, run = self._running(request)
        options, owner = _options(request), owner_of(run.pid)
        run_dir = records.run_dir(run.uid, run.container, run.attempt)
        return await self._session(
            request, COMMAND_PROTOCOLS, lambda channels, _: _command(channels, run_dir, options, owner)
        )

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        records, run = self._running(request)
        options, run_dir = _options(request), records.run_dir(run.uid, run.container, run.attempt)

        def is_over() -> bool:
            return records.exit_record(run.uid, run.container, run.attempt) is not None or not is_alive(
                run.shim, run.shim_started
            )

        return await self._session(
            request, COMMAND_PROTOCOLS, lambda channels, _: run_attach(channels, run_dir, options, is_over)
        )

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        records = self._known_pod(request)
        ports = PodPorts(records, request.match_info["uid"])
        numbers = tuple(int(word) for word in request.query.getall("ports", []) if word.isdigit())

        def forward(channels: Channels, protocol: str) -> Awaitable[None]:
            by_spdy = protocol == SPDY
            return (PortForward(channels, ports) if by_spdy else PortChannels(channels, ports, numbers)).run()

        return await self._session(request, PORT_PROTOCOLS, forward)

    async def _session(
        self,
        request: web.Request,
        served: tuple[str, ...],
        run: Callable[[Channels, str], Awaitable[None]],
    ) -> web.StreamResponse:
        protocol = request.headers.get("Sec-WebSocket-Protocol", "")
        if protocol not in served:
            raise web.HTTPBadRequest(text=f"protocol {protocol!r} is not spoken here")
        if len(self._sessions) >= SESSIONS_MAX:
            raise web.HTTPTooManyRequests(text=f"this node has {SESSIONS_MAX} connections into its pods")
        socket = websocket(protocol)
        await socket.prepare(request)
        if served is COMMAND_PROTOCOLS:
            await asyncio.sleep(KUBECTL_OPENS_STREAMS_S)
        channels = Channels(socket)
        session = asyncio.ensure_future(_run(run(channels, protocol)))
        self._sessions.add(session)
        try:
            await asyncio.wait((session,))
        finally:  # Also when the endpoint is closed.
            session.cancel()
            self._sessions.discard(session)
            await channels.close(code=_close_code(session))
        return socket

    # Finding.

    def _known_pod(self, request: web.Request) -> Records:
        if self._records is None:
            raise web.HTTPBadRequest(text=NO_PROGRAMS)
        if self._records.pod(request.match_info["uid"]) is None:
            # Not 404, which is the answer of an agent that does not have the path.
            raise web.HTTPGone(text=f"pod {request.match_info['pod']} is not on this node")
        return self._records

    def _running(self, request: web.Request) -> tuple[Records, RunRecord]:
        records = self._known_pod(request)
        uid, container = request.match_info["uid"], request.match_info["container"]
        attempts = records.attempts(uid, container)
        run = records.run_record(uid, container, attempts[-1]) if attempts else None
        if run is None or not is_alive(run.shim, run.shim_started) or not is_alive(run.pid, run.pid_started):
            text = f"container {container} of pod {request.match_info['pod']} is not running"
            raise web.HTTPBadRequest(text=text)
        return records, run


async def _command(channels: Channels, run_dir: Path, options: ExecOptions, owner: int) -> None:
    await channels.send(STDOUT, b"")  # As kubelet does: tells the client that it is connected.
    await run_exec(channels, run_dir, options, owner)


def _close_code(session: asyncio.Task[None]) -> int:
    """A client must not take a session that failed for one that succeeded."""
    if not session.done() or session.cancelled():
        return WSCloseCode.GOING_AWAY
    if (error := session.exception()) is None:
        return WSCloseCode.OK
    report = {"message": "a connection into a pod failed", "exception": error, "task": session}
    session.get_loop().call_exception_handler(report)
    return WSCloseCode.INTERNAL_ERROR


async def _run(session: Awaitable[None]) -> None:
    with contextlib.suppress(ConnectionError):  # The client is gone.
        await session


def _options(request: web.Request) -> ExecOptions:
    query = request.query
    flags = {flag: query.get(flag) == "true" for flag in ("stdin", "stdout", "stderr", "tty")}
    return ExecOptions(command=tuple(query.getall("command", [])), **flags)
