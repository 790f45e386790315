"""A digest of all inputs and commits of a run, cheap enough to be always on; for kept runs, also the log."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

import msgspec

from fathom.store.protocol import Change

LogEntry = tuple[
    int, str, int, int, int
]  # Time in ns, process, kind of input, number, checksum of its payload.

# Notes are folded into the digest in batches: one encoding of many is much cheaper than many of one.
INPUTS_PER_FOLD = 4096


class Trace:
    def __init__(self) -> None:
        self.inputs = 0
        self.log: list[LogEntry] | None = None
        self._notes: list[Any] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self._encode = msgspec.msgpack.Encoder().encode

    def input(self, note: tuple[int, int, int, int]) -> int:
        """Record one input: time, process, kind and number. Returns how many there were, including it."""
        self._notes.append(note)
        self.inputs += 1
        if not self.inputs % INPUTS_PER_FOLD:
            self._fold()
        return self.inputs

    def commit(self, now_ns: int, changes: tuple[Change, ...]) -> None:
        """Add a commit to the digest too: a UID that was not drawn from the seed then shows."""
        for change in changes:
            body = zlib.crc32(change.entry.body.encoded) if change.entry is not None else 0
            self._notes.append((now_ns, change.revision, change.key, body))

    def _fold(self) -> None:
        self._digest.update(self._encode(self._notes))
        self._notes.clear()

    def hexdigest(self) -> str:
        self._fold()
        return self._digest.copy().hexdigest()


def checksum(payload: Any) -> int:
    """The checksum of an input's payload, in whichever form it travels."""
    raw = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
    return zlib.crc32(raw)
