"""The audit log's entries about a few objects, read in a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from fathom.explain.evidence import Gap, ObjectRef
from fathom.model.audit import AuditEntry
from fathom.record.audit_reading import entry_of, files

# A search holds up the server's other threads: it goes through the log in pieces that take less than 1 ms.
PIECE_BYTES = 1 << 20
# Of all the objects of a question together, the newest: some 4 MB. Some objects are written every second.
ENTRIES_MAX = 5_000


class AuditAnswer(msgspec.Struct, frozen=True):
    entries: tuple[AuditEntry, ...] = ()
    gap: Gap | None = None


def read_audit(directory: Path | None, refs: Iterable[ObjectRef]) -> AuditAnswer:
    """Writes of the objects, oldest first."""
    wanted = {(ref.resource, ref.namespace, ref.name) for ref in refs}
    if directory is None:
        return AuditAnswer(gap=Gap("audit log", "this server keeps none"))
    try:
        entries = deque(
            (
                entry
                for path in files(directory)
                for entry in _entries(path, {name for _, _, name in wanted})
                if (entry.resource, entry.namespace, entry.name) in wanted
            ),
            maxlen=ENTRIES_MAX,
        )
    except OSError as error:
        return AuditAnswer(gap=Gap("audit log", str(error)))
    cut = Gap("audit log", f"only the newest {ENTRIES_MAX} writes were read")
    return AuditAnswer(tuple(entries), cut if len(entries) == ENTRIES_MAX else None)


def _entries(path: Path, names: set[str]) -> Iterator[AuditEntry]:
    clues = [msgspec.json.encode(name) for name in sorted(names)]
    for piece in _pieces(path):
        # Most lines are about other objects: searching the bytes is far cheaper than decoding them.
        for line in sorted({start for clue in clues for start in _lines_with(piece, clue)}):
            end = piece.find(b"\n", line)
            if (entry := entry_of(piece[line : end if end >= 0 else len(piece)])) is not None:
                yield entry


def _lines_with(piece: bytes, clue: bytes) -> Iterator[int]:
    """Where lines begin that contain the clue."""
    at = piece.find(clue)
    while at >= 0:
        yield piece.rfind(b"\n", 0, at) + 1
        end = piece.find(b"\n", at)
        at = piece.find(clue, end) if end >= 0 else -1


def _pieces(path: Path) -> Iterator[bytes]:
    """Whole lines."""
    try:
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece + file.readline()
    except FileNotFoundError:  # Rotated away meanwhile.
        return
