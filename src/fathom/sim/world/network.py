"""Asks and answers on their way between processes and API servers.

    process ──send──> (lost? slow? cut off?) ──_arrive──> server ──reply/chunk/end──> (…) ──_land──> process

A message takes as long as the oracle says. Within one exchange nothing overtakes: a watch keeps its order
whatever happens to it. A connection that is cut off says nothing; only where it breaks do both ends hear.
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
    """One ask and what comes back, until it is over. Nothing of it reaches another incarnation."""

    __slots__ = (
        "ask",
        "backlog",
        "broken",
        "event",
        "incarnation",
        "last_ns",
        "number",
        "over",
        "process",
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
        self.last_ns = 0  # When the last piece lands: what follows lands no sooner.
        self.over = False  # Nothing more is said to the process: it has all, has given up, or is cut off.
        self.broken = False  # The connection is gone: what has not arrived by now never will.
        self.served_by = 0  # The server's incarnation that it arrived at.
        self.source: Any = None  # The server's end of a stream, to be closed when nobody reads.
        self.backlog: list[tuple[Input, Any]] = []  # Said by the server, held back on the way.
        self.event = -1  # In the chronicle, where one is kept: what the next piece follows from.


# Whose request a server is working on, for the chronicle: a request's tasks inherit it.
SERVING: ContextVar[Exchange | None] = ContextVar("SERVING", default=None)


class WatchListener(Protocol):
    """Stands at the servers' doors, and hears what comes in and goes out. It changes nothing."""

    def arrived(self, exchange: Exchange) -> None: ...

    def answered(self, exchange: Exchange, status: int, body: Any) -> None: ...

    def told(self, exchange: Exchange, chunk: Any) -> None:
        """A piece of a stream."""


class Gate(msgspec.Struct):
    """Where a story holds asks up."""

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
        ] = {}  # Asks that a fault keeps on their way, and what else meets them.

    # What processes do.

    def send(self, process: SimProcess, number: int, ask: Ask, *, stream: bool) -> None:
        world = self._world
        if process.doom_s is not None:
            return  # It dies with this input: what it does from here on never was.
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
        fault = world.faults.message(process.name, ask)
        if isinstance(fault, LoseRequest):
            self._struck(exchange, fault, "the request is lost on its way")
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
            self._struck(
                exchange, partition, f"cut off from {exchange.server}: the request does not get through"
            )
            if partition.drops:
                return  # Never arrives; the deadline will tell.
            latency_ns += until_ns - world.now_ns
        self._late[exchange] = fault
        world.after(latency_ns, self._arrive_late, exchange)

    def cancel(self, process: SimProcess, number: int) -> None:
        """Nobody waits any more. What was sent is not called back; a stream's server hears of it."""
        exchange = process.asks.pop(number, None)
        if exchange is not None:
            self._go_dead(exchange)

    # What servers do.

    def reply(self, exchange: Exchange, status: int, body: Any, fault: Any) -> None:
        """The answer: all of it, or the beginning of a stream."""
        if exchange.over:
            return
        kind = OPENED if exchange.stream else REPLY
        if not exchange.stream or status != 200:
            exchange.over = True
        extra_ns = 0
        if fault is not None:
            if isinstance(fault, LoseReply):
                words = f"{exchange.server} has done it, but the reply is lost: the sender cannot know"
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
                return  # The server dies with this input.
            cut = self._world.faults.partition(exchange.process.name, exchange.server)
            if cut is not None:
                partition, until_ns = cut
                self._struck(
                    exchange, partition, f"cut off from {exchange.server}: the reply does not get through"
                )
                if partition.drops:
                    self._go_dead(exchange)
                    return
                extra_ns += until_ns - self._world.now_ns
        self._post(exchange, kind, status, body, extra_ns)

    def chunk(self, exchange: Exchange, chunk: Any) -> None:
        self._say(exchange, CHUNK, chunk)

    def end(self, exchange: Exchange) -> None:
        if not exchange.over:
            self._say(exchange, ENDED, b"")
            exchange.over = True

    # What the world does.

    def hold(self, process: str, match: str) -> Gate:
        """Asks that match wait from now on, until the gate is released."""
        gate = Gate(process, match)
        self._gates.append(gate)
        return gate

    def release(self, gate: Gate) -> None:
        self._gates.remove(gate)
        for exchange, fault in gate.waiting:
            self._world.after(0, self._arrive, exchange, fault)

    def drop_watches(self, target: str, match: str) -> None:
        """Connections of watches break: both ends notice."""
        for exchange in self._under_way():
            named = target in {"*", exchange.process.name, exchange.server}
            if exchange.stream and named and match in exchange.ask.target and not exchange.over:
                if self._world.chronicle is not None:
                    self._world.chronicle.lived(exchange.process, f"loses its watch of {_kind(exchange)}")
                self._break(exchange)

    def server_ended(self, server: str) -> None:
        for exchange in self._under_way():
            if exchange.server == server:
                exchange.source = None  # It died with its server.
                self._break(exchange)

    def client_ended(self, process: SimProcess) -> None:
        """Its connections close. What it has sent still arrives."""
        for exchange in process.asks.values():
            self._go_dead(exchange)
        process.asks = {}

    def heal(self) -> None:
        """What is held back goes on its way. Streams that went dead stay so: nobody was ever told."""
        for exchange in list(self._late):
            self._world.after(0, self._arrive_late, exchange)
        for exchange in self._under_way():
            if exchange.backlog:
                self._world.after(0, self._go_on, exchange)

    def _under_way(self) -> list[Exchange]:
        return [exchange for process in self._world.processes.values() for exchange in process.asks.values()]

    # On the way.

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
            self._answer_none(exchange, b"connection refused")
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

    def _answer_none(self, exchange: Exchange, why: bytes) -> None:
        if not exchange.over:
            exchange.over = True
            self._post(exchange, OPENED if exchange.stream else REPLY, 0, why, 0)

    def _break(self, exchange: Exchange) -> None:
        """The connection is gone. A plain ask gets no answer, a stream ends; what was held back is lost."""
        if exchange.over:
            return
        exchange.broken = exchange.over = True
        exchange.backlog.clear()
        self._hang_up(exchange)
        cut = self._world.faults.partition(exchange.process.name, exchange.server)
        if cut is not None and cut[0].drops:
            return  # Nor does this news get through.
        extra_ns = cut[1] - self._world.now_ns if cut is not None else 0
        opened = exchange.stream and exchange.last_ns > 0
        kind = ENDED if opened else OPENED if exchange.stream else REPLY
        self._post(exchange, kind, 0, b"" if opened else b"connection reset", extra_ns)

    def _go_dead(self, exchange: Exchange) -> None:
        """The process gets no more of it, whether it waits or not; the server hears that nobody reads."""
        exchange.over = True
        exchange.backlog.clear()
        self._hang_up(exchange)

    def _hang_up(self, exchange: Exchange) -> None:
        """Tell the server, which takes as long as any message, that nobody reads."""
        if exchange.source is not None:
            world = self._world
            latency_ns = world.oracle.latency_ns(exchange.process.name, exchange.server, world.now_ns)
            world.after(latency_ns, self._close, exchange, exchange.source)
            exchange.source = None

    def _close(self, exchange: Exchange, source: Any) -> None:
        server = self._world.processes[exchange.server]
        if server.incarnation == exchange.served_by:
            server.call(exchange.number, source.close)

    def _say(self, exchange: Exchange, kind: Input, payload: Any) -> None:
        """A piece of a stream, after all that was said before."""
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
        """0: the way is free. -1: for ever, and the exchange is over."""
        faults = self._world.faults
        if self._world.processes[exchange.server].doom_s is not None:
            return -1  # The server dies with this input.
        cut = faults.partition(exchange.process.name, exchange.server)
        if cut is None:
            held = faults.hold(exchange.process.name, exchange.ask)
            if held is None:
                return 0
            self._struck(exchange, held[0], f"its watch of {_kind(exchange)} is held back")
            return held[1]
        partition, until_ns = cut
        self._struck(
            exchange, partition, f"cut off from {exchange.server}: its watch of {_kind(exchange)} is silent"
        )
        if partition.drops:
            self._go_dead(exchange)
            return -1
        return until_ns

    def _struck(self, exchange: Exchange, fault: AnyFault, what: str) -> None:
        if self._world.chronicle is not None:
            self._world.chronicle.struck(exchange.process, fault, what, exchange.event)

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
        due_ns = now_ns + latency_ns + extra_ns
        due_ns = max(due_ns, exchange.last_ns)
        exchange.last_ns = due_ns
        event = -1 if world.chronicle is None else world.chronicle.said(exchange, kind, status, payload)
        world.at(due_ns, self._land, exchange, kind, status, payload, event)

    def _land(self, exchange: Exchange, kind: Input, status: int, payload: Any, event: int) -> None:
        process = exchange.process
        if process.incarnation != exchange.incarnation:
            return
        if kind is not CHUNK and (kind is not OPENED or status != 200):  # Nothing comes after it.
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
