"""Read a container's log, as the shim wrote it, with the options of `kubectl logs`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain
from pathlib import Path

import msgspec

POLL_S = 0.1
CHUNK_BYTES = 256 * 1024
TRIES = 5
MICROS = len("2026-01-01T00:00:00.000000")  # The log has nanoseconds; clients send microseconds.


class LogOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Options of a log request, as the API server has validated them."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int = -1  # Lines from the end; -1: all.
    since: str = ""  # Not older than this: RFC 3339 in UTC, as in the log.
    bytes_max: int = -1
    stream: str = ""  # stdout, stderr; '' both.


class LogFilter:
    """Turns log lines into output; parts of a long line are joined again."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._part = False  # The last line shown continues.

    def shown(self, line: bytes) -> bytes | None:
        stamp, _, rest = line.partition(b" ")
        stream, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        options = self._options
        if options.since and stamp[:MICROS].decode() < options.since[:MICROS]:
            return None
        if options.stream and stream.decode() != options.stream:
            return None
        head = stamp + b" " if options.timestamps and not self._part else b""
        self._part = tag == b"P"
        return head + text + (b"" if self._part else b"\n")


def older_files(directory: Path, current: int) -> list[Path]:
    """Rotated files, the oldest first, without the file of this inode, which was `log` when it was opened."""
    numbered = [path for path in directory.glob("log.*") if path.suffix[1:].isdigit()]
    inodes = {path: _inode(path) for path in numbered}
    return sorted(
        (path for path in numbered if inodes[path] != current), key=lambda path: -int(path.suffix[1:])
    )


def _inode(path: Path) -> int:
    try:
        return path.lstat().st_ino
    except OSError:
        return -1


def lines_of(path: Path) -> Iterator[bytes]:
    fd = _opened(path)
    if fd < 0:
        return
    with contextlib.suppress(OSError), os.fdopen(fd, "rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line[:-1]


async def read_log(directory: Path, options: LogOptions, is_over: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The existing lines, and with `follow` new ones, until the run is over. `is_over` is called before the
    last read, so nothing that was written before the end is missed; and following begins where the existing
    lines end, so nothing is sent twice."""
    remaining = options.bytes_max
    filter_ = LogFilter(options)
    follower = LogFollower(directory / "log")
    try:
        existing = (
            shown
            for line in chain(
                (line for path in older_files(directory, follower.inode) for line in lines_of(path)),
                follower.there(),
            )
            if (shown := filter_.shown(line)) is not None
        )
        for chunk in _chunks(_tail(existing, options.tail)):
            part, remaining = _bounded(chunk, remaining)
            yield part
            if remaining == 0:
                return
            await asyncio.sleep(0)
        while options.follow:
            over = is_over()
            lines = follower.read()
            shown = b"".join(text for line in lines if (text := filter_.shown(line)) is not None)
            if shown:
                part, remaining = _bounded(shown, remaining)
                yield part
            if remaining == 0 or (over and not lines):
                return
            if not lines:
                await asyncio.sleep(POLL_S)
    finally:
        follower.close()


def _tail(parts: Iterator[bytes], count: int) -> Iterator[bytes]:
    """The last lines; whole lines are counted, however many parts they were written in."""
    if count < 0:
        return parts
    kept: deque[list[bytes]] = deque(maxlen=count)
    line: list[bytes] = []
    for part in parts:
        line.append(part)
        if part.endswith(b"\n"):
            kept.append(line)
            line = []
    return chain(chain.from_iterable(kept), line)


def _chunks(lines: Iterator[bytes]) -> Iterator[bytes]:
    pending, size = [], 0
    for line in lines:
        pending.append(line)
        size += len(line)
        if size >= CHUNK_BYTES:
            yield b"".join(pending)
            pending, size = [], 0
    if pending:
        yield b"".join(pending)


def _bounded(chunk: bytes, remaining: int) -> tuple[bytes, int]:
    if remaining < 0:
        return chunk, remaining
    return chunk[:remaining], max(0, remaining - len(chunk))


def _opened(path: Path) -> int:
    """Open a plain file, or return -1: links are not followed, and a pipe does not block."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return -1
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return -1


class LogFollower:
    """Reads the newest file of a log and follows it across rotations: a renamed file is first read to its
    end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._rest = b""
        self._open()

    @property
    def inode(self) -> int:
        return os.fstat(self._fd).st_ino if self._fd >= 0 else 0

    def there(self) -> Iterator[bytes]:
        """Whole lines up to where the file ends now."""
        remaining = os.fstat(self._fd).st_size if self._fd >= 0 else 0
        while remaining > 0 and (chunk := os.read(self._fd, min(remaining, CHUNK_BYTES))):
            remaining -= len(chunk)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            yield from lines

    def read(self) -> list[bytes]:
        """Whole lines written since."""
        if self._fd < 0:
            self._open()
        if self._fd < 0:
            return []
        chunk = os.read(self._fd, CHUNK_BYTES)
        if not chunk and self._was_rotated():
            self._go_on()
            chunk = os.read(self._fd, CHUNK_BYTES) if self._fd >= 0 else b""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return lines

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        self._fd = _opened(self._path)

    def _go_on(self) -> None:
        """Switch to the file that follows ours; there may be several by now. The shim may rename them
        meanwhile: then try again."""
        for _ in range(TRIES):
            path, inode = self._next()
            fd = _opened(path)
            if fd >= 0 and os.fstat(fd).st_ino == inode:
                self.close()
                self._fd = fd
                return
            if fd >= 0:
                os.close(fd)

    def _next(self) -> tuple[Path, int]:
        mine = self.inode
        files = [*older_files(self._path.parent, 0), self._path]  # The oldest first.
        inodes = [_inode(path) for path in files]
        at = inodes.index(mine) + 1 if mine in inodes else 0  # If ours is gone: the oldest there is.
        at = min(at, len(files) - 1)
        return files[at], inodes[at]

    def _was_rotated(self) -> bool:
        try:
            return os.lstat(self._path).st_ino != os.fstat(self._fd).st_ino
        except OSError:
            return False
