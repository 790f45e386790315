"""One watch stream, counted as it comes.

Events end in a newline and JSON has no bare newline elsewhere, while HTTP's chunk framing uses CRLF only. So
the number of events in any piece of a stream is its newlines less its CRLFs, however the server cut it into
chunks and records: two scans at memory speed instead of a parser.
"""

from __future__ import annotations

import msgspec

from fathom.bench.errors import BenchFailed
from fathom.bench.wire import LAST_CHUNK, WireConnection, read_answer, read_chunks


class StreamWatcher:
    """Waits for its head, then for `expected` events. Where `keep` is set it also keeps every byte."""

    def __init__(self, connection: WireConnection, *, keep: bool = False) -> None:
        self.connection = connection
        self.events = 0
        self._expected = 0
        self._keep = keep
        self._kept: list[bytes] = []
        self._head: bytes | None = b""  # None once it has been read.
        self._tail = b""  # The last byte seen: a CRLF may be cut in two.

    def expect(self, events: int) -> None:
        self._expected = events

    def readable(self) -> bool:
        piece = self.connection.receive()
        if piece is None:
            return False
        if not piece:
            raise BenchFailed(f"the server closed a watch after {self.events} of {self._expected} events")
        if self._head is not None:
            return self._read_head(piece)
        self._count(piece)
        return self.events >= self._expected

    def _count(self, piece: bytes) -> None:
        self.events += piece.count(b"\n") - piece.count(b"\r\n")
        if self._tail == b"\r" and piece.startswith(b"\n"):
            self.events -= 1
        self._tail = piece[-1:]
        if self._keep:
            self._kept.append(piece)
        if piece.endswith(LAST_CHUNK) and self.events < self._expected:
            raise BenchFailed(f"the server ended a watch after {self.events} of {self._expected} events")

    def _read_head(self, piece: bytes) -> bool:
        self._head = (self._head or b"") + piece
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            return False
        if not self._head.startswith(b"HTTP/1.1 200 "):
            answer, _ = read_answer(self._head)
            text = (answer.body if answer else self._head)[:300].decode(errors="replace")
            raise BenchFailed(f"the server refused a watch: {text}")
        if b"\r\ntransfer-encoding: chunked" not in self._head[:end].lower():
            raise BenchFailed("the server does not send a watch in chunks")
        rest, self._head = self._head[end + 4 :], None
        self._count(rest)
        return True

    def drain(self) -> None:
        """Take what came after the last event that was due."""
        while piece := self.connection.receive():
            self._count(piece)

    @property
    def kept(self) -> bytes:
        """The stream so far, as it came; only where it is kept."""
        return b"".join(self._kept)

    def kept_events(self) -> list[SeenEvent]:
        """The whole stream, decoded; only where it was kept."""
        # An open stream lacks its last chunk; add it.
        body = read_chunks(self.kept + LAST_CHUNK, 0)
        return [msgspec.json.decode(line, type=SeenEvent) for line in (body or b"").splitlines()]


class _SeenMeta(msgspec.Struct, frozen=True):
    name: str
    revision: str = msgspec.field(name="resourceVersion")


class _SeenObject(msgspec.Struct, frozen=True):
    metadata: _SeenMeta


class SeenEvent(msgspec.Struct, frozen=True):
    type: str
    object: _SeenObject

    @property
    def name(self) -> str:
        return self.object.metadata.name

    @property
    def revision(self) -> int:
        return int(self.object.metadata.revision)
