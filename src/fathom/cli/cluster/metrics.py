"""Metrics of a control plane process: its registry, its endpoint, and the EndpointSlice that publishes it.

async with measured("gateway", ("gateway",), server, address=…, where=…, log=log, journal=…) as registry:
    await run_gateway(…, metrics=registry.part("gateway"))
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fathom import __version__
from fathom.cli.problem import Problem
from fathom.client.http import ServerAddress
from fathom.client.once import api_of
from fathom.control.decision_log import DecisionLog
from fathom.endpoint.publish import Published, keep_published
from fathom.endpoint.server import NotMeasurable, ProcessEndpoint, make_pair, tls_of
from fathom.metrics.process import process_metrics
from fathom.metrics.registry import Registry
from fathom.model.decision import Journal
from fathom.seams.log import Log
from fathom.seams.outside import live
from fathom.stopping import restarts
from fathom.traces.queue import SpanQueue


@asynccontextmanager
async def measured(
    process: str,
    parts: tuple[str, ...],
    server: ServerAddress,
    *,
    address: str,
    where: str,
    log: Log,
    journal: Journal,
    traces: SpanQueue | None = None,
) -> AsyncIterator[Registry]:
    """The process's registry. The endpoint starts in the background and never delays the process. `journal`:
    of the process's first part, whose account publishes the endpoint. Raises Problem for an address that
    cannot be listened on."""
    registry = Registry()
    registry.register("process", process_metrics(restarts=restarts(), version=__version__))
    if traces is not None:
        registry.register("traces", traces.collect)
    if not address:
        yield registry
        return
    listener = _listener(address)
    wanted = Published(
        process=process,
        parts=parts,
        where=f"{socket.gethostname()} {where}",
        address=listener.getsockname()[0],
        port=listener.getsockname()[1],
        certificate="",
    )
    endpoint = ProcessEndpoint(registry, process)
    serving = asyncio.create_task(_serve(endpoint, listener, wanted, server, log, journal))
    try:
        yield registry
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await endpoint.close()
        listener.close()


async def _serve(  # noqa: PLR0917
    endpoint: ProcessEndpoint,
    listener: socket.socket,
    wanted: Published,
    server: ServerAddress,
    log: Log,
    journal: Journal,
) -> None:
    try:
        pair = await make_pair(f"system:fathom:{wanted.process}", wanted.address)
        await endpoint.listen(listener, tls_of(pair, server.tls))
    except (NotMeasurable, OSError) as error:
        log.warn("metrics are not served", process=wanted.process, error=str(error))
        return
    published = Published(
        process=wanted.process,
        parts=wanted.parts,
        where=wanted.where,
        address=wanted.address,
        port=wanted.port,
        certificate=pair.certificate,
    )
    outside, actor = live(), f"{wanted.parts[0]}/endpoint"
    decisions = DecisionLog(journal, prefix=outside.ids.uid()[:8], controller=actor, clock=outside.clock)
    async with api_of(server) as api:
        await keep_published(api.with_actor(actor), published, log, decisions)


def _listener(address: str) -> socket.socket:
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise Problem(f"--metrics-address must read HOST:PORT, not {address!r}")
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, int(port)))
    except OSError as error:
        listener.close()
        raise Problem(f"--metrics-address {address}: {error.strerror or error}") from error
    return listener
