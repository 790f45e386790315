"""The simulated network: requests and answers between processes and API servers.

    process ──send──> (lost? slow? cut off?) ──_arrive──> server ──reply/chunk/end──> (…) ──_land──> process

The oracle decides how long a message takes. Within one exchange messages keep their order, so a watch does
too, whatever the faults. A partitioned connection is silent; only a broken one gives both ends an error.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from fathom.model.body import encode_json
from fathom.model.errors import ApiError
from fathom.model.times import SECOND_NS
from fathom.seams.seam import Ask, Input
from fathom.sim.world.faults import AnyFault, LoseReply, LoseRequest, Refuse, SlowReply, SlowRequest

if TYPE_CHECKING:
    from fathom.sim.world.engine import Engine
    from fathom.sim.world.process import SimProcess

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})

CHUNK, ENDED, OPENED, REPLY = Input.CHUNK, Input.ENDED, Input.OPENED, Input.REPLY

_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


_TIMED_OUT = encode_json(ApiError(504, "Timeout", "the server did not answer in time").status())


class Exchange:
    """One request and its answer, until it is over. Nothing of it reaches another incarnation."""

    __slots__ = (
        "ask",
        "backlog",
        "broken",
        "event",
        "given_up",
        "incarnation",
        "last_ns",
        "number",
        "over",
        "process",
        "sent_ns",
        "served_by",
        "server",
        "source",
        "stream",
    )

    def __init__(self, process: SimProcess, number: int, ask: Ask, stream: bool) -> None:
        self.process = process
        self.incarnation = process.incarnation
        self.number = number
        self.ask = ask
        self.stream = stream
        self.server = process.server
        self.sent_ns = process.world.now_ns
        self.last_ns = 0  # When the last chunk arrives: later ones arrive no sooner.
        self.over = False  # The process gets no more of it: complete, given up, or partitioned.
        self.given_up = False  # The process no longer waited for it, and was not about to end.
        self.broken = False  # The connection is gone: messages that have not arrived never will.
        self.served_by = 0  # The server's incarnation that it arrived at.
        self.source: Any = None  # The server's end of a stream, closed when the client stops reading.
        self.backlog: list[tuple[Input, Any]] = []  # Sent by the server, delayed by a fault.
        self.event = -1  # In the chronicle, where one is kept: the cause of the next chunk.


# The request that a server is working on, for the chronicle: a request's tasks inherit it.
SERVING: ContextVar[Exchange | None] = ContextVar("SERVING", default=None)

# The headers of the request that a server's own housekeeping sends to it.
OWN_HEADERS: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("OWN_HEADERS", default=())


class RequestListener(Protocol):
    """Sees each request that arrives at an API server and each answer that leaves it. It changes nothing."""

    def arrived(self, exchange: Exchange) -> None: ...

    def answered(self, exchange: Exchange, status: int, body: Any) -> None: ...


class StreamListener(Protocol):
    """Sees each chunk of a stream that leaves an API server. It changes nothing."""

    def told(self, exchange: Exchange, chunk: Any) -> None: ...


class Gate(msgspec.Struct):
    """Holds matching requests for a scenario until it is released."""

    process: str
    match: str
    waiting: list[tuple[Any, Any]] = msgspec.field(default_factory=list)

    def concerns(self, exchange: Exchange) -> bool:
        ask = exchange.ask
        named = self.process in {"*", exchange.process.name}
        return named and self.match in f"{ask.method} {ask.target}"


class Network:
    def __init__(self, world: Engine) -> None:
        self._world = world
        self._gates: list[Gate] = []
        self._late: dict[
            Exchange, Any
        ] = {}  # Requests that a fault delays -> another fault that applies to them.

    # Called by processes.

    def send(self, process: SimProcess, number: int, ask: Ask, *, stream: bool) -> None:
        world = self._world
        if process.doom_s is not None:
            return  # The process crashes with this input: its later actions are discarded.
        exchange = process.asks[number] = Exchange(process, number, ask, stream)
        if world.chronicle is not None:
            exchange.event = world.chronicle.asked(process, number, ask)
        latency_ns = world.oracle.latency_ns(process.name, exchange.server, world.now_ns)
        if world.faults.quiet:
            world.after(latency_ns, self._arrive, exchange, None)
        else:
            self._send_with_faults(exchange, latency_ns)

    def _send_with_faults(self, exchange: Exchange, latency_ns: int) -> None:
        world, process, ask = self._world, exchange.process, exchange.ask
        if ask.method in WRITES:
            crash = world.faults.crash_at_write(process.name, ask)
            if crash is not None:
                world.struck_at_write(process, crash)
                if process.doom_s is not None:
                    process.last_write = f" just after it sent {ask.method} {ask.target.partition('?')[0]}"
        fault = world.faults.message(process.name, ask)
        if isinstance(fault, LoseRequest):
            self._struck(exchange, fault, "the request is lost")
            return
        if isinstance(fault, Refuse):
            self._struck(exchange, fault, f"the request is refused with {fault.status}")
            world.after(latency_ns, self._refuse, exchange, fault.status)
            return
        if isinstance(fault, SlowRequest):
            self._struck(exchange, fault, f"the request takes {fault.delay_s:g} s longer to arrive")
            latency_ns += round(fault.delay_s * SECOND_NS)
        cut = world.faults.partition(process.name, exchange.server)
        if cut is not None:
            partition, until_ns = cut
            self._struck(exchange, partition, f"cut off from {exchange.server}: the request does not arrive")
            if partition.drops:
                return  # Never arrives; the client's deadline ends it.
            latency_ns += until_ns - world.now_ns
        self._late[exchange] = fault
        world.after(latency_ns, self._arrive_late, exchange)

    def cancel(self, process: SimProcess, number: int) -> None:
        """The process stops waiting. The request is not called back; the server of a stream is notified."""
        exchange = process.asks.pop(number, None)
        if exchange is not None:
            exchange.given_up = not process.stopping
            self._go_dead(exchange)

    # Called by API servers.

    def reply(self, exchange: Exchange, status: int, body: Any, fault: Any) -> None:
        """Send the whole answer, or open a stream."""
        if exchange.over:
            return
        kind = OPENED if exchange.stream else REPLY
        if not exchange.stream or status != 200:
            exchange.over = True
        extra_ns = 0
        if fault is not None:
            if isinstance(fault, LoseReply):
                words = f"{exchange.server} has carried it out, but the reply is lost: the sender cannot know"
                self._struck(exchange, fault, words)
                if fault.told_s and not exchange.stream:
                    self._post(exchange, kind, 504, _TIMED_OUT, round(fault.told_s * SECOND_NS))
                else:
                    self._go_dead(exchange)
                return
            if isinstance(fault, SlowReply):
                self._struck(exchange, fault, f"the reply takes {fault.delay_s:g} s longer")
                extra_ns = round(fault.delay_s * SECOND_NS)
        if not self._world.faults.quiet:
            if self._world.processes[exchange.server].doom_s is not None:
                return  # The server crashes with this input.
            cut = self._world.faults.partition(exchange.process.name, exchange.server)
            if cut is not None:
                partition, until_ns = cut
                self._struck(
                    exchange, partition, f"cut off from {exchange.server}: the reply does not arrive"
                )
                if partition.drops:
                    self._go_dead(exchange)
                    return
                extra_ns += until_ns - self._world.now_ns
        self._post(exchange, kind, status, body, extra_ns)

    def chunk(self, exchange: Exchange, chunk: Any) -> None:
        self._send_chunk(exchange, CHUNK, chunk)

    def end(self, exchange: Exchange) -> None:
        if not exchange.over:
            self._send_chunk(exchange, ENDED, b"")
            exchange.over = True

    # Called by the world.

    def hold(self, process: str, match: str) -> Gate:
        """Hold matching requests from now on, until the gate is released."""
        gate = Gate(process, match)
        self._gates.append(gate)
        return gate

    def release(self, gate: Gate) -> None:
        self._gates.remove(gate)
        for exchange, fault in gate.waiting:
            self._world.after(0, self._arrive, exchange, fault)

    def drop_watches(self, target: str, match: str) -> None:
        """Break the connections of matching watches: both ends notice."""
        for exchange in self._under_way():
            named = target in {"*", exchange.process.name, exchange.server}
            if exchange.stream and named and match in exchange.ask.target and not exchange.over:
                if self._world.chronicle is not None:
                    self._world.chronicle.process_changed(
                        exchange.process, f"loses its watch of {_kind(exchange)}"
                    )
                self._break(exchange)

    def server_ended(self, server: str) -> None:
        for exchange in self._under_way():
            if exchange.server == server:
                exchange.source = None  # It died with its server.
                self._break(exchange)

    def client_ended(self, process: SimProcess) -> None:
        """Close the connections of a process that ended. Requests that it sent still arrive."""
        for exchange in process.asks.values():
            self._go_dead(exchange)
        process.asks = {}

    def heal(self) -> None:
        """Deliver delayed messages. Streams that went dead stay dead: neither end ever got an error."""
        for exchange in list(self._late):
            self._world.after(0, self._arrive_late, exchange)
        for exchange in self._under_way():
            if exchange.backlog:
                self._world.after(0, self._go_on, exchange)

    def _under_way(self) -> list[Exchange]:
        return [exchange for process in self._world.processes.values() for exchange in process.asks.values()]

    # Delivery.

    def _arrive(self, exchange: Exchange, fault: Any) -> None:
        if exchange.broken:
            return
        for gate in self._gates:
            if gate.concerns(exchange):
                gate.waiting.append((exchange, fault))
                return
        server = self._world.processes.get(exchange.server)
        if server is None or not server.alive:
            exchange.broken = True
            self._fail(exchange, b"connection refused")
            return
        exchange.served_by = server.incarnation
        if self._world.chronicle is not None:
            self._world.chronicle.follows(exchange.event)
        server.call(exchange.number, server.state.accept, exchange, fault)
        if self._world.chronicle is not None:
            self._world.chronicle.follows(-1)

    def _arrive_late(self, exchange: Exchange) -> None:
        if exchange in self._late:
            self._arrive(exchange, self._late.pop(exchange))

    def _refuse(self, exchange: Exchange, status: int) -> None:
        error = ApiError(status, _REASONS[status], "an injected failure")
        self.reply(exchange, status, encode_json(error.status()), None)

    def _fail(self, exchange: Exchange, why: bytes) -> None:
        if not exchange.over:
            exchange.over = True
            self._post(exchange, OPENED if exchange.stream else REPLY, 0, why, 0)

    def _break(self, exchange: Exchange) -> None:
        """Break the connection. A plain request gets no answer, a stream ends; delayed chunks are lost."""
        if exchange.over:
            return
        exchange.broken = exchange.over = True
        exchange.backlog.clear()
        self._hang_up(exchange)
        cut = self._world.faults.partition(exchange.process.name, exchange.server)
        if cut is not None and cut[0].drops:
            return  # The partition also drops the reset.
        extra_ns = cut[1] - self._world.now_ns if cut is not None else 0
        opened = exchange.stream and exchange.last_ns > 0
        kind = ENDED if opened else OPENED if exchange.stream else REPLY
        self._post(exchange, kind, 0, b"" if opened else b"connection reset", extra_ns)

    def _go_dead(self, exchange: Exchange) -> None:
        """The process gets no more of it, whether it waits or not; the server learns that its reader left."""
        exchange.over = True
        exchange.backlog.clear()
        self._hang_up(exchange)

    def _hang_up(self, exchange: Exchange) -> None:
        """Close the server's end of the stream, after the latency of one message."""
        if exchange.source is not None:
            world = self._world
            latency_ns = world.oracle.latency_ns(exchange.process.name, exchange.server, world.now_ns)
            world.after(latency_ns, self._close, exchange, exchange.source)
            exchange.source = None

    def _close(self, exchange: Exchange, source: Any) -> None:
        server = self._world.processes[exchange.server]
        if server.incarnation == exchange.served_by:
            server.call(exchange.number, source.close)

    def _send_chunk(self, exchange: Exchange, kind: Input, payload: Any) -> None:
        """Send a chunk of a stream, after all earlier ones."""
        if exchange.over:
            return
        if exchange.backlog:
            exchange.backlog.append((kind, payload))
        elif self._world.faults.quiet or (until_ns := self._barred_until_ns(exchange)) == 0:
            self._post(exchange, kind, 0, payload, 0)
        elif until_ns > 0:
            exchange.backlog.append((kind, payload))
            self._world.at(until_ns, self._go_on, exchange)

    def _barred_until_ns(self, exchange: Exchange) -> int:
        """Until when faults delay the exchange. 0: not delayed. -1: for ever, and the exchange is over."""
        faults = self._world.faults
        if self._world.processes[exchange.server].doom_s is not None:
            return -1  # The server crashes with this input.
        if not faults.bar_streams:
            return 0
        cut = faults.partition(exchange.process.name, exchange.server)
        if cut is None:
            hold = faults.hold(exchange.process.name, exchange.ask)
            if hold is None:
                return 0
            self._struck(exchange, hold[0], f"its watch of {_kind(exchange)} is delayed")
            return hold[1]
        partition, until_ns = cut
        self._struck(
            exchange, partition, f"cut off from {exchange.server}: its watch of {_kind(exchange)} is silent"
        )
        if partition.drops:
            self._go_dead(exchange)
            return -1
        return until_ns

    def _struck(self, exchange: Exchange, fault: AnyFault, effect: str) -> None:
        if self._world.chronicle is not None:
            self._world.chronicle.fault_took_effect(exchange.process, fault, effect, exchange.event)

    def _go_on(self, exchange: Exchange) -> None:
        if not exchange.backlog:
            return
        until_ns = self._barred_until_ns(exchange)
        if until_ns > 0:
            self._world.at(until_ns, self._go_on, exchange)
        elif until_ns == 0:
            backlog, exchange.backlog = exchange.backlog, []
            for kind, payload in backlog:
                self._post(exchange, kind, 0, payload, 0)

    def _post(self, exchange: Exchange, kind: Input, status: int, payload: Any, extra_ns: int) -> None:
        world = self._world
        now_ns = world.now_ns
        latency_ns = world.oracle.latency_ns(exchange.server, exchange.process.name, now_ns)
        due_ns = max(now_ns + latency_ns + extra_ns, exchange.last_ns)
        exchange.last_ns = due_ns
        event = -1 if world.chronicle is None else world.chronicle.said(exchange, kind, status, payload)
        world.at(due_ns, self._land, exchange, kind, status, payload, event)

    def _land(self, exchange: Exchange, kind: Input, status: int, payload: Any, event: int) -> None:
        process = exchange.process
        if process.incarnation != exchange.incarnation:
            return
        if kind is not CHUNK and (kind is not OPENED or status != 200):  # The last message of the exchange.
            process.asks.pop(exchange.number, None)
        if self._world.chronicle is None:
            process.deliver(kind, exchange.number, status, payload)
            return
        self._world.chronicle.follows(event)
        process.deliver(kind, exchange.number, status, payload)
        self._world.chronicle.follows(-1)


def _kind(exchange: Exchange) -> str:
    """'/apis/apps/v1/replicasets?watch=true' -> 'replicasets'"""
    return exchange.ask.target.partition("?")[0].rpartition("/")[2]
