"""The loop that drives many connections at once, and what it notes down.

A lane is one connection's script, written as a generator: it yields a request and is sent the answer. Each
lane has one request in flight, as a busy client with that many workers would.
"""

from __future__ import annotations

import select
import time
from collections.abc import Generator, Iterable, Sequence
from typing import Protocol

import msgspec

from fathom.bench.errors import AllSilent, BenchFailed
from fathom.bench.wire import STALL_S, AnswerParser, WireAnswer, WireConnection

Lane = Generator[bytes, WireAnswer, None]


class DriveListener(Protocol):
    """Something that waits for its connection to become readable."""

    connection: WireConnection

    def readable(self) -> bool:
        """Take what has come. True when this listener has all it waits for."""
        ...


class DriveCaller:
    """Plays one lane on one connection and notes how long each answer took."""

    def __init__(self, connection: WireConnection, lane: Lane, latencies_ns: list[int]) -> None:
        self.connection = connection
        self._lane = lane
        self._latencies_ns = latencies_ns
        self._parser = AnswerParser()
        self._sent_ns = 0

    def start(self) -> bool:
        """False when the lane has nothing to ask."""
        request = next(self._lane, None)
        if request is None:
            return False
        if self.connection.is_closed:
            self.connection.open_again()
        self._send(request)
        return True

    def readable(self) -> bool:
        piece = self.connection.receive()
        if piece is None:
            return False
        now = time.perf_counter_ns()
        if not piece:
            raise BenchFailed("the server closed a connection while an answer was due")
        answer = self._parser.feed(piece)
        if answer is None:
            return False
        self._latencies_ns.append(now - self._sent_ns)
        self.connection.is_last = answer.closes
        try:
            request = self._lane.send(answer)
        except StopIteration:
            return True
        if answer.closes:
            self.connection.open_again()
        self._send(request)
        return False

    def _send(self, request: bytes) -> None:
        self._sent_ns = time.perf_counter_ns()
        self.connection.send(request)


class Phase(msgspec.Struct, frozen=True):
    """One kind of request, repeated: how long each took, and all of them."""

    latencies_ns: list[int]
    elapsed_s: float

    @property
    def per_s(self) -> float:
        return len(self.latencies_ns) / self.elapsed_s if self.elapsed_s else 0.0


def drive(connections: Sequence[WireConnection], lanes: Iterable[Lane]) -> Phase:
    """Play every lane on its own connection until all have ended."""
    latencies_ns: list[int] = []
    callers = [DriveCaller(*pair, latencies_ns) for pair in zip(connections, lanes, strict=True)]
    began = time.perf_counter()
    listen([caller for caller in callers if caller.start()])
    return Phase(latencies_ns, time.perf_counter() - began)


def listen(listeners: Iterable[DriveListener], *, stall_s: float = STALL_S) -> None:
    """Serve every listener until each has all it waits for. Raises `AllSilent`."""
    waiting = {listener.connection.fileno: listener for listener in listeners}
    with select.epoll() as poll:
        for fileno in waiting:
            poll.register(fileno, select.EPOLLIN)
        while waiting:
            ready = poll.poll(stall_s)
            if not ready:
                raise AllSilent(f"no answer for {stall_s:g} s on {len(waiting)} connections")
            for fileno, _ in ready:
                listener = waiting[fileno]
                if listener.readable():
                    poll.unregister(fileno)
                    del waiting[fileno]
                elif listener.connection.fileno != fileno:  # Another connection took its place.
                    del waiting[fileno]
                    waiting[listener.connection.fileno] = listener
                    poll.register(listener.connection.fileno, select.EPOLLIN)


def percentile_ms(latencies_ns: Sequence[int], percent: float) -> float:
    """The smallest latency that `percent` of all do not exceed."""
    ordered = sorted(latencies_ns)
    at = max(0, -(-len(ordered) * percent // 100) - 1)
    return ordered[int(at)] / 1e6
