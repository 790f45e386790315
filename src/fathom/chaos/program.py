"""The program under test: started in a process group of its own, killed, stopped, paused, started again.

A program that ends is started again after RESTART_S, as a Deployment would. Its output goes to a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

RESTART_S = 1.0
LAST_LINES = 15


class ProgramNotStarted(Exception):
    """One line for the person who wrote the command, and the last lines that the program wrote."""

    def __init__(self, message: str, last_lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.last_lines = tuple(last_lines)


class Program:
    def __init__(
        self, command: Sequence[str], variables: Mapping[str, str], output: Path, tell: Callable[[str], None]
    ) -> None:
        self.command = command
        self.output = output
        self.starts = 0
        self.ends: list[int] = []  # Exit codes of the times when it ended by itself.
        self._variables = variables
        self._tell = tell
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._wanted = False  # Whether it should run now. While it is killed, it should not.
        self._held = asyncio.Event()
        self._held.set()

    async def begin(self) -> None:
        """Raises ProgramNotStarted."""
        self._wanted = True
        await self._start()
        self._keeper = asyncio.create_task(self._keep())

    async def _start(self) -> None:
        self.starts += 1
        with self.output.open("ab") as output:
            if self.starts > 1:
                output.write(f"--- start {self.starts} ---\n".encode())
                output.flush()
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    env={**os.environ, **self._variables},
                )
            except OSError as error:
                raise ProgramNotStarted(
                    f"cannot run {self.command[0]}: {error.strerror}; name an executable file after --"
                ) from error
        if self.starts > 1:
            self._tell("starts")

    async def _keep(self) -> None:
        while True:
            assert self._process is not None
            code = await self._process.wait()
            if self._wanted:
                self.ends.append(code)
                self._tell(f"ends by itself, {exit_words(code)}")
                self._signal(signal.SIGKILL)  # What it may have left in its group.
                await asyncio.sleep(RESTART_S)
            await self._held.wait()
            self._wanted = True
            await self._start()

    async def kill(self, for_s: float) -> None:
        """SIGKILL, for the whole group; it starts again after `for_s`."""
        await self._out_for(signal.SIGKILL, for_s, grace_s=0.0)

    async def ask_to_stop(self, for_s: float) -> None:
        """SIGTERM; after `for_s` it is killed, and starts again."""
        await self._out_for(signal.SIGTERM, 0.0, grace_s=for_s)

    async def _out_for(self, number: signal.Signals, for_s: float, *, grace_s: float) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._wanted = False
        self._held.clear()
        try:
            self._signal(signal.SIGCONT)
            self._signal(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace_s or None)
            self._signal(signal.SIGKILL)
            await asyncio.sleep(for_s)
        finally:  # Also when the faults are over before.
            self._signal(signal.SIGKILL)
            self._held.set()

    async def pause(self, for_s: float) -> None:
        self._signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(for_s)
        finally:
            self._signal(signal.SIGCONT)

    async def end(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        """Its process group is its own: start_new_session made it, with the process's id."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def last_lines(self) -> list[str]:
        if not self.output.exists():
            return []
        with self.output.open("rb") as file:
            file.seek(max(0, self.output.stat().st_size - (16 << 10)))
            return file.read().decode("utf-8", "replace").splitlines()[-LAST_LINES:]


def exit_words(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
