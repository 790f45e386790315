"""Run probes and hooks against real containers: exec, httpGet, tcpSocket."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec

from fathom.agent.exec_in_container import SOCKET
from fathom.agent.host.records import RunRecord
from fathom.agent.host.sockets import SocketVerdict, family, listeners, sockets_of, whose
from fathom.agent.runtime import ProbeResult
from fathom.model.objects import Obj, lookup

OUTPUT_BYTES_MAX = 10 * 1024
BODY_BYTES_MAX = 10 * 1024
REDIRECTS, REDIRECTS_MAX = frozenset({301, 302, 303, 307, 308}), 10
DRAIN_S = 0.2
ENDED = 137  # Exit code of a command that ended with its container.


class HostProber:
    """Make it on the host's loop."""

    def __init__(self, run_dir: Callable[[str, str, int], Path]) -> None:
        self._run_dir = run_dir  # By pod UID, container and attempt.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=False, limit=0, force_close=True),
            headers={"User-Agent": "kube-probe/1.33", "Accept": "*/*"},
        )

    async def close(self) -> None:
        await self._session.close()

    async def probe(self, record: RunRecord, pod: Obj, probe: Obj, ip: str) -> ProbeResult:
        seconds = float(probe.get("timeoutSeconds") or 1)
        try:
            async with asyncio.timeout(seconds):
                return await self._probe(record, pod, probe, ip)
        except TimeoutError:
            return ProbeResult(False, f"timed out after {seconds:g} s")

    async def _probe(self, record: RunRecord, pod: Obj, probe: Obj, ip: str) -> ProbeResult:
        if command := lookup(probe, "exec", "command"):
            return await self._exec(record, [str(word) for word in command])
        if action := probe.get("httpGet"):
            port = port_number(action.get("port"), pod, record.container)
            return await self._checked(
                record, action, ip, port, self._call_hook if probe.get("hook") else self._get
            )
        if action := probe.get("tcpSocket"):
            port = port_number(action.get("port"), pod, record.container)
            return await self._checked(record, action, ip, port, self._connect)
        if probe.get("grpc"):
            return ProbeResult(
                False, "gRPC probes are not supported by this agent: use httpGet, tcpSocket or exec"
            )
        return ProbeResult(False, "missing handler: use httpGet, tcpSocket or exec")

    async def _checked(
        self, record: RunRecord, action: Obj, ip: str, port: int | None, try_: object
    ) -> ProbeResult:
        """First check that the pod itself listens there, then try."""
        if port is None:
            return ProbeResult(
                False, f'container {record.container} has no port named "{action.get("port")}"'
            )
        host = str(action.get("host") or ip)
        verdict = SocketVerdict(True)
        if host == ip:
            verdict = _whose(ip, port, record)
            if not verdict.ours:
                return ProbeResult(False, verdict.message)
        probed: ProbeResult = await try_(action, host, port)  # type: ignore[operator]  # one of those below
        return ProbeResult(probed.ok, probed.message, verdict.note)

    async def _call_hook(self, action: Obj, host: str, port: int) -> ProbeResult:
        """Call a hook: any HTTP status is a success, as with kubelet."""
        status = await self._answer(action, host, port)
        return ProbeResult(True) if isinstance(status, int) else ProbeResult(False, status)

    async def _get(self, action: Obj, host: str, port: int) -> ProbeResult:
        status = await self._answer(action, host, port)
        if isinstance(status, str):
            return ProbeResult(False, status)
        if 200 <= status < 400:
            return ProbeResult(True)
        return ProbeResult(False, f"HTTP probe failed with statuscode: {status}")

    async def _answer(self, action: Obj, host: str, port: int) -> int | str:
        """The HTTP status, or why there is none. Redirects are followed, but not to another host: as in
        kubelet, such a redirect is the answer."""
        scheme = str(action.get("scheme") or "HTTP").lower()
        path = str(action.get("path") or "/")
        url = f"{scheme}://{host}:{port}{path if path.startswith('/') else '/' + path}"
        headers = [
            (str(header["name"]), str(header.get("value") or ""))
            for header in action.get("httpHeaders") or ()
        ]
        try:
            for _ in range(REDIRECTS_MAX + 1):
                async with self._session.get(url, headers=headers, allow_redirects=False) as response:
                    await response.content.read(BODY_BYTES_MAX)
                onward = response.headers.get("Location") if response.status in REDIRECTS else None
                target = urljoin(url, onward) if onward else ""
                if not target or urlsplit(target).hostname != urlsplit(url).hostname:
                    return response.status
                url = target
            return f'Get "{url}": stopped after {REDIRECTS_MAX} redirects'
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return f'Get "{url}": {error or type(error).__name__}'

    async def _connect(self, action: Obj, host: str, port: int) -> ProbeResult:
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError as error:
            return ProbeResult(False, f"dial tcp {host}:{port}: {error.strerror or error}")
        writer.close()
        return ProbeResult(True)

    async def _exec(self, record: RunRecord, command: list[str]) -> ProbeResult:
        run_dir = self._run_dir(record.uid, record.container, record.attempt)
        output = bytearray()
        try:
            code = await run_in_container(run_dir, command, output)
        except OSError as error:
            return ProbeResult(False, f"failed to exec in container: {error.strerror or error}")
        text = bytes(output).decode("utf-8", "replace").strip()
        return ProbeResult(
            code == 0, "" if code == 0 else text or f"command terminated with exit code {code}"
        )


async def run_in_container(run_dir: Path, command: list[str], output: bytearray) -> int:
    """Run a command; its exit code. See `exec_in_container`. It is killed when we stop waiting. Raises
    OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.setblocking(False)
        directory_fd = os.open(run_dir, os.O_PATH | os.O_DIRECTORY)
        try:
            link.connect(f"/proc/self/fd/{directory_fd}/{SOCKET}")
        finally:
            os.close(directory_fd)
        async with _reading(output) as writing:
            request = msgspec.json.encode(command)
            try:
                socket.send_fds(link, [len(request).to_bytes(4, "big")], [writing])
            finally:
                os.close(writing)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(link, request)
            code = await loop.sock_recv(link, 4)
    return int.from_bytes(code, "big") if code else ENDED


@asynccontextmanager
async def _reading(output: bytearray) -> AsyncIterator[int]:
    """A pipe whose content goes into `output`. Processes that a command left behind may hold it open."""
    reading, writing = os.pipe()
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb", 0)
    )
    read = asyncio.ensure_future(read_output(stream, output))
    try:
        yield writing
        await asyncio.wait((read,), timeout=DRAIN_S)
    finally:
        read.cancel()
        transport.close()


async def read_output(stream: asyncio.StreamReader, into: bytearray) -> None:
    """Read everything, so that the command never blocks; the beginning is kept."""
    while piece := await stream.read(OUTPUT_BYTES_MAX):
        into += piece[: OUTPUT_BYTES_MAX - len(into)]


def _whose(ip: str, port: int, record: RunRecord) -> SocketVerdict:
    """Usually the container's first process listens itself; only otherwise all its processes are searched."""
    owners = listeners(port)
    verdict = whose(ip, port, owners, sockets_of([record.pid]))
    return verdict if verdict.ours or not owners else whose(ip, port, owners, sockets_of(family(record.shim)))


def port_number(port: object, pod: Obj, container: str) -> int | None:
    """A number, or the name of one of the container's ports."""
    if isinstance(port, int):
        return port
    if isinstance(port, str) and port.isdigit():
        return int(port)
    for field in ("containers", "initContainers"):
        for spec in lookup(pod, "spec", field) or ():
            if spec.get("name") == container:
                named = (p for p in spec.get("ports") or () if p.get("name") == port)
                return next((int(p["containerPort"]) for p in named), None)
    return None
