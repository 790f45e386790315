"""A journal's segments as a reader sees them: their columns, and single records by their place.

A packed segment comes with its index (`journal_index`). The open one is raw: its new frames are read at each
query, from where the last one ended.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from fathom.record.journal_index import PART_BYTES, Columns, Index, Rows, make_index, read_index
from fathom.record.segment import FRAME, HEADER_BYTES, RAW, Frames, NotASegment, SegmentHeader, decode_header

READ_BYTES = 1 << 20
# Decompressed parts that are kept for the next record: records about one object are often neighbours.
PARTS_KEPT = 64

Identity = tuple[int, int, int]


class Gone(Exception):
    """The segment was dropped, packed or thinned meanwhile."""


def identity_of(path: Path) -> Identity:
    """Changes when the file is replaced; not when frames are written to an open segment."""
    status = path.stat()
    return (status.st_dev, status.st_ino, status.st_size)


class PackedSegment:
    """A complete segment."""

    def __init__(self, path: Path, identity: Identity, header: bytes) -> None:
        self.path, self.identity = path, identity
        self._header = header
        self._index = read_index(path, header) or self._made()
        self._parts: dict[int, bytes] = {}

    @property
    def columns(self) -> Columns:
        return self._index.columns

    def body(self, offset: int) -> bytes:
        """The record whose frame begins here. Raises Gone, NotASegment."""
        length, _ = FRAME.unpack(self._bytes(offset, FRAME.size))
        return self._bytes(offset + FRAME.size, length)

    def _bytes(self, start: int, size: int) -> bytes:
        first, last = start // PART_BYTES, (start + size - 1) // PART_BYTES
        if len(self._index.parts) == 1:
            first = last = 0  # Packed by an older version: the whole block is one part.
            joined, begin = self._part(0), start
        else:
            joined = b"".join(self._part(number) for number in range(first, last + 1))
            begin = start - first * PART_BYTES
        piece = joined[begin : begin + size]
        if len(piece) != size:
            raise NotASegment("a recording that ends early")
        return piece

    def _part(self, number: int) -> bytes:
        if (kept := self._parts.get(number)) is not None:
            return kept
        parts = self._index.parts
        end = parts[number + 1] if number + 1 < len(parts) else None
        stored = _read(self.path, self.identity, parts[number], end)
        try:
            part = zlib.decompressobj(-zlib.MAX_WBITS).decompress(stored)
        except zlib.error as error:
            raise NotASegment("a recording with damaged compressed data") from error
        if len(self._parts) >= PARTS_KEPT:
            self._parts.clear()
        self._parts[number] = part
        return part

    def _made(self) -> Index:
        return make_index(self._header, _read(self.path, self.identity, 0, None))


class OpenSegment:
    """A segment that a process writes, or wrote when it was killed. Its file stays open: the packed one
    replaces it when it is full, and the frames read so far must stay readable."""

    def __init__(self, path: Path, identity: Identity, header: SegmentHeader) -> None:
        self.path, self.identity = path, identity
        self._file = path.open("rb")
        status = os.fstat(self._file.fileno())
        if (status.st_dev, status.st_ino) != identity[:2]:
            raise Gone
        self._rows = Rows()
        self._end, self._chain = 0, header.chain
        self._columns: Columns | None = None

    @property
    def columns(self) -> Columns:
        if self._columns is None:
            self._columns = self._rows.columns()
        return self._columns

    def follow(self) -> None:
        """Index the frames that were written since."""
        while self.follow_some():
            pass

    def follow_some(self) -> bool:
        """Index some of them, at most READ_BYTES. False if there were none."""
        block = self._bytes(self._end, READ_BYTES)
        if len(block) >= FRAME.size and FRAME.unpack_from(block)[0] + FRAME.size > len(block):
            block = self._bytes(self._end, FRAME.unpack_from(block)[0] + FRAME.size)
        frames = Frames(block, self._chain)
        self._rows.add_frames(frames, self._end)
        if frames.end:
            self._end, self._chain, self._columns = self._end + frames.end, frames.chain, None
        return frames.end > 0

    def body(self, offset: int) -> bytes:
        length, _ = FRAME.unpack(self._bytes(offset, FRAME.size))
        return self._bytes(offset + FRAME.size, length)

    def _bytes(self, start: int, size: int) -> bytes:
        return os.pread(self._file.fileno(), size, HEADER_BYTES + start)


def open_segment(path: Path) -> PackedSegment | OpenSegment:
    """Raises Gone, NotASegment, FileNotFoundError."""
    identity = identity_of(path)
    with path.open("rb") as file:
        raw = file.read(HEADER_BYTES)
    header = decode_header(raw)
    return OpenSegment(path, identity, header) if header.codec == RAW else PackedSegment(path, identity, raw)


def _read(path: Path, identity: Identity, start: int, end: int | None) -> bytes:
    """Bytes of the stored block. Raises Gone."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            # An open segment is cut to its size when it is sealed: its frames stay where they are.
            if (status.st_dev, status.st_ino) != identity[:2]:
                raise Gone
            file.seek(HEADER_BYTES + start)
            return file.read() if end is None else file.read(end - start)
    except FileNotFoundError as error:
        raise Gone from error
