"""Commands that a test answers for: what an operator starts as a child process, helm or openssl for example.

    operator.command("helm", lambda command: "release installed\\n")

No process is started. The function is called when the program has written its input, or waits for the end.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fathom.sim.world.outside_guard import refuse

if TYPE_CHECKING:
    from fathom.sim.foreign.machine import Machine

TO_DO = (
    "a simulated process cannot start a real one. Let the test answer for it, "
    "operator.command({name!r}, function)"
)

# What libraries look for, and do without: a slim image has none of them.
NOT_INSTALLED = frozenset({"git", "uname", "lsb_release", "ldconfig", "gcc", "cc", "ld", "objdump", "file"})


class Command(msgspec.Struct, frozen=True):
    args: list[str]  # Of the command, without its name.
    input: bytes
    env: dict[str, str]
    cwd: str


# Returns what the command prints, its exit code, or both, and perhaps errors: (1, "", "no such release\\n").
CommandAnswer = Callable[[Command], Any]
Commands = Mapping[str, CommandAnswer]  # By the name of the program, without its path.


class StartedCommand:
    """One call of a command, whose answer is asked for once."""

    def __init__(self, machine: Machine, kind: str, words: list[str], options: Mapping[str, Any]) -> None:
        name = os.path.basename(words[0]) if words else ""
        answer = machine.commands.get(name)
        if answer is None and name in NOT_INSTALLED:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        if answer is None:
            raise refuse(kind, TO_DO.format(name=name))
        self._answer, self._words, self._options = answer, words, options
        self.ended: tuple[int, bytes, bytes] | None = None

    def end(self, given: bytes) -> tuple[int, bytes, bytes]:
        if self.ended is None:
            environment = dict(self._options.get("env") or os.environ)
            cwd = os.fspath(self._options.get("cwd") or os.getcwd())
            self.ended = as_ending(self._answer(Command(self._words[1:], given, environment, str(cwd))))
        return self.ended


def as_ending(answered: Any) -> tuple[int, bytes, bytes]:
    if isinstance(answered, int):
        return answered, b"", b""
    if not isinstance(answered, tuple):
        return 0, _bytes(answered), b""
    code, *streams = answered
    out, error = (*map(_bytes, streams), b"", b"")[:2]
    return code, out, error


def _bytes(text: Any) -> bytes:
    return b"" if text is None else text.encode() if isinstance(text, str) else bytes(text)


def words_of(command: Any) -> list[str]:
    if isinstance(command, str | bytes):
        return shlex.split(os.fsdecode(command))
    return [os.fsdecode(word) for word in command]


# subprocess.


def popen(machine: Machine, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`subprocess.Popen.__init__`."""
    this, *rest = args
    command = rest[0] if rest else kwargs["args"]
    this._child_created = False  # Read when it is collected.
    started = StartedCommand(machine, "subprocess.Popen", words_of(command), kwargs)
    this.__class__ = AnsweredPopen
    this.begin(machine, command, started, kwargs)


TEXT_OPTIONS = ("text", "universal_newlines", "encoding", "errors")


class AnsweredPopen(subprocess.Popen):  # type: ignore[type-arg]
    """Made of a Popen that is being initialised."""

    def begin(
        self, machine: Machine, command: Any, started: StartedCommand, options: Mapping[str, Any]
    ) -> None:
        self.args, self.pid, self.returncode = command, machine.pid + 1000, None
        self._machine, self._started, self._options = machine, started, options
        self._is_text = any(options.get(name) for name in TEXT_OPTIONS)
        self.stdin = self._file() if options.get("stdin") == subprocess.PIPE else None
        self._given = self.stdin
        self.stdout = self.stderr = None
        if self.stdin is None:
            self._end(b"")

    def _file(self, data: bytes = b"") -> Any:
        raw = io.BytesIO(data)
        return io.TextIOWrapper(raw, encoding="utf-8", write_through=True) if self._is_text else raw

    def _end(self, given: bytes) -> None:
        if self.returncode is not None:
            return
        code, out, error = self._started.end(given)
        self.returncode = code
        if self._options.get("stderr") == subprocess.STDOUT:
            out, error = out + error, b""
        self.stdout = self._passed_on(out, self._options.get("stdout"))
        self.stderr = self._passed_on(error, self._options.get("stderr"))

    def _passed_on(self, data: bytes, target: Any) -> Any:
        if target == subprocess.PIPE:
            return self._file(data)
        if target is None:
            self._machine.output.write(data.decode(errors="replace"))
        elif hasattr(target, "write"):
            target.write(data if "b" in getattr(target, "mode", "b") else data.decode())
        return None

    def communicate(self, input: Any = None, timeout: float | None = None) -> Any:  # noqa: A002
        self._end(_bytes(input) or self._written())
        return tuple(None if stream is None else stream.read() for stream in (self.stdout, self.stderr))

    def _written(self) -> bytes:
        raw = getattr(self._given, "buffer", self._given)
        return b"" if raw is None or raw.closed else bytes(raw.getvalue())

    def wait(self, timeout: float | None = None) -> int:
        self._end(self._written())
        return int(self.returncode)

    def poll(self) -> int:
        return self.wait()

    def send_signal(self, sig: int) -> None:
        pass


# asyncio.

STREAMS = ("stdin", "stdout", "stderr")


class AnsweredTransport(asyncio.SubprocessTransport):
    """What `loop.subprocess_exec` returns."""

    def __init__(
        self, machine: Machine, loop: Any, protocol: Any, started: StartedCommand, options: Any
    ) -> None:
        super().__init__()
        self._loop, self._protocol, self._started, self._options = loop, protocol, started, options
        self._pid, self._code = machine.pid + 1000, loop.create_future()
        piped = [fd for fd, name in enumerate(STREAMS) if options.get(name) == subprocess.PIPE]
        self._pipes = {fd: _Pipe(self, is_input=fd == 0) for fd in piped}
        protocol.connection_made(self)
        if 0 not in self._pipes:
            loop.call_soon(self.finish, b"")

    def finish(self, given: bytes) -> None:
        if self._code.done():
            return
        code, out, error = self._started.end(given)
        if self._options.get("stderr") == subprocess.STDOUT:
            out, error = out + error, b""
        for fd, data in enumerate((b"", out, error)):
            if fd in self._pipes:
                if data:
                    self._protocol.pipe_data_received(fd, data)
                self._protocol.pipe_connection_lost(fd, None)
        self._code.set_result(code)
        self._protocol.process_exited()

    def get_pid(self) -> int:
        return self._pid

    def get_returncode(self) -> int | None:
        return self._code.result() if self._code.done() else None

    def get_pipe_transport(self, fd: int) -> Any:
        return self._pipes.get(fd)

    async def _wait(self) -> int:
        return int(await self._code)

    def is_closing(self) -> bool:
        return bool(self._code.done())

    def close(self) -> None:
        pass

    kill = terminate = close

    def send_signal(self, signal: int) -> None:
        pass


class _Pipe(asyncio.WriteTransport, asyncio.ReadTransport):
    """One of the streams of the command; what is written is its input."""

    def __init__(self, of: AnsweredTransport, *, is_input: bool) -> None:
        super().__init__()
        self._of, self._is_input, self._written, self._closed = of, is_input, b"", False

    def write(self, data: Any) -> None:
        self._written += bytes(data)

    def write_eof(self) -> None:
        self.close()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._is_input:
                self._of._loop.call_soon(self._of.finish, self._written)

    def is_closing(self) -> bool:
        return self._closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading
