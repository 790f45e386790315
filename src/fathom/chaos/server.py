"""The API server of a run: a process of its own, which can be killed and started again on the same port."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path

from fathom.stopping import SUPERVISOR
from fathom.supervise import READY, python

HOST = "127.0.0.1"
READY_S = 60.0
STOP_S = 5.0


class ServerNotStarted(Exception):
    """The message is the last line of its log."""


class ApiServer:
    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self.up = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    async def start(self) -> None:
        """Returns when it is ready. Raises ServerNotStarted."""
        with (self.data / "api.log").open("ab") as log:
            self._process = process = await asyncio.create_subprocess_exec(
                *python("serve", "api", "--data", str(self.data), "--host", HOST, "--port", str(self.port)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us: we stop it.
                env={**os.environ, SUPERVISOR: str(os.getpid())},
            )
        self._reader = asyncio.create_task(self._read(process))
        ready, ended = asyncio.create_task(self.up.wait()), asyncio.create_task(process.wait())
        await asyncio.wait((ready, ended), timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        ended.cancel()
        if not self.up.is_set():
            raise ServerNotStarted(self._last_line() or f"the API server was not ready within {READY_S:g} s")

    async def kill(self) -> None:
        self.up.clear()
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def stop(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), STOP_S)
        await self.kill()
        if self._reader is not None:
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if line.rstrip() == READY:
                self.up.set()

    def _last_line(self) -> str:
        lines = (self.data / "api.log").read_text(errors="replace").splitlines()
        return lines[-1].removeprefix("fathom: error: ") if lines else ""


def free_port() -> int:
    """Any free port, chosen once: a server that is started again keeps it."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
