"""`fathom port-forward`: reach ports of a pod from this machine."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import aiohttp
import msgspec
from cyclopts import Parameter

from fathom.cli.api_server import ServerConnection
from fathom.cli.objects.answers import done
from fathom.cli.objects.logs import pods_named
from fathom.cli.objects.options import one_object
from fathom.cli.objects.resources import Resources
from fathom.cli.objects.websocket import PodConnections
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import Problem
from fathom.terminal import say

PROTOCOL = "portforward.k8s.io"
READ_BYTES = 64 << 10

Obj = dict[str, Any]


class PortPair(msgspec.Struct, frozen=True):
    local: int  # 0: any that is free.
    remote: int


def port_forward(
    what: Annotated[
        str, Parameter(name="POD|KIND/NAME", help="A pod, or what owns pods: web-1; service/web")
    ],
    /,
    *ports: Annotated[
        str,
        Parameter(name="[LOCAL:]REMOTE", help="Ports: 8080; 8888:80; :80 for any local port that is free."),
    ],
    address: Annotated[str, Parameter(help="Local address to listen on.")] = "127.0.0.1",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
) -> int:
    """Listen on local ports, and carry each connection to a port of the pod, until Ctrl-C.

    Prints the ports, each connection, and what goes wrong with one.

    fathom port-forward web-1 8080
    fathom port-forward service/web 8888:80
    """
    if not ports:
        raise Problem("name a port, for example 8080, or 8888:80")
    at, config = chosen_namespace(namespace, kubeconfig), found_kubeconfig(kubeconfig)
    server = ServerConnection(config)
    pod = pods_named(server, (what,), at, "")[0]
    pairs = [pair_of(word) for word in ports]
    if "/" in what:
        resource, name = one_object((what,), Resources(server), "service/web")
        if resource.kind == "Service":
            path = resource.path(at, name)
            service = done(*server.request("GET", path), path)
            pairs = [PortPair(pair.local, target_port(service, pod, pair.remote)) for pair in pairs]
    connections = PodConnections(config, at, str(pod["metadata"]["name"]))
    return asyncio.run(_serve(connections, pairs, address))


def pair_of(word: str) -> PortPair:
    """Raises Problem."""
    local, colon, remote = word.rpartition(":")
    numbers = [local if colon else remote, remote]
    if all(each.isascii() and each.isdigit() and int(each) < 65536 for each in numbers if each) and remote:
        pair = PortPair(int(numbers[0] or 0), int(remote))
        if pair.remote:
            return pair
    raise Problem(f"ports read 8080, 8888:80 or :80, not {word!r}")


def target_port(service: Obj, pod: Obj, port: int) -> int:
    """The pod's port for one of the Service. Raises Problem."""
    listed = (service.get("spec") or {}).get("ports") or []
    for each in listed:
        if each.get("port") == port:
            target = each.get("targetPort") or port
            return target if isinstance(target, int) else _named_port(pod, str(target))
    has = ", ".join(str(each.get("port")) for each in listed)
    raise Problem(f"service {service['metadata']['name']} has no port {port}; it has {has}")


def _named_port(pod: Obj, name: str) -> int:
    for container in (pod.get("spec") or {}).get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == name:
                return int(port["containerPort"])
    raise Problem(f"pod {pod['metadata']['name']} has no port named {name!r}")


async def _serve(connections: PodConnections, pairs: Sequence[PortPair], address: str) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # Asked once before anybody connects: who may not, or has the wrong pod, learns it now.
    async with connections.open("portforward", [("ports", str(pairs[0].remote))], PROTOCOL):
        pass
    async with contextlib.AsyncExitStack() as servers:
        for pair in pairs:
            await servers.enter_async_context(await _listen(connections, pair, address))
        await stop.wait()
    return 0


async def _listen(connections: PodConnections, pair: PortPair, address: str) -> asyncio.Server:
    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _tell(f"Handling connection for {local}")
        try:
            await _carry(connections, pair.remote, reader, writer)
        except Problem as problem:
            say(f"fathom: error: {problem}", err=True, style="red")
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(carry, address, pair.local)
    except OSError as error:
        raise Problem(f"cannot listen on {address}:{pair.local}: {error.strerror or error}") from None
    local = server.sockets[0].getsockname()[1]
    _tell(f"Forwarding from {address}:{local} -> {pair.remote}")
    return server


def _tell(line: str) -> None:
    """At once, also to a pipe: somebody waits for it."""
    say(line)
    sys.stdout.flush()


async def _carry(
    connections: PodConnections, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One local connection: its bytes are channel 0, what goes wrong is channel 1."""
    async with connections.open("portforward", [("ports", str(port))], PROTOCOL) as websocket:
        sending = asyncio.ensure_future(_send(websocket, reader))
        try:
            await _receive(websocket, writer)
        finally:
            sending.cancel()


async def _send(websocket: aiohttp.ClientWebSocketResponse, reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(READ_BYTES):
            await websocket.send_bytes(b"\0" + data)
        await websocket.send_bytes(b"\xff\0")


async def _receive(websocket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """The first message of each channel is its port. Raises Problem."""
    named: set[int] = set()
    async for message in websocket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel not in named:
            named.add(channel)
        elif channel == 1:
            raise Problem(data.decode("utf-8", "replace"))
        else:
            writer.write(data)
            try:
                await writer.drain()
            except ConnectionError:
                return
