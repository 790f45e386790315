"""The Seam: how deciding code sends requests (asks) to the outside and gets the answers as inputs.

    deciding code ──request/open──> Seam ──start/cancel──> Backend      live: sockets on the host's loop
         ^                           │                                   simulated: the world's network
         └──── futures, streams <────┘<──deliver(input)── the driver       replayed: nothing at all

Numbers are assigned here, by deterministic code, so that `(kind, number)` names the same ask in a replay.
The driver gets each ask before the backend does (`on_ask`): a recorder records it before it is sent, a replay
compares it with the recorded one.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol

import msgspec

from fathom.seams.domain import Domain


class Input(IntEnum):
    """The kinds of input to a process. Tapes contain the numbers: never change one."""

    TICK = 0  # Time has passed.
    REPLY = 1  # An ask was answered, or will certainly get no answer.
    OPENED = 2  # A stream has begun (or was refused: see the status).
    CHUNK = 3  # Part of a stream.
    ENDED = 4  # A stream is over.
    SIGNAL = 5  # A request from the host: stop, reload.
    START = 6  # The process began.
    COLLECT = 7  # Garbage was collected, of the generation in `status`.
    CLOCK = 8  # The wall clock was set.


ANSWERS = frozenset({Input.REPLY, Input.OPENED})  # The inputs that an ask waits for.
CHUNK = Input.CHUNK  # Most inputs are chunks: a module-level name is looked up faster.


class Ask(msgspec.Struct, frozen=True, gc=False):
    """One complete request: everything that is sent follows from it."""

    method: str
    target: str  # Path and query.
    body: Any = b""  # Bytes; in simulation an object that is shared.
    headers: tuple[tuple[str, str], ...] = ()

    def checksum(self) -> int:
        """Covers everything that is sent: a fence in a header is as much a part of the ask as the body."""
        body = self.body if isinstance(self.body, bytes) else msgspec.json.encode(self.body)
        head = [self.method, self.target]
        for header in self.headers:
            head += header
        return zlib.crc32(body, zlib.crc32("\n".join(head).encode()))


class Reply(msgspec.Struct, frozen=True, gc=False):
    """`status` 0: no answer came, and whether the ask took effect is unknown; `body` says what happened."""

    status: int
    body: Any = b""
    audit_id: str = ""  # Of the request, in the audit log. Not on tapes: only commands of people ask for it.


class Backend(Protocol):
    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        """Send the request. Its results are delivered later, as inputs with this number."""
        ...

    def cancel(self, number: int) -> None:
        """The caller no longer waits for the answer; the backend need not deliver it."""
        ...


class _NoBackend:
    def start(self, number: int, ask: Ask, *, stream: bool) -> None: ...

    def cancel(self, number: int) -> None: ...


class Seam:
    def __init__(self, domain: Domain, backend: Backend, *, checked: bool = True) -> None:
        """`checked` False without a tape: then checksums are computed only if `on_ask` is set."""
        self._checked = checked
        self._domain = domain
        self._backend = backend
        self._count = 0
        self._waiting: dict[int, asyncio.Future[Reply]] = {}  # Asks without an answer yet.
        self._streams: dict[int, Stream] = {}  # Open, or being opened.
        self._signals: asyncio.Queue[str] = asyncio.Queue()  # Received, but not yet read with `signal`.
        self.asked: dict[int, int] = {}  # Number -> checksum, until its first answer.
        # Called with every ask, in order, before the backend is. Must not raise.
        self.on_ask: Callable[[int, Ask, int], None] | None = None

    @property
    def waiting(self) -> int:
        """How many asks have no answer yet. Streams that are open do not count."""
        return len(self._waiting)

    def expects(self, number: int) -> bool:
        """Whether a caller still waits for an answer to this ask."""
        return number in self._waiting or number in self._streams

    def cut(self) -> None:
        """Disconnect the process: it is over, and nothing its coroutines still do reaches the outside. Call
        `Domain.bury` next."""
        self._backend = _NoBackend()
        self.on_ask = None
        self._waiting, self._streams, self._signals = {}, {}, asyncio.Queue()

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        """One answer. A timeout is an answer too: status 0. The deadline runs on the Domain's own clock, so a
        socket that hangs for ever blocks no caller, and a replay times out at the same input."""
        number = self._number(ask)
        timer = None
        try:
            self._backend.start(number, ask, stream=False)
            timer = self._domain.call_later(timeout_s, self._expire, number, timeout_s)
            return await self._waiting[number]
        finally:
            if timer is not None:
                timer.cancel()
            if number in self._waiting:
                self._drop(number)

    async def open(self, ask: Ask, *, timeout_s: float) -> Stream | Reply:
        """A stream, or the reply that refused it."""
        number = self._number(ask)
        stream = self._streams[number] = Stream(self, number)
        opened = False
        timer = None
        try:
            self._backend.start(number, ask, stream=True)
            timer = self._domain.call_later(timeout_s, self._expire, number, timeout_s)
            reply = await self._waiting[number]
            opened = reply.status == 200
            return stream if opened else reply
        finally:
            if timer is not None:
                timer.cancel()
            self._waiting.pop(number, None)
            if not opened:
                self._close(number)

    def _expire(self, number: int, timeout_s: float) -> None:
        """Answer with a timeout, unless the answer came in the same input as the deadline: then it counts."""
        future = self._waiting.get(number)
        if future is not None and not future.done():
            future.set_result(Reply(0, f"no answer within {timeout_s:g} s".encode()))

    async def signal(self) -> str:
        """Wait for the next signal. Each signal goes to one waiting task."""
        return await self._signals.get()

    def deliver(self, kind: Input, number: int, status: int, payload: Any) -> None:
        """Deliver one input, inside `Domain.input`. An answer that no caller waits for is dropped."""
        if kind == CHUNK:
            stream = self._streams.get(number)
            if stream is not None:
                stream.feed(payload)
        elif kind in ANSWERS:
            self.asked.pop(number, None)
            future = self._waiting.pop(number, None)
            if future is not None and not future.done():
                future.set_result(Reply(status, payload))
        elif kind == Input.ENDED:
            if number in self._streams:
                self._streams[number].end()
        elif kind == Input.SIGNAL:
            self._signals.put_nowait(
                str(payload, "utf-8", "replace") if isinstance(payload, bytes) else str(payload)
            )

    def _number(self, ask: Ask) -> int:
        self._count += 1
        self._waiting[self._count] = self._domain.private_future()
        if self._checked or self.on_ask is not None:
            checksum = self.asked[self._count] = ask.checksum()
            if self.on_ask is not None:
                self.on_ask(self._count, ask, checksum)
        return self._count

    def _drop(self, number: int) -> None:
        self.asked.pop(number, None)
        if self._waiting.pop(number, None) is not None:
            self._backend.cancel(number)

    def _close(self, number: int) -> None:
        self.asked.pop(number, None)
        if self._streams.pop(number, None) is not None:
            self._backend.cancel(number)


class Stream:
    """The chunks of an answer. `read` returns all that have arrived at once: fewer wake-ups under load."""

    __slots__ = ("_chunks", "_ended", "_number", "_seam", "_waiter", "take_now")

    def __init__(self, seam: Seam, number: int) -> None:
        self._seam = seam
        self._number = number
        self._chunks: list[Any] = []
        self._ended = False
        # Takes a chunk for the reader, without waking it, if it can: most chunks are bookmarks, and waking a
        # task costs more than reading one. It is asked only where the reader would be the next to run, and
        # must not raise.
        self.take_now: Callable[[Any], bool] | None = None
        self._waiter: asyncio.Future[None] | None = None  # Done unless a reader waits.

    async def read(self) -> list[Any] | None:
        """All chunks since the last read; None at the end."""
        while not self._chunks:
            if self._ended:
                return None
            self._waiter = asyncio.Future(loop=self._seam._domain)  # As `private_future`, without its frame.
            await self._waiter
        chunks, self._chunks = self._chunks, []
        return chunks

    def close(self) -> None:
        self._ended = True
        self._seam._close(self._number)

    def feed(self, chunk: Any) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._chunks.append(chunk)
        elif self.take_now is None or self._seam._domain.is_busy or not self.take_now(chunk):
            self._chunks.append(chunk)
            waiter.set_result(None)

    def end(self) -> None:
        self._ended = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
