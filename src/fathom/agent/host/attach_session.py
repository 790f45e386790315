"""`kubectl attach` at the agent: the input and output of a container's program, on a WebSocket.

The shim holds them (`attach_to_container`), because it outlives the agent.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from pathlib import Path

from fathom.agent import attach_to_container
from fathom.agent.attach_to_container import END, HEAD, PIECE_BYTES_MAX, SOCKET
from fathom.agent.host.channels import (
    CLOSE,
    ERROR,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    Channels,
    failure,
    success,
)  # fmt: skip
from fathom.agent.host.exec_session import ExecOptions, cancel, connect_to, decode_size

TOO_SLOW = "the program's output was not read for too long, so it is no longer sent: attach again"


async def run_attach(
    channels: Channels, run_dir: Path, options: ExecOptions, is_over: Callable[[], bool]
) -> None:
    """Until the container ends, or the client is gone. `is_over`: whether the container has ended."""
    try:
        link = connect_to(run_dir, SOCKET)
    except OSError as error:
        await channels.send(ERROR, failure(_no_shim(error)))
        return
    reader, writer = await asyncio.open_unix_connection(sock=link, limit=PIECE_BYTES_MAX)
    wanted = {channel for channel, flag in ((STDOUT, options.stdout), (STDERR, options.stderr)) if flag}
    output = asyncio.ensure_future(_pass_output(channels, reader, wanted))
    others = [
        asyncio.ensure_future(_pass_input(channels, writer, options)),
        asyncio.ensure_future(channels.until_idle()),
    ]
    try:
        await asyncio.wait((output, *others), return_when=asyncio.FIRST_COMPLETED)
        if output.done() and output.exception() is None:
            await channels.send(ERROR, success() if await _ends(is_over) else failure(TOO_SLOW))
    finally:
        await cancel(output, *others)
        writer.close()


async def _ends(is_over: Callable[[], bool]) -> bool:
    """The shim records the end only after it has closed our connection."""
    for _ in range(50):
        if is_over():
            return True
        await asyncio.sleep(0.1)
    return False


async def _pass_output(channels: Channels, reader: asyncio.StreamReader, wanted: set[int]) -> None:
    try:
        while True:
            channel, length = HEAD.unpack(await reader.readexactly(HEAD.size))
            data = await reader.readexactly(min(length, PIECE_BYTES_MAX))
            if channel in wanted:
                await channels.send(channel, data)
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return


async def _pass_input(channels: Channels, writer: asyncio.StreamWriter, options: ExecOptions) -> None:
    try:
        while message := await channels.receive():
            for piece in _pieces(message, stdin=options.stdin):
                writer.write(piece)
                await writer.drain()
    except ConnectionError:  # The container ends: the output says so.
        await asyncio.Event().wait()


def _pieces(message: bytes, *, stdin: bool) -> list[bytes]:
    channel, data = message[0], message[1:]
    if channel == STDIN and stdin:
        parts = [data[at : at + PIECE_BYTES_MAX] for at in range(0, len(data), PIECE_BYTES_MAX)]
        return [HEAD.pack(attach_to_container.STDIN, len(part)) + part for part in parts]
    if channel == CLOSE and data[:1] == bytes((STDIN,)) and stdin:
        return [HEAD.pack(END, 0)]
    if channel == RESIZE and (size := decode_size(data)) is not None:
        return [HEAD.pack(attach_to_container.RESIZE, 4) + struct.pack("HH", *size)]
    return []


def _no_shim(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "this container was started by an older fathom: delete its pod, and try the new one"
    return f"the container has just ended: {error.strerror or error}"
