"""The supervisor behind `fathom up`: starts parts in order, restarts those that exit, stops them in order.

    api ──"ready"──> deciders, agents, gateway ──all nodes ready──> "ready" ──Ctrl-C──> the same, backwards

Parts are separate processes, so that they share no GIL and none takes another down. Their logs go to
DIR/logs. A part whose supervisor is gone ends by itself; all parts hold one lock together, and the next
`fathom up` waits until the last part has released it. Pods are not children of these processes: they survive,
and the next agent adopts them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TextIO

import msgspec

from fathom import private_files
from fathom.kept_sockets import VARIABLE as KEPT_SOCKETS
from fathom.kept_sockets import SocketKeeper
from fathom.model.backoff import Backoff
from fathom.stopping import LOCK, RESTARTS, SUPERVISOR, stop_event
from fathom.terminal import visible

RESTART = Backoff(0.1, 30.0)
STEADY_S = 10.0  # A part that ran so long counts as ready, even without the line.
STOP_S = 15.0  # Longer than a part takes to finish its running work.
READY_S = 30.0  # For the nodes to become ready; then a warning says how many are.
LOCK_S = 10.0  # Time in which parts notice that their supervisor was killed.
LOG_BYTES_MAX = 16 << 20
LINE_BYTES_MAX = 4 << 20
LAST_LINES = 20
READY = b"ready"  # The line that a part prints when it is ready.


class Part(msgspec.Struct, frozen=True):
    name: str
    command: tuple[str, ...]
    keeps_sockets: bool = False  # Its listening sockets outlive it: see `kept_sockets`.


class PartNotStarted(Exception):
    """A part ended before it was ready; the message is the last line of its log."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Busy(Exception):
    """Another fathom runs on the same data directory."""


def restart_pause_s(failures: int) -> float:
    """The pause before the next start, after so many short runs in a row."""
    return RESTART.whole_s(failures)


def _appending(file: Path) -> IO[bytes]:
    return os.fdopen(private_files.open_to_append(file), "ab", buffering=0)


def short_lives(before: int, *, was_ready: bool, lived_s: float) -> int:
    """How many runs in a row, including the one that just ended, ended before the part was of use. A part
    that was ready did not fail at its start: it counts as the first."""
    return 1 if was_ready or lived_s >= STEADY_S else before + 1


class LogFile:
    """The log of one part, of bounded size: the current file and the one before."""

    def __init__(self, file: Path, bytes_max: int = LOG_BYTES_MAX) -> None:
        self._file = file
        self._bytes_max = bytes_max
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._out = _appending(file)  # Unbuffered: lines that cannot be written are dropped.

    def write(self, line: bytes) -> None:
        """A full disk costs lines but never blocks the part, which would wait if its pipe were not read."""
        with contextlib.suppress(OSError):
            if self._out.tell() + len(line) > self._bytes_max:
                self._rotate()
            self._out.write(line)

    def _rotate(self) -> None:
        self._file.replace(self._file.with_suffix(".log.1"))
        full, self._out = self._out, _appending(self._file)
        full.close()

    def close(self) -> None:
        self._out.close()


class RunningPart:
    """One part, running or about to be started."""

    def __init__(self, part: Part, logs: Path, lock: int, on_line: Callable[[str, bytes], None]) -> None:
        self.part = part
        self.process: asyncio.subprocess.Process | None = None
        self.last_words: list[str] = []
        self.ready = False  # It has printed the ready line since its last start.
        self.restarts = 0
        self._log = LogFile(logs / f"{part.name}.log")
        self._lock = lock
        self._keeper = SocketKeeper() if part.keeps_sockets else None
        self._on_line = on_line
        self._readers: list[asyncio.Task[None]] = []

    async def start(self) -> asyncio.subprocess.Process:
        self.last_words, self.ready = [], False
        with contextlib.ExitStack() as stack:
            inherited: tuple[int, ...] = (self._lock,)
            variables: dict[str, str] = {}
            if self._keeper is not None:
                inheritance, link = self._keeper.begin()
                stack.enter_context(link)
                inherited = (self._lock, inheritance.link, *inheritance.sockets.values())
                variables = {KEPT_SOCKETS: msgspec.json.encode(inheritance).decode()}
            self.process = await asyncio.create_subprocess_exec(
                *self.part.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LINE_BYTES_MAX,
                start_new_session=True,  # Ctrl-C is for the supervisor: it stops the parts in order.
                pass_fds=inherited,
                env={
                    **os.environ,
                    SUPERVISOR: str(os.getpid()),
                    LOCK: str(self._lock),
                    RESTARTS: str(self.restarts),
                    **variables,
                },
            )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            asyncio.create_task(self._read(self.process.stdout, "out")),
            asyncio.create_task(self._read(self.process.stderr, "err")),
        ]
        return self.process

    async def ended(self) -> int:
        assert self.process is not None
        code = await self.process.wait()
        # A pod's process may hold the pipes open: read only what is in them now.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*self._readers, return_exceptions=True), 0.5)
        return code

    async def stop(self) -> None:
        process = self.process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_S)
            except TimeoutError:
                process.kill()
                await process.wait()
        for reader in self._readers:
            reader.cancel()
        if self._keeper is not None:
            self._keeper.close()
        self._log.close()

    async def _read(self, stream: asyncio.StreamReader, which: str) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:
                continue  # The line exceeds the limit: what was read of it is dropped.
            if not line:
                return
            if which == "err":
                self._log.write(line)
                words = line.decode("utf-8", "replace").rstrip()
                self.last_words = [*self.last_words[1 - LAST_LINES :], words]
            elif line.rstrip() == READY:
                self.ready = True
            self._on_line(which, line)


class Status(msgspec.Struct, frozen=True):
    """Counts of nodes and pods, as the deciders log them."""

    nodes: int = 0
    ready: int = 0
    pods: int = 0
    running: int = 0
    pending: int = 0

    @property
    def line(self) -> str:
        nodes, pods = f"{self.ready}/{self.nodes} nodes ready", f"{self.running}/{self.pods} pods running"
        return f"{nodes} · {pods} · {self.pending} pending"


class PartLine(msgspec.Struct, frozen=True):
    """The fields of a part's log line that are shown to the user."""

    level: str = ""
    warning: str = ""  # A text for the user.
    status: Status | None = None


def heard(line: bytes) -> PartLine:
    """Decode a log line. Most lines are for the log alone: they are not even decoded."""
    if b'"status"' not in line and b'"warning"' not in line:
        return PartLine()
    try:
        return msgspec.json.decode(line, type=PartLine)
    except msgspec.DecodeError:
        return PartLine()


def end_words(part: str, code: int, last: str) -> str:
    """How a part ended. Its last line is the reason only if the part exited by itself, and not if the line is
    of level info or warn."""
    if code < 0:
        return f"{part} was killed by {signal.Signals(-code).name}"
    try:
        everyday = msgspec.json.decode(last.encode(), type=PartLine).level in {"info", "warn"}
    except msgspec.DecodeError:
        everyday = not last
    return f"{part} exited with code {code}" + ("" if everyday else f": {last[:300]}")


class Supervisor:
    def __init__(
        self,
        data: Path,
        *,
        api: Part,
        others: Sequence[Part],
        nodes: int,
        out: TextIO,
        when_ready: Callable[[], Sequence[str]] = tuple,
        when_stopped: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`when_ready`, `when_stopped`: what else to say then."""
        self._data = data
        self._when_ready, self._when_stopped = when_ready, when_stopped
        self._api = api
        self._others = others
        self._nodes = nodes
        self._out = out
        self._live = out.isatty()
        self._status = Status()
        self._shown = ""
        self._api_ready = asyncio.Event()
        self._nodes_ready = asyncio.Event()
        self._restarts: dict[str, int] = {}
        self._warnings: dict[str, None] = {}  # Already shown: parts repeat them after a restart.

    async def run(self) -> None:
        """Run until stopped. Raises PartNotStarted, Busy."""
        stop = stop_event()
        stopping = asyncio.create_task(stop.wait())
        lock = await take_lock(self._data, stopping)
        running: list[RunningPart] = []
        keepers: list[asyncio.Task[None]] = []
        try:
            api = RunningPart(self._api, self._data / "logs", lock, self._on_api_line)
            running.append(api)
            await self._first_start(api, stopping)
            if not stop.is_set():
                for part in self._others:
                    running.append(RunningPart(part, self._data / "logs", lock, self._on_part_line))
                keepers = [asyncio.create_task(self._keep(running_part)) for running_part in running]
                await self._announce(stopping)
                await stopping
        finally:
            stopping.cancel()
            await self._stop(running, keepers)
            os.close(lock)

    async def _first_start(self, api: RunningPart, stopping: asyncio.Task[bool]) -> None:
        """Start the API server. An error that it reports would recur: raise. If it was killed, start it
        again."""
        while (code := await self._try_start(api, stopping)) is not None:
            if code >= 0:
                raise PartNotStarted(api.last_words[-1] if api.last_words else "it printed nothing", code)
            self._say(f"{end_words(api.part.name, code, '')} before it was ready; restarting it")
            await asyncio.wait((stopping,), timeout=RESTART.s_min)

    async def _try_start(self, api: RunningPart, stopping: asyncio.Task[bool]) -> int | None:
        """The exit code; None if it is ready, or if we are stopping."""
        if stopping.done():
            return None
        await api.start()
        ended, ready = asyncio.create_task(api.ended()), asyncio.create_task(self._api_ready.wait())
        await asyncio.wait((ended, ready, stopping), return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if ended.done() and not stopping.done():
            return ended.result()
        ended.cancel()
        return None

    async def _announce(self, stopping: asyncio.Task[bool]) -> None:
        """Print `ready`: a pod that is created now finds a node."""
        waiting = asyncio.create_task(self._nodes_ready.wait())
        await asyncio.wait((waiting, stopping), timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if stopping.done():
            return
        if not self._nodes_ready.is_set():
            ready = f"{self._status.ready} of {self._nodes} nodes are ready"
            self._say(f"warning: {ready} after {READY_S:g} s; look in {self._data}/logs")
        lines = await asyncio.to_thread(self._when_ready)  # They may ask the API server.
        for line in ("ready", *lines):
            self._say(line)
        self._show()

    async def _keep(self, running_part: RunningPart) -> None:
        """Restart the part whenever it ends."""
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            began_s = loop.time()
            ending = await self._run_until_end(running_part)
            failures = short_lives(failures, was_ready=running_part.ready, lived_s=loop.time() - began_s)
            pause_s = restart_pause_s(failures)
            running_part.restarts += 1
            self._restarts[running_part.part.name] = running_part.restarts
            self._say(f"{ending}; restarting it in {pause_s:g} s")
            await asyncio.sleep(pause_s)

    async def _run_until_end(self, running_part: RunningPart) -> str:
        """Run the part from start to end; return how it ended."""
        if running_part.process is None or running_part.process.returncode is not None:
            try:
                await running_part.start()
            except OSError as error:  # Out of memory, processes or files: may be temporary.
                return f"{running_part.part.name} cannot be started: {error.strerror}"
        code = await running_part.ended()
        return end_words(
            running_part.part.name, code, running_part.last_words[-1] if running_part.last_words else ""
        )

    async def _stop(self, running: Sequence[RunningPart], keepers: Sequence[asyncio.Task[None]]) -> None:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        self._clear()
        self._live = False  # No more status lines.
        for running_part in reversed(running):
            await running_part.stop()
        if keepers:
            self._say(f"stopped {', '.join(running_part.part.name for running_part in reversed(running))}")
            for line in self._when_stopped():
                self._say(line)

    # Output of the parts.

    def _on_api_line(self, which: str, line: bytes) -> None:
        if which == "err":
            return
        text = line.decode("utf-8", "replace").rstrip()
        if line.rstrip() == READY:
            if self._api_ready.is_set():
                self._say("api is ready again")
            self._api_ready.set()
        elif not self._api_ready.is_set():
            self._say(text)

    def _on_part_line(self, which: str, line: bytes) -> None:
        log_line = heard(line) if which == "err" else PartLine()
        if log_line.warning and log_line.warning not in self._warnings:
            self._warnings[log_line.warning] = None
            self._say(f"warning: {log_line.warning}")
        if log_line.status is not None:
            self._status = log_line.status
            if log_line.status.ready >= self._nodes:
                self._nodes_ready.set()
            self._show()

    # The terminal.

    def _say(self, text: str) -> None:
        self._clear()
        self._put(f"{visible(text)}\n")
        self._shown = ""
        self._show()

    def _put(self, text: str) -> None:
        """A closed terminal or a full disk must not stop the cluster; the logs have the text too."""
        with contextlib.suppress(OSError, ValueError):
            self._out.write(text)
            self._out.flush()

    def _show(self) -> None:
        """One status line, always current, if the output is a terminal."""
        if not self._live or not self._nodes_ready.is_set():
            return
        restarts = sum(self._restarts.values())
        text = self._status.line + (f" · {restarts} restarts" if restarts else "")
        if text != self._shown:
            self._clear()
            self._put(text)
            self._shown = text

    def _clear(self) -> None:
        if self._live and self._shown:
            self._put("\r\x1b[K")
            self._shown = ""


async def take_lock(data: Path, stopping: asyncio.Task[bool]) -> int:
    """One supervisor per data directory. Children inherit the lock, so it is free when the last of them is
    gone. A supervisor that is stopping does not wait for it."""
    lock = os.open(data / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline_s = asyncio.get_running_loop().time() + LOCK_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if stopping.done() or asyncio.get_running_loop().time() > deadline_s:
                os.close(lock)
                raise Busy(
                    f"another fathom uses {data}{_holders(data)}: "
                    "stop it, or choose another directory with --data"
                ) from None
            await asyncio.wait((stopping,), timeout=0.1)
        else:
            return lock


def _holders(data: Path) -> str:
    """Perhaps only a suspended part of a supervisor that is gone."""
    pids = lock_holders(data)
    return f" (process {', '.join(map(str, pids))})" if pids else ""


def lock_holders(data: Path) -> list[int]:
    """Other processes that hold the lock, as far as we may read /proc."""
    lock, pids = str(data.resolve() / "up.lock"), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if int(name) != os.getpid() and any(
                os.readlink(fd.path) == lock for fd in os.scandir(f"/proc/{name}/fd")
            ):
                pids.append(int(name))
    return pids


def python(*arguments: str) -> tuple[str, ...]:
    """The command that runs this same fathom in another process. Without -P Python would import first from
    the current directory, where pods may be able to write; only running from the source tree needs that."""
    in_place = Path(__file__).parents[1] == Path.cwd()
    return (sys.executable, *(() if in_place else ("-P",)), "-m", "fathom.cli", *arguments)
