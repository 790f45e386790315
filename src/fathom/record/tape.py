"""The flight recorder's tape: every input of a deciding process, and every ask it made, in order.

    DIR/00000007-000000.seg   run 7 begins: START (what the process began with), inputs, asks
    DIR/00000007-000001.seg   … goes on
    DIR/00000008-000000.seg   run 8: the next incarnation

A coroutine's state cannot be saved, so a tape can only be replayed from where a process began. Each run
begins there: the ring drops whole runs, and the rest can always be replayed from its first record. So a
long-lived process restarts in place when its run has used its share of the budget (`recorded_process`).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import msgspec

from fathom.record.ring import DetailPolicy, Ring, runs
from fathom.record.segment import TAPE, NotASegment, segments
from fathom.seams.log import Log
from fathom.seams.process import Birth, epoch_of
from fathom.seams.seam import Ask, Input

# Packed, some days of a small cluster, or hours of a large one.
BUDGET_BYTES = 1 << 30
# A run may use one part in so many of the budget: the other runs are history that can be replayed whole.
RUNS_KEPT = 4

# A record kind beside the numbers of Input. Never change it.
ASK = 32

# Kind, flags, status, number, time, checksum. A future flag will say that a payload is kept elsewhere (as a
# revision of the store); readers that do not know a flag refuse the record.
HEAD = struct.Struct("<BBHqqI")
_pack_head = HEAD.pack

_decode_birth = msgspec.json.Decoder(Birth).decode


class DiskTape:
    """A Tape on disk. A new run begins with each START."""

    def __init__(
        self,
        directory: Path,
        *,
        budget_bytes: int = BUDGET_BYTES,
        whole_asks: bool = False,
        log: Log | None = None,
        kept: DetailPolicy | None = None,
    ) -> None:
        self.records = 0  # Kept in total.
        self.directory = directory
        self._ring = Ring(directory, TAPE, budget_bytes=budget_bytes, log=log, kept=kept)
        self._whole_asks = whole_asks  # With bodies: half as much again, and a divergence shows both.

    def append(
        self, kind: Input, number: int, *, now_ns: int, status: int, checksum: int, payload: bytes
    ) -> None:
        if kind is Input.START:
            self._ring.begin()
        head = _pack_head(kind, 0, status, number, now_ns, checksum)
        self.records += self._ring.append(head + payload)

    def asked(self, number: int, ask: Ask, *, now_ns: int, checksum: int) -> None:
        head = _pack_head(ASK, 0, 0, number, now_ns, checksum)
        self.records += self._ring.append(head + ask_payload(ask, whole=self._whole_asks))

    @property
    def recording(self) -> bool:
        """False where the disk or the budget is full; the next START tries again."""
        return self._ring.recording

    @property
    def run_has_had_its_share(self) -> bool:
        return self._ring.run_bytes * RUNS_KEPT >= self._ring.budget_bytes

    @property
    def run(self) -> int:
        return self._ring.run

    @property
    def run_bytes(self) -> int:
        return self._ring.run_bytes

    @property
    def lost(self) -> int:
        return self._ring.lost

    @property
    def disk_bytes(self) -> int:
        return self._ring.disk_bytes

    def close(self) -> None:
        self._ring.close()


class Record(msgspec.Struct, frozen=True):
    kind: int  # An Input, or ASK.
    number: int
    now_ns: int
    status: int
    checksum: int
    payload: bytes


class BadTape(Exception):
    """The file or directory cannot be replayed; the message says why."""


class Reel(msgspec.Struct, frozen=True):
    """One run: a process from its beginning to its end, or to where the record ends."""

    run: int
    files: tuple[Path, ...]
    records_max: int | None = None  # More may be on disk: see `as_it_is`.

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.files if path.exists())

    def birth(self) -> Birth:
        first = next(iter(self.records()), None)
        if first is None or first.kind != Input.START:
            raise BadTape("the tape does not begin with the start of a process")
        return birth_of(first)

    def last_ns(self) -> int:
        """The time of its last complete record; reads its last segments only."""
        for path in reversed(self.files):
            bodies = chain.from_iterable(segment.frames for segment in segments(path))
            for last in deque(bodies, maxlen=1):
                return _record(last).now_ns
        return 0

    def as_it_is(self) -> Reel:
        """Without the records that its process adds from now on."""
        return msgspec.structs.replace(self, records_max=sum(1 for _ in self._frames()))

    def records(self) -> Iterator[Record]:
        """All complete records from the first. Ends where a crash truncated the tape."""
        return map(_record, islice(self._frames(), self.records_max))

    def _frames(self) -> Iterator[bytes]:
        check, part = self.run, 0
        for path in self.files:
            for segment in segments(path):
                header = segment.header
                if (header.run, header.part, header.chain) != (self.run, part, check):
                    return  # The end of the segment before it was lost.
                yield from segment.frames
                check, part = segment.frames.chain, part + 1


def birth_of(start: Record) -> Birth:
    try:
        return _decode_birth(start.payload)
    except msgspec.DecodeError as error:
        raise BadTape(f"the tape's first record cannot be read: {error}") from error


def _record(body: bytes) -> Record:
    if len(body) < HEAD.size:
        raise BadTape("a record is too short")
    kind, flags, status, number, now_ns, checksum = HEAD.unpack_from(body)
    if flags:
        raise BadTape(f"a record has unknown flags ({flags:#x}): use a newer version of fathom")
    return Record(kind, number, now_ns, status, checksum, body[HEAD.size :])


class TapeBeginning:
    """Passes the records of a run up to a time of the wall clock, as its process saw it: decisions have that
    time too."""

    def __init__(self, epoch_ns: int, until_ns: int) -> None:
        self._epoch_ns, self._until_ns = epoch_ns, until_ns
        self.last_ns = epoch_ns  # Of the last record that was passed.
        self.cut = False  # Later records were left out.

    def of(self, bodies: Iterable[bytes]) -> Iterator[bytes]:
        for body in bodies:
            record = _record(body)
            time_ns = self._epoch_ns + record.now_ns
            if self.cut or time_ns > self._until_ns:
                self.cut = True
                return
            self.last_ns = time_ns
            if record.kind == Input.CLOCK:
                self._epoch_ns = epoch_of(record.payload)
            yield body


def reels(path: Path) -> list[Reel]:
    """The runs of a tape's directory, or of an exported file; oldest first."""
    if path.is_dir():
        return [Reel(run, tuple(files)) for run, files in runs(path, TAPE).items()]
    try:
        header = next(iter(segments(path))).header
    except NotASegment as error:
        raise BadTape(f"{path} is {error}") from error
    except StopIteration as error:
        raise BadTape(f"{path} is empty") from error
    if header.what != TAPE or header.part != 0:
        raise BadTape(f"{path} is a recording, but does not contain the start of a process")
    return [Reel(header.run, (path,))]


def ask_payload(ask: Ask, *, whole: bool) -> bytes:
    body = ask.body if isinstance(ask.body, bytes) else msgspec.json.encode(ask.body)
    line = f"{ask.method} {ask.target} {len(body)}"
    if not whole:
        return line.encode()
    headers = "".join(f"\n{name}: {value}" for name, value in ask.headers)
    return f"{line}{headers}\n\n".encode() + body


class TapedRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """An ask, described for output: the live one as far as recorded, the replay's in full."""

    number: int
    method: str
    target: str
    body_bytes: int
    checksum: str  # Of method, target, headers and body.
    headers: tuple[str, ...] | None = None  # None where the tape has not kept them.
    body: str | None = None


def asked(number: int, checksum: int, payload: bytes) -> TapedRequest:
    head, separator, body = payload.partition(b"\n\n")
    line, *headers = head.decode(errors="replace").split("\n")
    method, _, target_and_size = line.partition(" ")
    target, _, size = target_and_size.rpartition(" ")
    whole = (tuple(headers), body.decode(errors="replace")) if separator else (None, None)
    return TapedRequest(number, method, target, int(size or 0), f"{checksum:08x}", *whole)
