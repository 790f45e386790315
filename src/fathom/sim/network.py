"""Asks and answers on their way between processes and API servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from fathom.model.body import encode_json
from fathom.model.errors import ApiError
from fathom.seams.seam import Ask, Input
from fathom.sim.faults import LoseReply, LoseRequest, Refuse, SlowReply

if TYPE_CHECKING:
    from fathom.sim.engine import Engine
    from fathom.sim.process import Process

SECOND_NS = 1_000_000_000
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


class Exchange(msgspec.Struct):
    """One ask and what comes back, until it is over. Nothing of it reaches another incarnation."""

    process: Any
    incarnation: int
    number: int
    ask: Ask
    stream: bool
    server: str = ""
    last_ns: int = 0  # When the last piece arrives: a stream keeps its order.
    over: bool = False
    source: Any = None  # The server's end of a stream, to be closed when nobody reads.


class Gate(msgspec.Struct):
    process: str
    match: str
    waiting: list[tuple[Exchange, Any]] = msgspec.field(default_factory=list)

    def concerns(self, exchange: Exchange) -> bool:
        ask = exchange.ask
        named = self.process in {"*", exchange.process.name}
        return named and self.match in f"{ask.method} {ask.target}"


class Network:
    def __init__(self, world: Engine) -> None:
        self._world = world
        self._open: dict[tuple[str, int, int], Exchange] = {}
        self._gates: list[Gate] = []
        self._writes: list[tuple[int, str, str, str, str]] | None = None

    def keep_writes(self) -> list[tuple[int, str, str, str, str]]:
        """From now on, remember who sent which write when: (time, process, server, method, target)."""
        self._writes = []
        return self._writes

    def hold(self, process: str, match: str) -> Gate:
        """Asks that match wait from now on, until the gate is released."""
        gate = Gate(process, match)
        self._gates.append(gate)
        return gate

    def release(self, gate: Gate) -> None:
        self._gates.remove(gate)
        for exchange, fault in gate.waiting:
            self._world.after(0, self._arrive, exchange, fault)

    def send(self, process: Process, number: int, ask: Ask, *, stream: bool) -> None:
        world = self._world
        exchange = Exchange(process, process.incarnation, number, ask, stream, process.server)
        self._open[process.name, process.incarnation, number] = exchange
        if ask.method in WRITES:
            if self._writes is not None:
                self._writes.append((world.now_ns, process.name, process.server, ask.method, ask.target))
            crash = world.faults.crashes_at_write(process.name)
            if crash is not None:
                world.after(0, world.crash, process, crash.for_s)
        if world.faults.partitioned(process.name):
            return  # Never arrives; the deadline will tell.
        fault = world.faults.message(process.name, ask)
        if isinstance(fault, LoseRequest):
            return
        if isinstance(fault, Refuse):
            world.after(self._latency(process.name, exchange.server), self._refuse, exchange, fault.status)
            return
        delay_ns = self._latency(process.name, exchange.server)
        world.after(delay_ns, self._arrive, exchange, fault)

    def cancel(self, process: Process, number: int) -> None:
        exchange = self._open.pop((process.name, process.incarnation, number), None)
        if exchange is not None:
            self._hang_up(exchange)

    def drop_watches(self, target: str, match: str) -> None:
        """Connections of watches break: both ends notice."""
        for exchange in list(self._open.values()):
            named = target in {"*", exchange.process.name, exchange.server}
            if exchange.stream and named and match in exchange.ask.target:
                self._finish(exchange)

    def server_died(self, server: str) -> None:
        for exchange in list(self._open.values()):
            if exchange.server == server:
                self._finish(exchange)

    def reply(self, exchange: Exchange, status: int, body: Any, fault: Any) -> None:
        """From the server, when it has an answer."""
        if isinstance(fault, LoseReply) or self._cut(exchange):
            return
        kind = Input.OPENED if exchange.stream else Input.REPLY
        extra_ns = int(fault.delay_s * SECOND_NS) if isinstance(fault, SlowReply) else 0
        self._post(exchange, kind, status, body, extra_ns)
        if not exchange.stream or status != 200:
            exchange.over = True

    def chunk(self, exchange: Exchange, chunk: Any) -> None:
        held_ns = self._world.faults.held_until_ns(exchange.process.name, exchange.ask)
        extra_ns = max(0, held_ns - self._world.now_ns)
        if not self._cut(exchange):
            self._post(exchange, Input.CHUNK, 0, chunk, extra_ns)

    def end(self, exchange: Exchange) -> None:
        if not exchange.over and not self._cut(exchange):
            exchange.over = True
            self._post(exchange, Input.ENDED, 0, b"", 0)

    def is_wanted(self, exchange: Exchange) -> bool:
        """Whether anybody still reads."""
        process = exchange.process
        return not exchange.over and process.alive and process.incarnation == exchange.incarnation

    def _arrive(self, exchange: Exchange, fault: Any) -> None:
        for gate in self._gates:
            if gate.concerns(exchange):
                gate.waiting.append((exchange, fault))
                return
        server = self._world.processes.get(exchange.server)
        if server is None or not server.alive:
            self._post(
                exchange, Input.OPENED if exchange.stream else Input.REPLY, 0, b"connection refused", 0
            )
            return
        server.call(server.state.accept, exchange, fault)

    def _refuse(self, exchange: Exchange, status: int) -> None:
        error = ApiError(status, _REASONS[status], "an injected failure")
        kind = Input.OPENED if exchange.stream else Input.REPLY
        self._post(exchange, kind, status, encode_json(error.status()), 0)

    def _cut(self, exchange: Exchange) -> bool:
        return self._world.faults.partitioned(exchange.process.name)

    def _finish(self, exchange: Exchange) -> None:
        """The connection is gone. A plain ask gets no answer, a stream ends."""
        if exchange.over:
            return
        exchange.over = True
        self._hang_up(exchange)
        if exchange.stream:
            self._post(exchange, Input.ENDED, 0, b"", 0)
        else:
            self._post(exchange, Input.REPLY, 0, b"connection reset", 0)

    def _hang_up(self, exchange: Exchange) -> None:
        exchange.over = True
        if exchange.source is not None:
            server = self._world.processes.get(exchange.server)
            if server is not None and server.alive:
                server.call(exchange.source.close)
            exchange.source = None

    def _post(self, exchange: Exchange, kind: Input, status: int, payload: Any, extra_ns: int) -> None:
        world = self._world
        due_ns = world.now_ns + self._latency(exchange.server, exchange.process.name) + extra_ns
        due_ns = exchange.last_ns = max(due_ns, exchange.last_ns)
        world.at(due_ns, self._land, exchange, kind, status, payload)

    def _land(self, exchange: Exchange, kind: Input, status: int, payload: Any) -> None:
        process = exchange.process
        if kind in {Input.REPLY, Input.ENDED} or (kind is Input.OPENED and status != 200):
            self._open.pop((process.name, exchange.incarnation, exchange.number), None)
        if process.incarnation == exchange.incarnation:
            process.deliver(kind, exchange.number, status, payload)

    def _latency(self, source: str, target: str) -> int:
        return self._world.oracle.latency_ns(source, target)
