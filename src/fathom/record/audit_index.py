"""The index of an audit log: which lines are about which object.

    for each file: hashes of objects │ where their lines begin

A reader compares a whole column (NumPy: a millisecond for a million lines), reads the lines that match,
decodes them and compares: equal hashes only mean "perhaps". Whoever asks brings the index up to date first,
by reading what was written since; so does the server, every few seconds, so that no question waits for much.

The index is saved beside the log, in `audit-ID.index`, where ID is made from the file's first line: files
are renamed when the log is rotated. It contains no text. It is read again after a restart, as far as it goes
and as far as it is whole; what a crash cut off is made again from the log.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from zlib import crc32

import msgspec
import numpy as np

from fathom import private_files
from fathom.model.audit import AuditEntry
from fathom.model.record_query import ObjectRef
from fathom.record.audit_reading import entry_of, files
from fathom.record.journal_index import matching, object_hash

MAGIC = b"FATHOMA1"
_HEADER = struct.Struct("<8sIQI")  # Magic, the file's first line hashed, bytes indexed, rows.
_CRC = struct.Struct("<I")
# Indexing a piece takes some 2 ms, in which it keeps the interpreter from other threads.
PIECE_BYTES = 1 << 20
# Saved again after so much of the log. It is what a restart has to index again: some 40 ms.
SAVE_BYTES = 8 << 20
LINE_BYTES = 4096  # Read at once; most lines are shorter.
LISTED_MAX = 5  # How often files are listed again while the log is being rotated.

Identity = tuple[int, int]  # Device and inode: a renamed file keeps them.


class _Object(msgspec.Struct, gc=False):
    """The fields of an AuditEntry that the index needs: the decoder skips the others."""

    resource: str
    namespace: str = ""
    name: str = ""


_decode = msgspec.json.Decoder(_Object).decode


class FileIndex:
    """The lines of one file of the log. It is kept open: it may be renamed or removed meanwhile."""

    def __init__(self, file: int, directory: Path) -> None:
        self._file = file
        self._first = crc32(line_at(file, 0))
        self.path = directory / f"audit-{self._first:08x}.index"
        self._hashes, self._offsets = array("I"), array("I")
        self._end = 0  # Lines up to here are indexed.
        self._saved = 0  # Lines up to here are in the saved index.
        self._load()

    def close(self) -> None:
        os.close(self._file)

    def follow(self) -> None:
        """Index the lines that were written since. Raises OSError."""
        while piece := self._whole_lines():
            self._add(piece)
            if self._end - self._saved >= SAVE_BYTES:
                self.save()

    def offsets(self, hashes: Iterable[int]) -> list[int]:
        """Where lines begin that are perhaps about these objects, in their order."""
        rows = matching(np.frombuffer(self._hashes, np.uint32), hashes)
        return [self._offsets[row] for row in rows.tolist()]

    @property
    def lines(self) -> int:
        return len(self._offsets)

    def offset(self, line: int) -> int:
        return self._offsets[line]

    def line(self, offset: int) -> bytes:
        return line_at(self._file, offset)

    def save(self) -> None:
        """A full disk leaves the log without a saved index: it is made again after a restart."""
        if self._saved == self._end:
            return
        header = _HEADER.pack(MAGIC, self._first, self._end, len(self._hashes))
        content = b"".join((header, self._hashes.tobytes(), self._offsets.tobytes()))
        self._saved = self._end
        with contextlib.suppress(OSError):
            private_files.write(self.path, content + _CRC.pack(crc32(content)))

    def _load(self) -> None:
        """The saved index, as far as it goes, if it is whole and belongs to this file."""
        try:
            content = self.path.read_bytes()
        except OSError:
            return
        whole, check = content[: -_CRC.size], content[-_CRC.size :]
        if len(whole) < _HEADER.size or check != _CRC.pack(crc32(whole)):
            return
        magic, first, end, rows = _HEADER.unpack_from(whole)
        columns = whole[_HEADER.size :]
        if (magic, first, 8 * rows) == (MAGIC, self._first, len(columns)) and end <= os.fstat(
            self._file
        ).st_size:
            self._hashes.frombytes(columns[: 4 * rows])
            self._offsets.frombytes(columns[4 * rows :])
            self._end = self._saved = end

    def _whole_lines(self) -> bytes:
        """What comes next, up to a line's end; empty where no line has ended since."""
        piece = os.pread(self._file, PIECE_BYTES, self._end)
        while b"\n" not in piece and (more := os.pread(self._file, PIECE_BYTES, self._end + len(piece))):
            piece += more
        return piece[: piece.rfind(b"\n") + 1]

    def _add(self, piece: bytes) -> None:
        offset, add_hash, add_offset = self._end, self._hashes.append, self._offsets.append
        for line in piece.splitlines(keepends=True):
            try:
                about = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):  # Cut short by a crash.
                pass
            else:
                add_hash(object_hash(about.resource, about.namespace, about.name))
                add_offset(offset)
            offset += len(line)
        self._end = offset


def line_at(file: int, offset: int) -> bytes:
    """The line that begins here, without its end; all that there is, if it has none yet."""
    line = os.pread(file, LINE_BYTES, offset)
    while b"\n" not in line and (more := os.pread(file, PIECE_BYTES, offset + len(line))):
        line += more
    return line.partition(b"\n")[0]


class AuditIndex:
    """The index of a whole log. Questions may come from several threads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._files: dict[Identity, FileIndex] = {}  # Oldest first.

    def follow(self) -> None:
        """Bring the index up to date. Raises OSError."""
        with self._lock:
            self._follow()

    def newest(self, refs: Iterable[ObjectRef], count_max: int) -> list[AuditEntry]:
        """Writes of the objects, oldest first; where there are more, the newest of all of them together.
        Raises OSError."""
        wanted = {(ref.resource, ref.namespace, ref.name) for ref in refs}
        with self._lock:
            self._follow()
            entries = list(islice(self._newest_first(wanted), count_max))
        return entries[::-1]

    def last_write(self, is_after: Callable[[AuditEntry], bool]) -> AuditEntry | None:
        """The last write that is not after a moment; None if the log does not go back so far. Writes are in
        the log's order, which is nearly that of their revisions and times. Raises OSError."""
        with self._lock:
            self._follow()
            count = sum(file.lines for file in self._files.values())

            def ends_before(line: int) -> bool:
                write = next(self._writes(range(line, count)), None)
                return write is None or is_after(write)

            end = bisect_left(range(count), True, key=ends_before)
            return next(self._writes(range(end - 1, -1, -1)), None)

    def close(self) -> None:
        """Save what is not saved yet."""
        with self._lock:
            for file in self._files.values():
                file.save()
                file.close()
            self._files = {}

    def _newest_first(self, wanted: set[tuple[str, str, str]]) -> Iterator[AuditEntry]:
        hashes = [object_hash(*about) for about in wanted]
        for file in reversed(self._files.values()) if hashes else ():
            for offset in reversed(file.offsets(hashes)):
                entry = entry_of(file.line(offset))
                if entry is not None and (entry.resource, entry.namespace, entry.name) in wanted:
                    yield entry

    def _writes(self, lines: Iterable[int]) -> Iterator[AuditEntry]:
        """Lines of the whole log, by their numbers; only those that wrote something."""
        for number in lines:
            before = 0
            for file in self._files.values():
                if number < before + file.lines:
                    entry = entry_of(file.line(file.offset(number - before)))
                    break
                before += file.lines
            else:
                return
            if entry is not None and entry.wrote:
                yield entry

    def _follow(self) -> None:
        current, known = self._listed(), self._files
        # In the log's order. A file without a whole line has nothing to index yet.
        self._files = {
            identity: file
            for identity, path in current.items()
            if (file := known.get(identity) or self._opened(path)) is not None
        }
        self._drop([file for identity, file in known.items() if identity not in current])
        if not known:
            self._remove_stale()
        for file in self._files.values():
            file.follow()
        for file in list(self._files.values())[:-1]:
            file.save()  # Nothing is added to rotated files.

    def _listed(self) -> dict[Identity, Path]:
        """The files of the log, oldest first. Listed until two lists agree: a rotation renames all files."""
        listed = self._listed_once()
        for _ in range(LISTED_MAX):
            again = self._listed_once()
            if again == listed:
                break
            listed = again
        return listed

    def _listed_once(self) -> dict[Identity, Path]:
        listed = {}
        for path in files(self.directory):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                listed[status.st_dev, status.st_ino] = path
        return listed

    def _opened(self, path: Path) -> FileIndex | None:
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # Rotated away meanwhile: the next question finds it.
            return None
        begun = os.pread(file, LINE_BYTES, 0)
        if b"\n" in begun or len(begun) == LINE_BYTES:
            return FileIndex(file, self.directory)
        os.close(file)
        return None

    def _drop(self, dropped: Iterable[FileIndex]) -> None:
        for file in dropped:
            file.path.unlink(missing_ok=True)
            file.close()

    def _remove_stale(self) -> None:
        """Indexes of files that were dropped while no server ran."""
        current = {file.path for file in self._files.values()}
        for path in self.directory.glob("audit-*.index"):
            if path not in current:
                path.unlink(missing_ok=True)
