"""A ring of segment files within a byte budget, written through mapped memory. Tape and journal use it.

    append ──> the newest segment, mapped into memory ──full──> the next; the full one is packed in a thread
                                                        ├─nearly at the budget──> the oldest is thinned, if
                                                        │                         there is a way to thin it
                                                        ├─over budget──> the oldest segments are reduced to
                                                        │                what failed, if there is a way
                                                        └─then──> the oldest *run* goes, whole

When `append` returns, the record is in the page cache: it outlives the process, whatever kills that. The
kernel writes it to disk later. Segments are allocated whole before they are mapped, because a full disk must
be an error here and not a signal (SIGBUS) in the middle of a memory write.

Segments of kept windows (`kept_windows`) are neither thinned nor dropped while they fit into their part of
the budget. A file's time of change says when its records were made: packing and thinning preserve it.

A run is a part that can be read by itself. The current one is never cut: when it alone fills the budget,
nothing more is recorded until `begin` starts the next, and `lost` counts the records that were not kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Protocol
from zlib import crc32

from fathom.model.times import SECOND_NS
from fathom.private_files import make_directories
from fathom.record.recording_gaps import RecordingGaps
from fathom.record.segment import (
    FRAME,
    HEADER_BYTES,
    SEGMENT_BYTES_MAX,
    NotASegment,
    SegmentHeader,
    pack,
    read_header,
)
from fathom.seams.log import Log, NoLog
from fathom.seams.outside import Clock, live

SEGMENT_BYTES = 16 << 20
# So that one dropped segment is a small part of what is kept.
SEGMENTS_MIN = 8

# Beyond this part of the budget, old segments are thinned: so the budget holds far more of them.
THIN_FROM = 0.75
# And beyond this part, the oldest thinned segments are reduced to what failed.
REDUCE_FROM = 0.95

# Segments of kept windows may use this part of the budget.
KEPT_SHARE = 0.5

# Segments may shrink to a few records each; more files than this make reading slow.
FILES_MAX = 2000

# Without long runs, writing is tried again on a full disk after so many lost records, or this time.
LOST_PER_TRY = 1000
RETRY_NS = SECOND_NS

_FRAME_BYTES = FRAME.size
_pack_frame = FRAME.pack_into

NAME = re.compile(r"(\d{8})-(\d{6})\.seg")


class DetailPolicy(Protocol):
    """Which times keep full detail."""

    @property
    def active(self) -> bool:
        """Whether there are any."""
        ...

    def covers(self, since_ns: int, until_ns: int) -> bool: ...

    def used_up(self) -> None:
        """Called before records of such a time are thinned or dropped: there is no room left for them."""
        ...


class RingBusy(Exception):
    """Another process records to the directory."""


class Ring:
    """Use it from one thread. Call `begin` before the first `append`."""

    def __init__(
        self,
        directory: Path,
        content: int,
        *,
        budget_bytes: int,
        long_runs: bool = True,
        log: Log | None = None,
        pack: Callable[[Path], int] = pack,
        thin: Callable[[Path], int] | None = None,
        reduce: Callable[[Path], int] | None = None,
        beside: str = "",
        kept: DetailPolicy | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`beside`: the suffix of a file that `pack`, `thin` and `reduce` may write beside a segment: it goes
        with the segment, and the sizes that they return include it."""
        self.lost = 0  # Records that could not be kept.
        self.run = 0
        self._directory = directory
        self._content = content
        self._budget_bytes = budget_bytes
        self._long_runs = long_runs  # Else each segment is a run of its own.
        self._segment_bytes = min(SEGMENT_BYTES, max(mmap.PAGESIZE, budget_bytes // SEGMENTS_MIN))
        self._log = log or NoLog()
        self._pack, self._thin, self._reduce = pack, thin, reduce
        self._beside, self._kept = beside, kept
        self._thinned: set[Path] = set()
        self._reduced: set[Path] = set()
        self._changed: dict[Path, int] = {}  # When sealed segments were last written.
        self._packer = ThreadPoolExecutor(1, thread_name_prefix="fathom-pack")
        self._packing: dict[Path, Future[int]] = {}
        self._sizes: dict[Path, int] = {}  # Every segment of the directory; oldest first.
        self._map: mmap.mmap | None = None
        self._path: Path | None = None
        self._at = self._end = 0  # Where the next frame goes, and where the segment is full. 0, 0: closed.
        self._chain = 0
        self._part = 0
        self._off = True  # Nothing is recorded before the next `begin`.
        self._retry_ns = 0  # Not before this time, by the monotonic clock.
        self._lock = self._open_directory()
        self._clock = clock or live().clock
        self.gaps = RecordingGaps(directory, now_ns=self._clock.now_ns)

    def _open_directory(self) -> int:
        make_directories(self._directory)
        lock = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise RingBusy(f"another process is recording to {self._directory}") from error
        self._remove_leftovers()
        for path in ring_files(self._directory):
            self._sizes[path] = path.stat().st_size + self._size_beside(path)
            self.run = max(self.run, run_of(path))
            level = _thinned_level(path)
            if level:
                self._thinned.add(path)
            if level > 1:
                self._reduced.add(path)
            self._pack_later(path)  # Left by a process that was killed.
        return lock

    def _remove_leftovers(self) -> None:
        """Files that a killed process did not finish, and those whose segment is gone."""
        for path in ring_files(self._directory):
            if _is_blank(path):
                path.unlink(missing_ok=True)
        beside = self._directory.glob(f"*{self._beside}") if self._beside else ()
        alone = [path for path in beside if not path.with_suffix(".seg").exists()]
        for leftover in (*self._directory.glob("*.packing"), *self._directory.glob("*.indexing"), *alone):
            leftover.unlink(missing_ok=True)

    def _size_beside(self, path: Path) -> int:
        try:
            return path.with_suffix(self._beside).stat().st_size if self._beside else 0
        except FileNotFoundError:
            return 0

    # Writing.

    def begin(self, need: int = 0) -> None:
        """Start a new run: the records from here on can be read by themselves."""
        self._seal()
        self.run += 1
        self._part = 0
        self._chain = self.run
        self._begun(self._next_segment(need))

    def append(self, body: bytes) -> bool:
        """Whether the record is kept. Never raises."""
        size = len(body)
        if self._at + _FRAME_BYTES + size > self._end and not self._turn(_FRAME_BYTES + size):
            self.lost += 1
            self.gaps.lose()
            return False
        start = self._at
        first = start + _FRAME_BYTES
        self._at = end = first + size
        self._chain = chain = crc32(body, self._chain) or 1
        target = self._map
        assert target is not None
        target[first:end] = body
        # Last: until it is written, a reader sees the end of the tape and not half a record.
        _pack_frame(target, start, size, chain)
        return True

    @property
    def run_bytes(self) -> int:
        """The size of the current run."""
        self._settle()
        return sum(size for path, size in self._sizes.items() if run_of(path) == self.run)

    @property
    def disk_bytes(self) -> int:
        """The size of all segments."""
        self._settle()
        return sum(self._sizes.values())

    @property
    def budget_bytes(self) -> int:
        return self._budget_bytes

    @property
    def recording(self) -> bool:
        return not self._off

    def close(self) -> None:
        """Seal and pack the current segment, and wait for the packing. May be called again."""
        self._seal()
        self._off = True
        self._settle(wait_for_all=True)
        self._packer.shutdown()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # Segments.

    def _turn(self, need: int) -> bool:
        """Start the next segment, with room for a frame of `need` bytes."""
        if not self._long_runs and (not self._off or self._may_try_again()):
            self.begin(need)
            return not self._off
        if self._off:
            return False
        self._seal()
        self._part += 1
        self._begun(self._next_segment(need))
        return not self._off

    def _begun(self, is_recording: bool) -> None:
        """Note whether the next segment could be started: without one, a gap begins."""
        self._off = not is_recording
        if is_recording:
            if self.gaps.since_ns:
                self._log.info("recording goes on", path=str(self._directory))
            self.gaps.resume()
        else:
            self.gaps.pause()
            self._retry_ns = self._clock.monotonic_ns() + RETRY_NS

    def _may_try_again(self) -> bool:
        return self.lost % LOST_PER_TRY == 0 or self._clock.monotonic_ns() >= self._retry_ns

    def _next_segment(self, need: int) -> bool:
        size = max(self._segment_bytes, HEADER_BYTES + need)
        if size > SEGMENT_BYTES_MAX:  # Readers would refuse it, and everything after it.
            self._log.error("recording stopped: a record is too large", bytes=need, path=str(self._directory))
            return False
        path = self._directory / f"{self.run:08}-{self._part:06}.seg"
        try:
            if not self._make_room(size):
                if not self.gaps.since_ns:
                    self._log.warn("recording paused: this run fills its budget", path=str(self._directory))
                return False
            self._map = _mapped(path, size)
        except OSError as error:
            if not self.gaps.since_ns:  # Once, and not at each further try.
                self._log.error("recording stopped", error=str(error), path=str(path))
            path.unlink(missing_ok=True)
            return False
        self._path, self._sizes[path] = path, size
        self._map[:HEADER_BYTES] = SegmentHeader(self._content, self.run, self._part, self._chain).encode()
        self._at, self._end = HEADER_BYTES, size
        return True

    def _seal(self) -> None:
        if self._map is None or self._path is None:
            return
        self._map.close()
        with contextlib.suppress(OSError):  # The file was removed.
            os.truncate(self._path, self._at)
        self._sizes[self._path] = self._at
        self._pack_later(self._path)
        self._map, self._path, self._at, self._end = None, None, 0, 0
        self._thin_ahead()

    def _pack_later(self, path: Path) -> None:
        self._packing[path] = self._packer.submit(self._pack, path)

    def _thin_ahead(self) -> None:
        """Thin or reduce one segment for each that is sealed, so that `append` need not wait when the budget
        is full."""
        self._settle()
        stored = sum(self._sizes.values())
        if stored > self._budget_bytes * THIN_FROM and self._thin_oldest():
            return
        if stored > self._budget_bytes * REDUCE_FROM:
            self._reduce_oldest()

    def _thin_oldest(self) -> bool:
        """Whether there is a segment to thin: segments not thinned may take half of the budget that kept
        ones leave."""
        if self._thin is None:
            return False
        protected = self._protected()
        whole = [path for path in self._sizes if path not in self._thinned and path not in protected]
        kept_bytes = sum(self._sizes[path] for path in protected)
        if sum(self._sizes[path] for path in whole) <= (self._budget_bytes - kept_bytes) // 2:
            return False
        return self._shorten(whole, self._thin, self._thinned)

    def _reduce_oldest(self) -> bool:
        """Whether there is a thinned segment to reduce to what failed."""
        if self._reduce is None or len(self._sizes) > FILES_MAX:
            return False
        protected = self._protected()
        paths = [path for path in self._thinned if path not in self._reduced and path not in protected]
        return self._shorten(sorted(paths), self._reduce, self._reduced)

    def _shorten(self, paths: list[Path], how: Callable[[Path], int], done: set[Path]) -> bool:
        oldest = next((path for path in paths if path not in self._packing and path != self._path), None)
        if oldest is None:
            return False
        self._say_if_kept([oldest])
        done.add(oldest)
        self._packing[oldest] = self._packer.submit(how, oldest)
        return True

    # Kept windows.

    def _protected(self) -> set[Path]:
        """Segments of kept windows, the newest first, as many as fit into their part of the budget."""
        protected: set[Path] = set()
        left_bytes = round(self._budget_bytes * KEPT_SHARE)
        for members in reversed(self._kept_runs()):
            left_bytes -= sum(self._sizes[path] for path in members)
            if left_bytes < 0:
                break
            protected.update(members)
        return protected

    def _kept_runs(self) -> list[list[Path]]:
        """The segments of each run that overlaps a kept window, oldest first; without the current run. A run
        lasts from the end of the one before it to its own end."""
        if self._kept is None or not self._kept.active:
            return []
        runs: dict[int, list[Path]] = {}
        for path in sorted(self._sizes):
            runs.setdefault(run_of(path), []).append(path)
        kept, since_ns = [], 0
        for run, members in runs.items():
            until_ns = max(map(self._changed_ns, members))
            if run != self.run and self._kept.covers(since_ns, until_ns):
                kept.append(members)
            since_ns = until_ns
        return kept

    def _changed_ns(self, path: Path) -> int:
        if path == self._path:
            return _changed_ns(path)
        if path not in self._changed:
            self._changed[path] = _changed_ns(path)
        return self._changed[path]

    def _members(self, run: int) -> list[Path]:
        return [path for path in self._sizes if run_of(path) == run]

    def _say_if_kept(self, members: list[Path]) -> None:
        if self._kept is not None and any(members[0] in kept for kept in self._kept_runs()):
            self._log.warn(
                "records of a kept window lose detail: their part of the budget is used up",
                path=str(members[0]),
                budget_bytes=round(self._budget_bytes * KEPT_SHARE),
            )
            self._kept.used_up()

    def _settle(self, *, wait_for_all: bool = False) -> None:
        """Update the sizes of segments that have been packed meanwhile."""
        if wait_for_all:
            wait(self._packing.values())
        for path in [path for path, future in self._packing.items() if future.done()]:
            error = self._packing[path].exception()
            if error is None:
                self._sizes[path] = self._packing[path].result()
            elif not isinstance(error, NotASegment):  # A full disk: the raw segment stays readable.
                self._log.warn("a segment could not be compressed", path=str(path), error=str(error))
            del self._packing[path]

    def _make_room(self, need: int) -> bool:
        """Shorten or delete the oldest runs until there is room; False if only the current run and kept ones
        are left."""
        self._settle()
        while sum(self._sizes.values()) + need > self._budget_bytes or len(self._sizes) > FILES_MAX:
            oldest = self._oldest_to_drop()
            members = [] if oldest is None else self._members(oldest)
            if self._packing and (oldest is None or self._packing.keys() & members):
                self._settle(wait_for_all=True)  # Packing would recreate a dropped file.
            elif self._thin_oldest() or self._reduce_oldest():
                self._settle(wait_for_all=True)
            elif oldest is None:
                return False
            else:
                self._say_if_kept(members)
                self._drop(members)
        return True

    def _oldest_to_drop(self) -> int | None:
        protected = self._protected()
        runs = {run_of(path) for path in self._sizes if path not in protected} - {self.run}
        return min(runs, default=None)

    def _drop(self, members: list[Path]) -> None:
        for path in members:
            path.unlink(missing_ok=True)
            if self._beside:
                path.with_suffix(self._beside).unlink(missing_ok=True)
            del self._sizes[path]
            self._thinned.discard(path)
            self._reduced.discard(path)
            self._changed.pop(path, None)


def _mapped(path: Path, size: int) -> mmap.mmap:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(handle, 0, size)
        return mmap.mmap(handle, size)
    finally:
        os.close(handle)


def _is_blank(path: Path) -> bool:
    """Whether the segment was allocated, but its process was killed before it wrote the header."""
    with path.open("rb") as file:
        return not any(file.read(HEADER_BYTES))


def _thinned_level(path: Path) -> int:
    try:
        return read_header(path).thinned
    except NotASegment:
        return 0  # Of another version, or spoiled: not ours to remove.


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def run_of(path: Path) -> int:
    return int(path.name.partition("-")[0])


def ring_files(directory: Path) -> list[Path]:
    """The segments of a ring, oldest first."""
    return sorted(path for path in directory.glob("*.seg") if NAME.fullmatch(path.name))


def runs(directory: Path, content: int) -> dict[int, list[Path]]:
    """The files of each run whose beginning is still there, oldest first."""
    files_of: dict[int, list[Path]] = {}
    for path in ring_files(directory):
        try:
            header = read_header(path)
        except (NotASegment, FileNotFoundError):
            continue  # Allocated but never written, or dropped meanwhile.
        if header.what == content and (header.part == 0 or header.run in files_of):
            files_of.setdefault(header.run, []).append(path)
    return files_of
