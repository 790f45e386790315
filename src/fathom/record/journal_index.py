"""The index of a journal's segment: hashes of ids, objects and namespaces, and where the records are.

    header: what it is an index of │ where the parts of the compressed block begin │ columns │ check

A reader compares whole columns (NumPy: a few microseconds for a segment), decompresses the 64 KiB that hold
a matching record, decodes it and compares: equal hashes only mean "perhaps". The index holds no record and no
text: some 30 bytes for a decision and its outcome. It is written beside its segment when that is packed, and
belongs to it only while both have the same header: where the segment was thinned since, or a crash cut the
index short, the reader makes one in memory.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from array import array
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from fathom.model.record_query import victims_of
from fathom.record.segment import (
    FRAME,
    HEADER_BYTES,
    RAW,
    Frames,
    NotASegment,
    decode_header,
    packed_in_parts,
    parts_of,
    replace_file,
    segments,
)

SUFFIX = ".index"
# How much is decompressed to read one record: less would compress worse, more would take longer.
PART_BYTES = 64 << 10

FEW_HASHES = 8

MAGIC = b"FATHOMX1"
_HEADER = struct.Struct(f"<8s{HEADER_BYTES}sI5I")
_CRC = struct.Struct("<I")

Hashes = NDArray[np.uint32]
Numbers = NDArray[np.uint32]


class _Subject(msgspec.Struct, gc=False):
    resource: str
    namespace: str
    name: str


class _DecisionKeys(msgspec.Struct, gc=False):
    """The fields of a Decision that the index needs: the decoder skips the others."""

    id: str
    time_ns: int
    subject: _Subject
    victims: tuple[str, ...] = ()


class _OutcomeKeys(msgspec.Struct, gc=False):
    id: str
    revision: int = 0
    object: _Subject | None = None


class _TableKeys(msgspec.Struct, gc=False):
    id: str


_decode_decision = msgspec.json.Decoder(_DecisionKeys).decode
_decode_outcome = msgspec.json.Decoder(_OutcomeKeys).decode
_decode_table = msgspec.json.Decoder(_TableKeys).decode


def text_hash(text: str) -> int:
    return crc32(text.encode())


def namespace_hash(namespace: str) -> int:
    return crc32(namespace.encode()) & 0xFFFF


def object_hash(resource: str, namespace: str, name: str) -> int:
    return crc32(f"{resource}/{namespace}/{name}".encode())


class Columns(msgspec.Struct, frozen=True):
    """Five tables with a row for each record, in their order; offsets are those of the records' frames in the
    decompressed block."""

    decisions: Numbers  # Offsets.
    decision_ids: Hashes
    decision_objects: Hashes  # Subjects.
    decision_seconds: Numbers  # Times.
    decision_namespaces: NDArray[np.uint16]  # Subjects'.

    outcomes: Numbers  # Offsets.
    outcome_ids: Hashes  # Their decisions'.
    outcome_revisions: Numbers  # Modulo 2**32.

    # Objects that a decision wrote, other than its subject.
    written_ids: Hashes  # The decision's.
    written_objects: Hashes

    # Pods that a decision evicts.
    evicted: Numbers  # Offsets of the decisions.
    evicted_objects: Hashes

    # Rosters, columns and verdicts.
    tables: Numbers  # Offsets.
    table_ids: Hashes


# How many rows the columns have, table by table, and the types in the order of the fields.
_TABLES = (5, 3, 2, 2, 2)
_TYPES = tuple("H" if name == "decision_namespaces" else "I" for name in Columns.__struct_fields__)


class Rows:
    """Makes the columns, record by record."""

    def __init__(self) -> None:
        self._arrays = tuple(array(code) for code in _TYPES)
        # Bound methods: a segment has tens of thousands of rows, and the process that decides shares its time
        # with the thread that packs.
        self._append = [column.append for column in self._arrays]
        self._subjects: dict[int, int] = {}  # Of decisions without an outcome yet: id -> subject, hashed.

    def add_frames(self, frames: Frames, start: int = 0) -> None:
        """`start`: where the first frame is in the block. A record that cannot be decoded has no row."""
        for body in frames:
            offset, kind = start + frames.end - len(body) - FRAME.size, body[:1]
            try:
                if kind == b"D":
                    self._add_decision(_decode_decision(memoryview(body)[1:]), offset)
                elif kind == b"O":
                    self._add_outcome(_decode_outcome(memoryview(body)[1:]), offset)
                else:
                    self._add_table(_decode_table(memoryview(body)[1:]), offset)
            except msgspec.DecodeError:
                continue

    def _add_decision(self, keys: _DecisionKeys, offset: int) -> None:
        offsets, ids, objects, seconds, namespaces = self._append[0:5]
        subject, id_ = keys.subject, crc32(keys.id.encode())
        about = crc32(f"{subject.resource}/{subject.namespace}/{subject.name}".encode())
        offsets(offset)
        ids(id_)
        objects(about)
        seconds(keys.time_ns // 1_000_000_000 & 0xFFFFFFFF)
        namespaces(crc32(subject.namespace.encode()) & 0xFFFF)
        self._subjects[id_] = about
        for victim in victims_of(keys.victims):
            self._append[10](offset)
            self._append[11](crc32(f"pods/{victim}".encode()))

    def _add_outcome(self, keys: _OutcomeKeys, offset: int) -> None:
        offsets, ids, revisions = self._append[5:8]
        id_, written = crc32(keys.id.encode()), keys.object
        offsets(offset)
        ids(id_)
        revisions(keys.revision & 0xFFFFFFFF)
        subject = self._subjects.pop(id_, None)
        if written is not None:
            target = object_hash(written.resource, written.namespace, written.name)
            if target != subject:
                self._append[8](id_)
                self._append[9](target)

    def _add_table(self, keys: _TableKeys, offset: int) -> None:
        self._append[12](offset)
        self._append[13](crc32(keys.id.encode()))

    def columns(self) -> Columns:
        """A copy: the rows may grow later."""
        return Columns(
            *(
                np.frombuffer(column.tobytes(), np.dtype(code))
                for column, code in zip(self._arrays, _TYPES, strict=True)
            )
        )


class Index(msgspec.Struct, frozen=True):
    columns: Columns
    parts: tuple[int, ...]  # Where each part of the compressed block begins, from its start.


def read_index(segment: Path, header: bytes) -> Index | None:
    """The index beside a segment with this header; None if there is none that is whole and belongs to it."""
    try:
        with segment.with_suffix(SUFFIX).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # Missing, or empty.
        return None
    return _decoded(mapped, header)


def _decoded(raw: mmap.mmap, header: bytes) -> Index | None:
    if len(raw) < _HEADER.size + _CRC.size or _CRC.unpack_from(raw, len(raw) - _CRC.size)[0] != crc32(
        memoryview(raw)[: -_CRC.size]
    ):
        return None
    magic, owner, parts, *rows = _HEADER.unpack_from(raw)
    at = _HEADER.size
    lengths = [count for count, columns in zip(rows, _TABLES, strict=True) for _ in range(columns)]
    sizes = [length * np.dtype(code).itemsize for length, code in zip(lengths, _TYPES, strict=True)]
    if (magic, owner) != (MAGIC, header) or len(raw) != at + 4 * parts + sum(sizes) + _CRC.size:
        return None
    starts = np.frombuffer(raw, np.uint32, parts, at)
    at += 4 * parts
    columns = []
    for length, size, code in zip(lengths, sizes, _TYPES, strict=True):
        columns.append(np.frombuffer(raw, np.dtype(code), length, at))
        at += size
    return Index(Columns(*columns), tuple(starts.tolist()))


def encoded(index: Index, header: bytes) -> bytes:
    columns = [getattr(index.columns, name) for name in Columns.__struct_fields__]
    firsts = [sum(_TABLES[:number]) for number in range(len(_TABLES))]
    rows = (len(columns[first]) for first in firsts)
    content = b"".join(
        (
            _HEADER.pack(MAGIC, header, len(index.parts), *rows),
            np.array(index.parts, np.uint32).tobytes(),
            *(column.tobytes() for column in columns),
        )
    )
    return content + _CRC.pack(crc32(content))


def make_index(header: bytes, stored: bytes) -> Index:
    """The index of a segment that is complete: its header, and the block as it is stored. Raises
    NotASegment."""
    about = decode_header(header)
    block, parts = (stored, [0]) if about.codec == RAW else parts_of(stored, PART_BYTES)
    rows = Rows()
    rows.add_frames(Frames(block, about.chain))
    return Index(rows.columns(), tuple(parts))


def pack_with_index(path: Path) -> int:
    """Replace a raw segment by its packed form and write its index; returns the size of both. In a thread.
    The records are decoded here and not again: the block is at hand."""
    (segment,) = segments(path)
    if segment.header.codec != RAW:
        return path.stat().st_size + write_index(path)
    rows = Rows()
    rows.add_frames(segment.frames)
    content, parts = packed_in_parts(segment.header, segment.frames.block, PART_BYTES)
    size = replace_file(path, content)
    return size + _write(path, Index(rows.columns(), tuple(parts)), content[:HEADER_BYTES])


def write_index(segment: Path) -> int:
    """Write the index beside a packed segment unless it has one; returns its size. In a thread."""
    try:
        with segment.open("rb") as file:
            header, stored = file.read(HEADER_BYTES), file.read()
        if read_index(segment, header) is not None:
            return segment.with_suffix(SUFFIX).stat().st_size
        return _write(segment, make_index(header, stored), header)
    except (OSError, NotASegment):
        return 0


def _write(segment: Path, index: Index, header: bytes) -> int:
    """A full disk leaves the segment without an index, not with half of one."""
    content, writing = encoded(index, header), segment.with_suffix(".indexing")
    try:
        with os.fdopen(os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        writing.replace(segment.with_suffix(SUFFIX))
    except OSError:
        for path in (writing, segment.with_suffix(SUFFIX)):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        return 0
    return len(content)


def matching(column: Hashes, wanted: Iterable[int]) -> NDArray[np.intp]:
    """The rows whose hash is among the wanted ones. A few are compared one by one, in microseconds. Many take
    two steps: a table by the low bits leaves few rows to compare exactly, so that they cost no more."""
    hashes = np.fromiter(wanted, np.uint32)
    if len(hashes) <= FEW_HASHES:
        mask = np.zeros(len(column), dtype=bool)
        for hash_ in hashes:
            mask |= column == hash_
        return np.flatnonzero(mask)
    low = np.zeros(1 << 16, dtype=bool)
    low[hashes & 0xFFFF] = True
    rows = np.flatnonzero(low[column & 0xFFFF])
    return rows[np.isin(column[rows], hashes)] if len(rows) else rows
