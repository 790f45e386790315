"""The audit log: one JSON line a write, in DIR/audit.jsonl and its rotated files (.1 is newer than .2).

    record ──> a buffer ──(every FLUSH_S, or when it is full)──> one write(2) ──(every SYNC_S)──> fsync

Recording costs the caller an encoding and an append. A crash loses at most the buffer, and truncates at most
the last line, which readers skip. A full disk loses entries, and never fails requests: the lost entries are
counted, and logged every COMPLAIN_NS.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec

from fathom.model.audit import AuditEntry
from fathom.private_files import make_directories
from fathom.record.recording_gaps import RecordingGaps
from fathom.seams.log import Log, NoLog
from fathom.seams.outside import Clock

FILE = "audit.jsonl"

# 1 GiB in all, in files that an editor still opens: at 400 bytes an entry, the last 2.5 million writes.
FILE_BYTES_MAX = 128 * 1024 * 1024
FILES_MAX = 8

FLUSH_S = 0.1
SYNC_S = 1.0
# Four times what creates at full speed produce in FLUSH_S. The request that fills the buffer writes it.
BUFFER_BYTES_MAX = 1024 * 1024
# How often a log line says that entries are being lost.
COMPLAIN_NS = 10_000_000_000


class AuditLog:
    """An AuditSink on disk. `run` flushes; without it, entries wait until the buffer is full or `close`."""

    def __init__(
        self,
        directory: Path,
        *,
        clock: Clock,
        log: Log | None = None,
        file_bytes_max: int = FILE_BYTES_MAX,
        files_max: int = FILES_MAX,
        write: Callable[[int, bytes], int] = os.write,
    ) -> None:
        self.written = 0  # Entries handed to the operating system.
        self.dropped = 0  # Entries that could not be written.
        self._directory = directory
        self._clock = clock
        self._log = log or NoLog()
        self._file_bytes_max = file_bytes_max
        self._files_max = max(1, files_max)
        self._write = write
        self._encoder = msgspec.json.Encoder()
        self._buffer = bytearray()  # Whole lines only.
        self._lines = 0  # In the buffer.
        self._file: int | None = None  # The open file; None before the first flush and after an error.
        self._size = 0  # Of the open file.
        self._torn = False  # The file may end inside a line: the next write starts a new one.
        self._unsynced = False
        self._complained_ns: int | None = None
        self._gaps = RecordingGaps(directory, now_ns=clock.now_ns)

    @property
    def path(self) -> Path:
        return self._directory / FILE

    def record(self, entry: AuditEntry) -> None:
        start = len(self._buffer)
        try:
            self._encoder.encode_into(entry, self._buffer, -1)
        except (TypeError, ValueError) as error:  # Half a surrogate pair in a header, say.
            del self._buffer[start:]
            self._count_lost(1, error)
            return
        self._buffer += b"\n"
        self._lines += 1
        if len(self._buffer) >= BUFFER_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write all recorded entries to the operating system. Never raises."""
        if not self._lines:
            return
        lines, block = self._lines, bytes(self._buffer)
        self._buffer.clear()
        self._lines = 0
        try:
            self._append(block)
        except OSError as error:
            self._count_lost(lines, error)
            self._close_file(sync=False)  # Opened again next time: the file may have been removed.
        else:
            self.written += lines
            self._gaps.resume()

    def _append(self, block: bytes) -> None:
        if self._file is None:
            self._open()
        if self._size and self._size + len(block) > self._file_bytes_max:
            self._rotate()
        assert self._file is not None
        block = b"\n" + block if self._torn else block
        self._torn = True  # Until all of it is written.
        while block:
            count = self._write(self._file, block)
            self._size += count
            self._unsynced = True
            block = block[count:]
        self._torn = False

    def _open(self) -> None:
        make_directories(self._directory)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size
        # A process that was killed may have left half a line.
        self._torn = self._size > 0 and os.pread(self._file, 1, self._size - 1) != b"\n"

    def _rotate(self) -> None:
        self._close_file(sync=False)  # The kernel syncs its last second: a disk may take long.
        names = [self.path, *(self._directory / f"{FILE}.{age}" for age in range(1, self._files_max))]
        for newer, older in reversed(list(pairwise(names))):
            if newer.exists():
                newer.replace(older)
        if self._files_max == 1:
            self.path.unlink(missing_ok=True)
        self._open()

    def _count_lost(self, lines: int, error: Exception) -> None:
        self.dropped += lines
        if isinstance(error, OSError):  # Else it is this entry alone.
            self._gaps.pause()
            self._gaps.lose(lines)
        now_ns = self._clock.monotonic_ns()
        if self._complained_ns is None or now_ns - self._complained_ns >= COMPLAIN_NS:
            self._complained_ns = now_ns
            self._log.error("audit entries lost", lost=self.dropped, error=str(error), path=str(self.path))

    def _close_file(self, *, sync: bool) -> None:
        """Never raises: entries that could not be written have been counted."""
        if self._file is None:
            return
        handle, self._file = self._file, None
        with contextlib.suppress(OSError):
            if sync and self._unsynced:
                os.fsync(handle)
        self._unsynced = False
        os.close(handle)

    async def run(self) -> None:
        """Flush and sync until cancelled, then close."""
        synced_ns = self._clock.monotonic_ns()
        try:
            while True:
                await asyncio.sleep(FLUSH_S)
                self.flush()
                now_ns = self._clock.monotonic_ns()
                if self._unsynced and now_ns - synced_ns >= SYNC_S * 1e9:
                    synced_ns = now_ns
                    await self._sync()
        finally:
            self.close()

    async def _sync(self) -> None:
        """In a thread: a disk may take long, and no request waits for the audit log."""
        if self._file is None:
            return
        try:
            handle = os.dup(self._file)  # The file may be rotated away meanwhile.
            self._unsynced = False
            try:
                await asyncio.to_thread(os.fsync, handle)
            finally:
                os.close(handle)
        except OSError as error:
            self._log.error("audit log not synced", error=str(error), path=str(self.path))

    def close(self) -> None:
        """Write the recorded entries, sync, close. May be called again; a later `record` reopens the log."""
        self.flush()
        self._close_file(sync=True)
