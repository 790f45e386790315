"""`kubectl exec` at the agent: one command in a container, its input and output on a WebSocket.

The command is forked inside the container's isolation (`exec_in_container`), and is killed when the client
goes away: the agent then closes its connection to the keeper.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from fathom.agent.exec_in_container import SOCKET
from fathom.agent.host.channels import (
    CLOSE,
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    Channels,
    exit_status,
    failure,
)  # fmt: skip
from fathom.agent.host.descriptors import DescriptorReader, DescriptorWriter

ENDED = 137  # Exit code of a command that ended with its container.
OUTPUT_ENDED = "output ended"
SIZE_MAX = 10_000  # Rows or columns of a terminal.


class ExecOptions(msgspec.Struct, frozen=True):
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class TerminalSize(msgspec.Struct):
    width: int = msgspec.field(name="Width", default=0)
    height: int = msgspec.field(name="Height", default=0)


def connect_to(run_dir: Path, name: str) -> socket.socket:
    """A connection to a socket in a run's directory, whose path may be longer than a socket's may be. Raises
    OSError."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.setblocking(False)
    directory_fd = os.open(run_dir, os.O_PATH | os.O_DIRECTORY)
    try:
        link.connect(f"/proc/self/fd/{directory_fd}/{name}")
    except BaseException:
        link.close()
        raise
    finally:
        os.close(directory_fd)
    return link


def owner_of(pid: int) -> int:
    """The user of a process, as the machine knows it; -1 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Uid:"))
    except (OSError, StopIteration):
        return -1


class CommandStreams:
    """Our ends of a command's input and output, and its own, until they are passed."""

    def __init__(self, options: ExecOptions, owner: int) -> None:
        self.stdin: DescriptorWriter | None = None
        self.readers: dict[int, DescriptorReader] = {}  # By channel.
        self.terminal = -1
        self._passed: list[int] = []
        try:
            if options.tty:
                self._open_terminal(options)
            else:
                self._open_pipes(options)
        except OSError:  # No more descriptors.
            self.close()
            raise
        if os.getuid() == 0 and owner >= 0:
            for fd in self._passed:  # So that the command may open /dev/stdin and the like.
                with contextlib.suppress(OSError):
                    os.fchown(fd, owner, -1)

    def _open_terminal(self, options: ExecOptions) -> None:
        self.terminal, its = os.openpty()
        self._passed = [its]
        self.readers[STDOUT] = DescriptorReader(self.terminal)
        if options.stdin:
            self.stdin = DescriptorWriter(os.dup(self.terminal))

    def _open_pipes(self, options: ExecOptions) -> None:
        if options.stdin:
            reading, writing = os.pipe()
            self.stdin = DescriptorWriter(writing)
        else:
            reading = os.open(os.devnull, os.O_RDONLY)
        self._passed.append(reading)
        for channel, is_wanted in ((STDOUT, options.stdout), (STDERR, options.stderr)):
            if is_wanted:
                reading, writing = os.pipe()
                self.readers[channel] = DescriptorReader(reading)
                self._passed.append(writing)
            else:
                self._passed.append(os.open(os.devnull, os.O_WRONLY))

    def passed(self) -> list[int]:
        return self._passed

    def close_passed(self) -> None:
        for fd in self._passed:
            os.close(fd)
        self._passed = []

    def close(self) -> None:
        self.close_passed()
        if self.stdin is not None:
            self.stdin.close()
        for reader in self.readers.values():
            reader.close()

    def resize(self, message: bytes) -> None:
        if self.terminal >= 0 and (size := decode_size(message)) is not None:
            fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))


def decode_size(message: bytes) -> tuple[int, int] | None:
    """(rows, columns); None if that is no size."""
    try:
        size = msgspec.json.decode(message, type=TerminalSize)
    except msgspec.MsgspecError:
        return None
    good = 0 < size.width <= SIZE_MAX and 0 < size.height <= SIZE_MAX
    return (size.height, size.width) if good else None


async def run_exec(channels: Channels, run_dir: Path, options: ExecOptions, owner: int) -> None:
    """Run the command until it ends, or the client is gone."""
    try:
        link = connect_to(run_dir, SOCKET)
    except OSError as error:
        await channels.send(ERROR, failure(_no_keeper(error)))
        return
    with link:
        try:
            streams = CommandStreams(options, owner)
        except OSError as error:
            await channels.send(ERROR, failure(_no_keeper(error)))
            return
        try:
            code = await _run_in(channels, link, streams, options)
        finally:
            streams.close()
    if code is not None:
        await channels.send(ERROR, exit_status(code))


async def _run_in(
    channels: Channels, link: socket.socket, streams: CommandStreams, options: ExecOptions
) -> int | None:
    """The exit code; None if the client is gone, or has been told why there is none."""
    try:
        await _request(link, streams, options)
    except OSError as error:
        await channels.send(ERROR, failure(_no_keeper(error)))
        return None
    return await _until_end(channels, link, streams)


async def _until_end(channels: Channels, link: socket.socket, streams: CommandStreams) -> int | None:
    """The exit code; None if the client is gone."""
    ended = asyncio.ensure_future(_exit_code(link))
    pumps = [asyncio.ensure_future(pump(channels, *each)) for each in streams.readers.items()]
    others = [
        asyncio.ensure_future(take_input(channels, streams)),
        asyncio.ensure_future(channels.until_idle()),
    ]
    try:
        if not await _all_done([ended], unless=[*others, *pumps]):
            return None
        for reader in streams.readers.values():
            reader.finish()
        return ended.result() if await _all_done(pumps, unless=others) else None
    finally:
        await cancel(ended, *pumps, *others)


async def _all_done(tasks: Sequence[asyncio.Future[Any]], *, unless: Sequence[asyncio.Future[Any]]) -> bool:
    """Wait for the tasks; False if one of them fails, or one of the others ends the session first. An output
    that has come to its end does not: the command may have closed it."""
    while waiting := [task for task in tasks if not task.done()]:
        others = [task for task in unless if not task.done()]
        done, _ = await asyncio.wait((*waiting, *others), return_when=asyncio.FIRST_COMPLETED)
        if any(task.exception() or (task in unless and task.result() is not OUTPUT_ENDED) for task in done):
            return False
    return not any(task.exception() for task in tasks)


async def _request(link: socket.socket, streams: CommandStreams, options: ExecOptions) -> None:
    request = msgspec.json.encode({"argv": options.command, "terminal": options.tty})
    try:
        socket.send_fds(link, [len(request).to_bytes(4, "big")], streams.passed())
    finally:
        streams.close_passed()
    await asyncio.get_running_loop().sock_sendall(link, request)


async def _exit_code(link: socket.socket) -> int:
    """The container wrote it: it is a number from 0 to 255, whatever was written."""
    try:
        answer = await asyncio.get_running_loop().sock_recv(link, 4)
    except OSError:
        answer = b""
    return min(int.from_bytes(answer, "big"), 255) if len(answer) == 4 else ENDED


async def pump(channels: Channels, channel: int, reader: DescriptorReader) -> str:
    """Read only as fast as the client takes it."""
    while data := await reader.read():
        await channels.send(channel, data)
    return OUTPUT_ENDED


async def take_input(channels: Channels, streams: CommandStreams) -> None:
    """Until the client is gone."""
    while message := await channels.receive():
        channel, data = message[0], message[1:]
        if channel == STDIN and streams.stdin is not None:
            await streams.stdin.write(data)
        elif channel == RESIZE:
            streams.resize(data)
        elif channel == CLOSE and data[:1] == bytes((STDIN,)) and streams.stdin is not None:
            await _end_input(streams)


async def _end_input(streams: CommandStreams) -> None:
    """A terminal has a character for it; its descriptor stays open for its size and output."""
    assert streams.stdin is not None
    if streams.terminal >= 0:
        await streams.stdin.write(b"\x04")
    streams.stdin.close()


async def cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _no_keeper(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "this container was started by an older fathom: delete its pod, and try the new one"
    if isinstance(error, ConnectionError):
        return "the container has just ended"
    return f"no command can be started in the container: {error.strerror or error}"
