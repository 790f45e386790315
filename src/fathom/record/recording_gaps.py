"""Times in which nothing could be recorded, because the disk or the budget was full.

    DIR/not-recording   exists while nothing is recorded; its time of change says since when
    DIR/gaps.json       the times that are over, newest last

Creating an empty file succeeds on a disk that is full. So whoever reads the records can say from when to when
there are none, even if the process was killed in between, and never takes silence for "nothing happened".
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from fathom.seams.outside import SystemClock

OPEN, CLOSED = "not-recording", "gaps.json"
GAPS_KEPT = 32  # Of more, the oldest are forgotten, as old records are.


class RecordingGap(msgspec.Struct, frozen=True, omit_defaults=True):
    since_ns: int
    until_ns: int = 0  # 0: it goes on.
    lost: int = 0  # Records, as far as they were counted.


class RecordingGaps:
    """The gaps of one directory, as its writer notes them. No call raises."""

    def __init__(self, directory: Path, *, now_ns: Callable[[], int] | None = None) -> None:
        self._directory = directory
        self._now_ns = now_ns or SystemClock().now_ns
        self._since_ns = _open_since(directory)  # 0: recording.
        self._lost = 0  # In this gap.

    @property
    def since_ns(self) -> int:
        """Since when nothing is recorded; 0 while everything is."""
        return self._since_ns

    def pause(self) -> None:
        """From now on, records are lost."""
        if self._since_ns:
            return
        self._since_ns, self._lost = self._now_ns(), 0
        with contextlib.suppress(OSError):
            os.close(os.open(self._directory / OPEN, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))

    def lose(self, records: int = 1) -> None:
        self._lost += records

    def resume(self) -> None:
        """Records are kept again."""
        if not self._since_ns:
            return
        gap = RecordingGap(self._since_ns, self._now_ns(), self._lost)
        self._since_ns = 0
        closed = [*_closed(self._directory), gap][-GAPS_KEPT:]
        with contextlib.suppress(OSError):
            # First the list: a crash between the two makes the gap longer, and never shorter.
            _replace(self._directory / CLOSED, msgspec.json.encode(closed))
            (self._directory / OPEN).unlink(missing_ok=True)


def read_gaps(directory: Path) -> list[RecordingGap]:
    """Oldest first."""
    since_ns = _open_since(directory)
    return [*_closed(directory), *([RecordingGap(since_ns)] if since_ns else [])]


def _open_since(directory: Path) -> int:
    try:
        return (directory / OPEN).stat().st_mtime_ns
    except OSError:
        return 0


def _closed(directory: Path) -> list[RecordingGap]:
    try:
        return msgspec.json.decode((directory / CLOSED).read_bytes(), type=list[RecordingGap])
    except (OSError, msgspec.DecodeError):
        return []


def _replace(path: Path, content: bytes) -> None:
    writing = path.with_suffix(".writing")
    with os.fdopen(os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    writing.replace(path)
