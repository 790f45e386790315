"""A real API server on a socket, a real `fathom mcp` process, and a client of the protocol's SDK."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Implementation, TextContent
from tests.api.harness import Api
from tests.ask.processes import AskedProcess
from tests.ask.test_decisions import asked
from tests.cli.asking import kubeconfig, listening
from tests.cli.steering import Person

from fathom.api.http import Http

Obj = dict[str, Any]

OWN = "/apis/fathom.dev/v1alpha1/namespaces/default"
PAUSE: Obj = {
    "name": "pause",
    "target": "workload/web",
    "scope": "cluster",
    "reason": "the metrics are wrong",
    "expires_after": "10m",
    "changes": {"pauseExpansion": True},
}
ASSISTANT = Implementation(name="probe", version="1.0")
CALL_S = 90


class Place:
    """Where people and assistants meet the API server."""

    def __init__(self, api: Api, scheduler: AskedProcess, url: str, directory: Path) -> None:
        self.api, self.scheduler = api, scheduler
        self._url, self._directory = url, directory

    def person(self, token: str) -> Person:
        return Person(self._url, self._directory, token)

    @asynccontextmanager
    async def over_stdio(self, token: str, *flags: str, mode: str = "legacy") -> AsyncIterator[Client]:
        config = self.person(token).kubeconfig
        words = ["-m", "fathom.cli", "mcp", *flags, "--kubeconfig", str(config)]
        process = stdio_client(StdioServerParameters(command=sys.executable, args=words))
        async with Client(process, mode=mode, client_info=ASSISTANT, read_timeout_seconds=CALL_S) as client:
            yield client

    @asynccontextmanager
    async def over_http(self, *flags: str) -> AsyncIterator[str]:
        """The address of the server, whose own credentials are those of an administrator."""
        config = self._directory / "kubeconfig-of-the-server"
        config.write_text(json.dumps(kubeconfig(self._url)))
        words = ["-m", "fathom.cli", "mcp", "--http", "0", *flags, "--kubeconfig", str(config)]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stderr is not None
            line = (await asyncio.wait_for(process.stderr.readline(), CALL_S)).decode()
            found = re.search(r"answers at (https?://\S+/mcp)", line)
            assert found is not None, line
            yield found.group(1)
        finally:
            process.terminate()
            await asyncio.wait_for(process.wait(), CALL_S)


@asynccontextmanager
async def client_of(url: str, token: str, *, mode: str = "legacy") -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=CALL_S) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, client_info=ASSISTANT, read_timeout_seconds=CALL_S) as client:
            yield client


Story = Callable[[Place], Awaitable[None]]


def told(story: Story, directory: Path) -> None:
    async def main(api: Api, scheduler: AskedProcess) -> None:
        http = Http(api.parts.server, keep_alive_s=60)
        async with listening(http.connection) as url:
            try:
                await story(Place(api, scheduler, url, directory))
            finally:
                await http.stop(patience_s=1)

    asked(main, directory)


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def data_of(result: CallToolResult) -> list[str]:
    """The lines between the two marks, which must be the same word."""
    lines = text_of(result).split("\n")
    marks = [
        at
        for at, line in enumerate(lines)
        if re.fullmatch(r"<<<(end of )?cluster data [0-9a-f]{32}>>>", line)
    ]
    begin, end = marks[0], marks[-1]
    assert len(marks) == 2
    assert lines[begin].split()[-1] == lines[end].split()[-1]
    return lines[begin + 1 : end]


def refusal_of(result: CallToolResult) -> str:
    assert result.is_error is True, text_of(result)
    (line,) = data_of(result)
    return line
