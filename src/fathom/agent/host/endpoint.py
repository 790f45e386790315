"""The agent's HTTPS endpoint: logs, usage and metrics for the API server, with mutual TLS.

    GET /containerLogs/NAMESPACE/POD/UID/CONTAINER?follow=…      as in kubelet, except the UID
    GET /exec/… /attach/… /portforward/…                          WebSockets into pods: see `connect`
    GET /usage                                                    CPU and memory of the node's containers
    GET /metrics                                                  the agent's metrics, for Prometheus
    GET /records /state                                           its decisions and state: see `record_pages`
    GET /healthz                                                  whether the agent answers

The agent's own certificate is made anew at each start and published in its Node object, which no other agent
may write; so a reader of the Node knows which certificate to trust. In turn the agent accepts only a client
whose certificate, signed by the cluster's CA, names the API server.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec
from aiohttp import web

from fathom import private_files
from fathom.agent.host.connect import ConnectEndpoint
from fathom.agent.host.logs import LogOptions, read_log
from fathom.agent.host.records import Records, is_alive
from fathom.agent.usage import NodeUsage
from fathom.api_server_only import only_the_api_server
from fathom.metrics.registry import CONTENT_TYPE, Registry
from fathom.record_pages import RecordPages
from fathom.seams.outside import SystemClock
from fathom.serving_certificate import self_signed

STOP_S = 1.0


class Own(msgspec.Struct, frozen=True):
    """This endpoint's own certificate and key."""

    certificate: str  # PEM
    file: Path  # With its key.


def make_certificate(node: str, address: str, directory: Path) -> Own:
    pair = self_signed(f"system:node:{node}", address, now_ns=SystemClock().now_ns())
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = directory / "endpoint.pem"
    private_files.write(file, (pair.key + pair.certificate).encode())
    return Own(pair.certificate, file)


def tls_context(own: Own, authority: bytes) -> ssl.SSLContext:
    """`authority`: the cluster's CA as PEM, from the agent's own kubeconfig."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(own.file)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.decode())
    return context


class AgentEndpoint:
    """The endpoint of one node. Make it on the host's loop."""

    def __init__(
        self,
        records: Records | None,
        usage: Callable[[], NodeUsage],
        metrics: Registry | None = None,
        node: str = "",
    ) -> None:
        self._records = records
        self._usage = usage
        self._metrics = metrics or Registry()
        app = web.Application(middlewares=[only_the_api_server])
        app.router.add_get("/containerLogs/{namespace}/{pod}/{uid}/{container}", self._logs)
        app.router.add_get("/usage", self._used)
        app.router.add_get("/metrics", self._measured)
        app.router.add_get("/healthz", self._healthz)
        ConnectEndpoint(records).add_to(app)
        RecordPages(self._metrics, f"agent of {node}").add_to(app)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_S)

    async def listen(self, address: str, port: int, tls: ssl.SSLContext) -> int:
        """Listen; return the port."""
        listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        listener.bind((address, port))
        await self._runner.setup()
        await web.SockSite(self._runner, listener, ssl_context=tls).start()
        return int(listener.getsockname()[1])

    async def close(self) -> None:
        await self._runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        """Served on the agent's own loop: an agent that hangs does not answer."""
        return web.Response(text="ok")

    async def _measured(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.exposition(), headers={"content-type": CONTENT_TYPE})

    async def _used(self, request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(self._usage()), content_type="application/json")

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        uid, container = request.match_info["uid"], request.match_info["container"]
        options = msgspec.convert(dict(request.query), LogOptions, strict=False)
        if self._records is None:
            text = "simulated containers have no logs\n"
            return web.Response(text=text)
        attempts = self._records.attempts(uid, container)
        if options.previous:
            attempts = attempts[:-1]
        if not attempts:
            which = "previous terminated container" if options.previous else "container"
            pod = request.match_info["pod"]
            return web.Response(status=400, text=f'{which} "{container}" in pod "{pod}" not found')
        attempt = attempts[-1]
        response = web.StreamResponse(headers={"content-type": "text/plain"})
        await response.prepare(request)
        is_over = self._over(uid, container, attempt)
        async for chunk in read_log(self._records.run_dir(uid, container, attempt), options, is_over):
            await response.write(chunk)
        return response

    def _over(self, uid: str, container: str, attempt: int) -> Callable[[], bool]:
        records = self._records
        assert records is not None
        record = records.run_record(uid, container, attempt)

        def is_over() -> bool:
            ended = records.exit_record(uid, container, attempt) is not None
            return ended or record is None or not is_alive(record.shim, record.shim_started)

        return is_over
