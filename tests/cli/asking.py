"""Commands that ask: a real API server on a socket, a scheduler that it can ask, and `fathom` as another
process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.api.harness import ADMIN, Api
from tests.ask.processes import AskedProcess
from tests.ask.test_decisions import asked
from tests.explain.builders import container

from fathom.api.http import Http

Obj = dict[str, Any]
Fathom = Callable[..., Awaitable[tuple[int, str, str]]]
Dialogue = Callable[[Api, AskedProcess, Fathom], Awaitable[None]]

PODS = "/api/v1/namespaces/default/pods"


def told(dialogue: Dialogue, data: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        http = Http(api.parts.server, keep_alive_s=60)
        async with listening(http.connection) as url:
            try:
                await dialogue(api, scheduler, commands_of(url, data))
            finally:
                await http.stop(patience_s=1)

    asked(story, data)


@asynccontextmanager
async def listening(protocol: Callable[[], asyncio.BaseProtocol]) -> AsyncIterator[str]:
    """The address of the server."""
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()


def commands_of(url: str, directory: Path) -> Fathom:
    """Runs a command: its exit code, and what it wrote."""
    config = directory / "kubeconfig-of-commands"
    config.write_text(json.dumps(kubeconfig(url)))

    async def fathom(*words: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "fathom.cli", *words, "--kubeconfig", str(config)]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode or 0, out.decode(), err.decode()

    return fathom


def kubeconfig(url: str) -> Obj:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": ADMIN}}],
    }


def node(name: str, cpu: str) -> Obj:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "status": {"allocatable": room}}


def pod(name: str, cpu: str) -> Obj:
    spec = {"containers": [container(cpu=cpu)]}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}
