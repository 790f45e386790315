"""The HTTPS endpoint of one process, for the API server alone.

    GET /metrics                     its metrics, for Prometheus
    GET /records /state              its decisions, and its state: see `record_pages`
    GET /healthz /livez /readyz      whether its loop still turns

It accepts only a client whose certificate, signed by the cluster's CA, names the API server: pods share the
machine's network. Other clients ask the API server, which authenticates and authorizes them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys

import msgspec
from aiohttp import web

from fathom.api_server_only import only_the_api_server
from fathom.client.credentials import private_file
from fathom.metrics.registry import CONTENT_TYPE, Registry
from fathom.record_pages import RecordPages
from fathom.serving_certificate import Pair

STOP_S = 1.0
CERTIFICATE_S = 60.0  # To make a certificate: a machine may be very busy while a cluster starts.
AUTHORITIES_MAX = 8  # More is the system's CA list: the kubeconfig names no CA of the cluster.


class NotMeasurable(Exception):
    """The process cannot serve metrics; the message says why."""


class ProcessEndpoint:
    def __init__(self, registry: Registry, process: str = "") -> None:
        self._registry = registry
        app = web.Application(middlewares=[only_the_api_server])
        app.router.add_get("/metrics", self._metrics)
        RecordPages(registry, process).add_to(app, index_ahead=True)
        for path in ("/healthz", "/livez", "/readyz"):
            app.router.add_get(path, _ok)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_S)

    async def listen(self, listener: socket.socket, tls: ssl.SSLContext) -> None:
        await self._runner.setup()
        await web.SockSite(self._runner, listener, ssl_context=tls).start()

    async def close(self) -> None:
        await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._registry.exposition(), headers={"content-type": CONTENT_TYPE})


async def _ok(request: web.Request) -> web.Response:
    """Served on the process's own loop: a process that hangs does not answer."""
    return web.Response(text="ok")


def tls_of(pair: Pair, client: ssl.SSLContext) -> ssl.SSLContext:
    """A server context that trusts the CA which the process itself trusts as a client: the cluster's.
    Raises NotMeasurable."""
    authorities = client.get_ca_certs(binary_form=True)
    if not 0 < len(authorities) <= AUTHORITIES_MAX:
        raise NotMeasurable("the kubeconfig names no CA of the cluster")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with private_file((pair.key + pair.certificate).encode()) as file:
        context.load_cert_chain(file)
    context.verify_mode = ssl.CERT_REQUIRED
    for authority in authorities:
        context.load_verify_locations(cadata=authority)
    return context


async def make_pair(name: str, address: str) -> Pair:
    """In a process of its own: see `serving_certificate`. Raises NotMeasurable."""
    command = (sys.executable, "-P", "-m", "fathom.serving_certificate", name, address)
    making = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(CERTIFICATE_S):
            out, _ = await making.communicate()
        return msgspec.json.decode(out, type=Pair)
    except (TimeoutError, msgspec.DecodeError) as error:
        raise NotMeasurable("could not create a serving certificate") from error
    finally:
        if making.returncode is None:
            making.kill()
