"""Segments: files of framed records that a crash can shorten, but not corrupt.

    header │ frame │ frame │ … │ zeros          a frame: length, check, body

A frame's check covers its body and the check before it, so a frame counts only where everything before it is
whole: what is read is a prefix of what was written. A segment that is full is packed: its frames compressed,
its header saying so. Several segments of one run may be in one file (an export).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

MAGIC = b"FATHOMR1"
TAPE, JOURNAL = 1, 2

RAW, ZLIB = 0, 1

FRAME = struct.Struct("<II")  # Length of the body, check. A check is never 0: zeros are where the frames end.
_HEADER = struct.Struct("<8sBBHIIIQ")
_CRC = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CRC.size

# zlib's fastest: 14 × smaller on pods and their watch events, at 400 MB/s and in a thread of its own.
LEVEL = 1
ZLIB_HEADER_BYTES = 2
FLUSHED = b"\x00\x00\xff\xff"  # How a part of a stream ends.

# Sixteen times a segment's usual size: one answer of a server may need a segment of its own. A file whose
# header says more was not written by fathom, and would only fill the memory.
SEGMENT_BYTES_MAX = 256 << 20


class NotASegment(Exception):
    """The file is no segment; the message says what it is instead."""


class SegmentHeader(msgspec.Struct, frozen=True):
    what: int  # TAPE or JOURNAL.
    run: int  # Records of one run can be read without those of another.
    part: int  # Of the run, from 0.
    chain: int  # The check that the first frame's check continues.
    codec: int = RAW
    stored: int = 0  # Bytes that follow; 0: all of them.
    thinned: int = 0  # 1: routine records have been shortened. 2: they have been removed.

    def encode(self) -> bytes:
        fields = _HEADER.pack(
            MAGIC, self.what, self.codec, self.thinned, self.run, self.part, self.chain, self.stored
        )
        return fields + _CRC.pack(zlib.crc32(fields))


def decode_header(raw: bytes) -> SegmentHeader:
    if len(raw) < HEADER_BYTES or raw[: len(MAGIC)] != MAGIC:
        raise NotASegment("not a fathom recording")
    if _CRC.unpack_from(raw, _HEADER.size)[0] != zlib.crc32(raw[: _HEADER.size]):
        raise NotASegment("a recording with a damaged header")
    _, content, codec, thinned, run, part, chain, stored = _HEADER.unpack_from(raw)
    if codec not in {RAW, ZLIB}:
        raise NotASegment("a recording with an unknown compression: use a newer version of fathom")
    return SegmentHeader(content, run, part, chain, codec, stored, thinned)


class Frames:
    """The bodies of a segment's frames, oldest first; afterwards, how it ended."""

    def __init__(self, block: bytes, chain: int) -> None:
        self._block = block
        self.chain = chain  # The last good frame's check.
        self.end = 0  # Where it ends.

    def __iter__(self) -> Iterator[bytes]:
        block, size = self._block, len(self._block)
        while self.end + FRAME.size <= size:
            length, check = FRAME.unpack_from(block, self.end)
            start = self.end + FRAME.size
            if check == 0 or start + length > size:
                return
            body = block[start : start + length]
            if (zlib.crc32(body, self.chain) or 1) != check:
                return
            self.chain, self.end = check, start + length
            yield body

    @property
    def block(self) -> bytes:
        """The frames that have been read, as they are stored."""
        return self._block[: self.end]

    @property
    def torn(self) -> bool:
        """Whether something other than a frame follows. Valid once all frames have been read."""
        return any(self._block[self.end : self.end + 4096])


class Segment(msgspec.Struct, frozen=True):
    header: SegmentHeader
    frames: Frames


def segments(path: Path) -> Iterator[Segment]:
    """The segments of one file, in order."""
    with path.open("rb") as file:
        while raw := file.read(HEADER_BYTES):
            header = decode_header(raw)
            yield Segment(header, Frames(_block(file, header), header.chain))


def read_header(path: Path) -> SegmentHeader:
    with path.open("rb") as file:
        return decode_header(file.read(HEADER_BYTES))


def _block(file: BinaryIO, header: SegmentHeader) -> bytes:
    bytes_left = os.fstat(file.fileno()).st_size - file.tell()
    block = file.read(min(header.stored or bytes_left, bytes_left, SEGMENT_BYTES_MAX + 1))
    if header.codec == ZLIB:
        unpacker = zlib.decompressobj()
        try:
            # As much as there is: a copy may be incomplete.
            block = unpacker.decompress(block, SEGMENT_BYTES_MAX + 1)
        except zlib.error as error:
            raise NotASegment("a recording with damaged compressed data") from error
    if len(block) > SEGMENT_BYTES_MAX:
        raise NotASegment(f"a recording with a segment larger than {SEGMENT_BYTES_MAX >> 20} MiB")
    return block


def packed(segment: Segment) -> bytes:
    """The segment compressed, without the bytes after its last good frame."""
    for _ in segment.frames:
        pass
    return _packed(segment.header, segment.frames.block)


def packed_frames(header: SegmentHeader, bodies: Iterable[bytes]) -> bytes:
    """A packed segment of these records."""
    return _packed(header, framed(bodies, header.chain))


def _packed(header: SegmentHeader, block: bytes) -> bytes:
    return _with_header(header, zlib.compress(block, LEVEL))


def _with_header(header: SegmentHeader, body: bytes) -> bytes:
    return msgspec.structs.replace(header, codec=ZLIB, stored=len(body)).encode() + body


def packed_in_parts(header: SegmentHeader, block: bytes, part_bytes: int) -> tuple[bytes, list[int]]:
    """A packed segment, and where the parts of its block begin: one zlib stream like any other, in which a
    reader may also begin at each part."""
    compressor = zlib.compressobj(LEVEL)
    pieces, starts, size = [], [], 0
    for start in range(0, len(block), part_bytes):
        starts.append(size or ZLIB_HEADER_BYTES)
        pieces.append(compressor.compress(block[start : start + part_bytes]))
        pieces.append(compressor.flush(zlib.Z_FULL_FLUSH))
        size += len(pieces[-2]) + len(pieces[-1])
    pieces.append(compressor.flush())
    return _with_header(header, b"".join(pieces)), starts or [ZLIB_HEADER_BYTES]


def parts_of(stream: bytes, part_bytes: int) -> tuple[bytes, list[int]]:
    """A compressed block, decompressed, and where each of its parts begins in the stream. Of a stream without
    parts, only the beginning. Raises NotASegment."""
    unpacker, pieces, size, starts, at = zlib.decompressobj(), [], 0, [ZLIB_HEADER_BYTES], 0
    try:
        while at < len(stream):
            mark = stream.find(FLUSHED, at)
            end = len(stream) if mark < 0 else mark + len(FLUSHED)
            pieces.append(unpacker.decompress(stream[at:end]))
            size, at = size + len(pieces[-1]), end
            if size == len(starts) * part_bytes:
                starts.append(end)
    except zlib.error as error:
        raise NotASegment("a recording with damaged compressed data") from error
    return b"".join(pieces), starts


def pack(path: Path) -> int:
    """Replace a file of one raw segment by its packed form; returns its new size. Runs in a thread, so that
    zlib and the disk do not block the process."""
    (segment,) = segments(path)
    if segment.header.codec != RAW:
        return path.stat().st_size
    return replace_file(path, packed(segment))


def thin(path: Path, keep: Callable[[list[bytes]], Iterable[bytes]], part_bytes: int, level: int = 1) -> int:
    """Replace a segment by the records that `keep` returns; returns its new size. In `pack`'s thread."""
    (segment,) = segments(path)
    if segment.header.thinned >= level:
        return path.stat().st_size
    header = msgspec.structs.replace(segment.header, thinned=level)
    block = framed(keep(list(segment.frames)), header.chain)
    return replace_file(path, packed_in_parts(header, block, part_bytes)[0])


def framed(bodies: Iterable[bytes], chain: int) -> bytes:
    block = bytearray()
    for body in bodies:
        chain = zlib.crc32(body, chain) or 1
        block += FRAME.pack(len(body), chain) + body
    return bytes(block)


def replace_file(path: Path, content: bytes) -> int:
    packing = path.with_suffix(".packing")
    written_ns = path.stat().st_mtime_ns  # It says when the segment's records were made: see `ring`.
    with os.fdopen(os.open(packing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # Else a power cut could leave the new name without the old content.
    os.utime(packing, ns=(written_ns, written_ns))
    packing.replace(path)
    return len(content)
