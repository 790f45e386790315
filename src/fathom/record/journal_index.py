"""The index of a journal's segment: for each record its kind, and hashes of its id, object and namespace.

    header: what it is an index of │ where the parts of the compressed block begin │ columns │ check

A reader compares whole columns (NumPy: a few microseconds for a segment), decompresses the 64 KiB that hold
a matching record, decodes it and compares: equal hashes only mean "perhaps". The index holds no record and no
text. It is written beside its segment when that is packed, and belongs to it only while both have the same
header: where the segment was thinned since, or a crash cut the index short, the reader makes one in memory.
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
from fathom.record.segment import FRAME, HEADER_BYTES, RAW, Frames, NotASegment, decode_header, parts_of

SUFFIX = ".index"
# How much is decompressed to read one record: less would compress worse, more would take longer.
PART_BYTES = 64 << 10

MAGIC = b"FATHOMX1"
_HEADER = struct.Struct(f"<8s{HEADER_BYTES}sII")
_CRC = struct.Struct("<I")

DECISION, OUTCOME, ROSTER, COLUMN, VERDICTS = (ord(letter) for letter in "DORCV")
EVICTION = ord("E")  # Not a record: a decision again, under the pod that it evicts.
_TABLES = frozenset({ROSTER, COLUMN, VERDICTS})

Hashes = NDArray[np.uint32]


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


def object_hash(resource: str, namespace: str, name: str) -> int:
    return crc32(f"{resource}/{namespace}/{name}".encode())


class Columns(msgspec.Struct, frozen=True):
    """A row for each record, in their order."""

    kinds: NDArray[np.uint8]
    offsets: NDArray[np.uint32]  # Of the record's frame, in the decompressed block.
    ids: Hashes  # Of a decision and its outcomes: the decision's. Of a table: its own.
    objects: Hashes  # Of a decision: its subject. Of an outcome: the object that was written; 0: none.
    namespaces: Hashes  # Of a decision: its subject's.
    values: NDArray[np.uint32]  # Of a decision: its time in seconds. Of an outcome: its revision, mod 2**32.


class Rows:
    """Makes the columns, record by record."""

    def __init__(self) -> None:
        self._kinds = array("B")
        self._rest = tuple(array("I") for _ in range(5))

    def add_frames(self, frames: Frames, start: int = 0) -> None:
        """`start`: where the first frame is in the block."""
        for body in frames:
            self.add(body, start + frames.end - len(body) - FRAME.size)

    def add(self, body: bytes, offset: int) -> None:
        kind, rest = body[0], memoryview(body)[1:]
        if kind == DECISION:
            self._add_decision(_decode_decision(rest), offset)
        elif kind == OUTCOME:
            keys = _decode_outcome(rest)
            target = keys.object
            written = 0 if target is None else object_hash(target.resource, target.namespace, target.name)
            self._row(kind, offset, text_hash(keys.id), written, 0, keys.revision & 0xFFFFFFFF)
        elif kind in _TABLES:
            self._row(kind, offset, text_hash(_decode_table(rest).id), 0, 0, 0)

    def _add_decision(self, keys: _DecisionKeys, offset: int) -> None:
        subject, id_ = keys.subject, text_hash(keys.id)
        namespace, seconds = text_hash(subject.namespace), keys.time_ns // 1_000_000_000 & 0xFFFFFFFF
        about = object_hash(subject.resource, subject.namespace, subject.name)
        self._row(DECISION, offset, id_, about, namespace, seconds)
        for victim in victims_of(keys.victims):
            self._row(EVICTION, offset, id_, crc32(f"pods/{victim}".encode()), namespace, seconds)

    def _row(self, kind: int, *fields: int) -> None:
        self._kinds.append(kind)
        for column, field in zip(self._rest, fields, strict=True):
            column.append(field)

    def columns(self) -> Columns:
        """A copy: the rows may grow later."""
        return Columns(
            np.frombuffer(self._kinds.tobytes(), np.uint8),
            *(np.frombuffer(column.tobytes(), np.uint32) for column in self._rest),
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
    magic, owner, parts, rows = _HEADER.unpack_from(raw)
    at = _HEADER.size
    if (magic, owner) != (MAGIC, header) or len(raw) != at + 4 * parts + 21 * rows + _CRC.size:
        return None
    starts = np.frombuffer(raw, np.uint32, parts, at)
    at += 4 * parts
    wide = [np.frombuffer(raw, np.uint32, rows, at + 4 * rows * column) for column in range(5)]
    kinds = np.frombuffer(raw, np.uint8, rows, at + 20 * rows)
    return Index(Columns(kinds, *wide), tuple(starts.tolist()))


def encoded(index: Index, header: bytes) -> bytes:
    columns = index.columns
    wide = (columns.offsets, columns.ids, columns.objects, columns.namespaces, columns.values)
    content = b"".join(
        (
            _HEADER.pack(MAGIC, header, len(index.parts), len(columns.kinds)),
            np.array(index.parts, np.uint32).tobytes(),
            *(column.tobytes() for column in wide),
            columns.kinds.tobytes(),
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


def write_index(segment: Path) -> int:
    """Write the index beside a packed segment unless it has one; returns its size. In the packing thread. A
    full disk leaves the segment without an index."""
    target = segment.with_suffix(SUFFIX)
    try:
        with segment.open("rb") as file:
            header, stored = file.read(HEADER_BYTES), file.read()
        if read_index(segment, header) is not None:
            return target.stat().st_size
        content = encoded(make_index(header, stored), header)
        writing = segment.with_suffix(".indexing")
        with os.fdopen(os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        writing.replace(target)
    except (OSError, NotASegment, msgspec.DecodeError):
        with contextlib.suppress(OSError):
            target.unlink(missing_ok=True)
        return 0
    return len(content)


def matching(column: Hashes, wanted: Iterable[int]) -> NDArray[np.intp]:
    """The rows whose hash is among the wanted ones. Two steps: a table by the low bits leaves few rows to
    compare exactly, so that many wanted hashes cost no more than one."""
    hashes = np.fromiter(wanted, np.uint32)
    low = np.zeros(1 << 16, dtype=bool)
    low[hashes & 0xFFFF] = True
    rows = np.flatnonzero(low[column & 0xFFFF])
    return rows[np.isin(column[rows], hashes)]
