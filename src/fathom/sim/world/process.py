"""One process of the world: code on its own Domain, that can crash, stop, pause and start again.

The code is an `Entry`, the same function that a live process begins with. It is called again for every
incarnation: only the store survives a crash. Its return value is the process's `state`, which tests and
checkers read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from fathom.model.user import User
from fathom.seams.domain import FAR_NS, Domain
from fathom.seams.process import Birth, Entry, Inside, Process, clock_payload
from fathom.seams.seam import Ask, Input, Seam
from fathom.sim.world.trace import checksum

if TYPE_CHECKING:
    from fathom.sim.world.engine import Engine
    from fathom.sim.world.network import Exchange

# Every world but a fork begins at the same moment, so that timestamps in objects are the same in every run.
EPOCH_NS = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z

# A request that reaches a server, or an answer of the store: inputs that only simulated processes have.
ARRIVED = 32
CHUNK, TICK = Input.CHUNK, int(Input.TICK)
# As NOBODY of `report/chronicle.py`, which cannot be imported here: it imports this package.
NO_CAUSE = -1

WITH_PAYLOAD = frozenset({Input.REPLY, Input.OPENED, Input.CHUNK, Input.ENDED, Input.SIGNAL, Input.CLOCK})


class VirtualMachine(Protocol):
    """The operating system of one incarnation of a foreign process."""

    ending: (
        str  # How the program ended by itself, 'ends with KeyError'; '' while it runs, or if it was killed.
    )
    ended_s: float  # When.

    @property
    def last_lines(self) -> list[str]:
        """What the program printed last."""

    def cut(self) -> None:
        """The process is over."""

    def bury(self) -> None:
        """The run is over: free what is left of it."""


class SimProcess:
    def __init__(
        self,
        world: Engine,
        name: str,
        entry: Entry,
        *,
        index: int,
        server: str = "",
        options: dict[str, Any] | None = None,
    ) -> None:
        self.world = world
        self.name = name
        self.index = index  # In the order of joining; names it in the trace.
        self.server = server  # The API server that its requests go to.
        self.user = User(name)  # Its requests are this user's.
        self.entry = entry
        self.options = options or {}
        self.domain_type: type[Domain] = Domain
        self.shares = True  # Answers may be objects that it shares with others; False: always bytes.
        self.machines: list[
            VirtualMachine
        ] = []  # Of each incarnation of a foreign process; see `sim/foreign`.
        self.incarnation = 0
        self.alive = False
        self.wanted = False  # It should run; `heal` restarts it if it does not.
        self.skew_ns = 0
        self.armed_ns = FAR_NS  # The deadline that the world has an alarm for; FAR_NS: none.
        self.paused_until_ns = self.dead_until_ns = 0
        self.stopping = False  # It was asked to end.
        self.doom_s: float | None = None  # It crashes with this input, and restarts after this time.
        self.last_write = ""  # The write at which a fault ends it, in words.
        self.state: Any = None
        self.asks: dict[int, Exchange] = {}  # Under way, by number.
        # While it is paused: inputs, each with its cause in the chronicle.
        self._inbox: deque[tuple[int, int, tuple[Any, ...], int]] | None = None
        self.inside = self._new_inside()
        self.domain, self.seam = self.inside.domain, self.inside.seam
        self._seam_process = Process(self.domain, self.seam, self._begin)

    # Start, end, pause.

    def start(self, *, predecessor: Inside | None = None) -> None:
        """`predecessor`: the earlier incarnation after a rebase; the new one gets the state that it left."""
        self.wanted = True
        if self.alive:
            return
        self.incarnation += 1
        self.alive = True
        self.armed_ns = FAR_NS
        self.paused_until_ns = 0
        self.stopping = False
        self.doom_s = None
        self.last_write = ""
        self._inbox = None
        self.asks = {}
        self.inside = self._new_inside(predecessor)
        self.domain, self.seam = self.inside.domain, self.inside.seam
        self._seam_process = Process(self.domain, self.seam, self._begin)
        self.world.process_changed(self, "starts")
        self.deliver(Input.START, 0, 0, b"")

    def _new_inside(self, predecessor: Inside | None = None) -> Inside:
        world = self.world
        domain = self.domain_type(now_ns=world.now_ns)
        birth = Birth(
            entry=getattr(self.entry, "__qualname__", type(self.entry).__name__),
            seed=f"{world.streams.seed}/{self.name}",
            epoch_ns=world.epoch_ns + self.skew_ns,
            incarnation=self.incarnation,
            predecessor=predecessor.identity if predecessor else "",
            options=self.options,
            estate=predecessor.estate if predecessor else b"",
        )
        return Inside(birth, domain, Seam(domain, _Wire(self), checked=False), journal=world.journal_of(self))

    def _begin(self) -> None:
        self.state = self.entry(self.inside)

    def end(self) -> None:
        """End the process between two inputs. Its tasks are kept until the world ends: dropping a suspended
        coroutine would run its `finally`, and a crashed process does not clean up."""
        self.alive = False
        self._inbox = None
        self.seam.cut()
        self.world.graveyard.append(self.domain)
        for machine in self.machines:
            machine.cut()

    def pause(self) -> None:
        if self._inbox is None:
            self._inbox = deque()

    def resume(self) -> None:
        """Handle the inputs that came during the pause, in their order, before any new ones."""
        inbox = self._inbox
        while inbox and self.alive:
            kind, number, way, cause = inbox.popleft()
            if self.world.chronicle is not None:
                self.world.chronicle.follows(cause)
            self._input(kind, number, way)
        if self.world.chronicle is not None:
            self.world.chronicle.follows(NO_CAUSE)
        self._inbox = None
        if self.alive:
            self._arm(self.domain.next_deadline_ns())

    @property
    def paused(self) -> bool:
        return self._inbox is not None

    # Inputs: handled now, or after a pause of the process. An ended process gets none.

    def deliver(self, kind: Input, number: int, status: int, payload: Any) -> None:
        """An answer, a chunk of a stream, a signal: the inputs of live processes, by the same method."""
        if self.alive:
            if kind is CHUNK:  # Most inputs are chunks.
                way: tuple[Any, ...] = (self.seam.deliver, kind, number, status, payload)
            else:
                way = self._seam_process.way_of(kind, number, status, payload)
            if self._inbox is None:
                self._input(kind, number, way)
            else:
                self._inbox.append((kind, number, way, self._cause()))

    def call(self, number: int, work: Callable[..., object], *args: Any) -> None:
        """An input that answers no request of its own: a request that arrives at a server, for example."""
        if self.alive:
            if self._inbox is None:
                self._input(ARRIVED, number, (work, *args))
            else:
                self._inbox.append((ARRIVED, number, (work, *args), self._cause()))

    def _cause(self) -> int:
        return NO_CAUSE if self.world.chronicle is None else self.world.chronicle.following

    def alarm(self, incarnation: int, armed_ns: int) -> None:
        """The deadline has come that `_arm` set an alarm for."""
        if self.armed_ns != armed_ns or self.incarnation != incarnation:
            return  # An earlier alarm replaced it, or a new incarnation runs.
        self.armed_ns = FAR_NS
        if not self.alive or self._inbox is not None:
            return  # Paused: `resume` sets the alarm again.
        deadline_ns = self.domain.next_deadline_ns()
        if deadline_ns is not None and deadline_ns <= self.world.now_ns:
            self._input(TICK, 0, ())
        else:
            self._arm(deadline_ns)  # The timer of this alarm was cancelled.

    def _arm(self, deadline_ns: int | None) -> None:
        """Set an alarm for the next deadline of the process."""
        if deadline_ns is not None and deadline_ns < self.armed_ns:
            self.armed_ns = deadline_ns
            self.world.at(deadline_ns, self.alarm, self.incarnation, deadline_ns)

    def signal(self, word: str) -> None:
        """As the operating system would: 'stop' asks for a graceful end."""
        self.stopping = True
        self.deliver(Input.SIGNAL, 0, 0, word.encode())

    def set_clock(self, skew_ns: int) -> None:
        self.skew_ns = skew_ns
        self.world.clock_errors_ns.add(skew_ns)
        self.deliver(Input.CLOCK, 0, 0, clock_payload(self.world.epoch_ns + skew_ns))

    def _input(self, kind: int, number: int, way: tuple[Any, ...]) -> None:
        world = self.world
        trace, chronicle, now_ns = world.trace, world.chronicle, world.now_ns
        if trace.input((now_ns, self.index, kind, number)) > world.inputs_max:
            world.too_many(self)
        if chronicle is not None:
            chronicle.input(self, kind, number)
        if trace.log is not None:
            payload = way[-1] if kind in WITH_PAYLOAD else b""
            trace.log.append((now_ns, self.name, int(kind), number, checksum(payload)))
        # Not free: for example, a scenario that stops a process is handling its own input.
        was_free, world.free = world.free, False
        try:
            deadline_ns = (self.domain.step if was_free else self.domain.input)(now_ns, *way)
        except Exception as error:  # Raised by the loop itself or by the `Entry` call, not by a task.
            world.could_not_go_on(self, error)
            deadline_ns = self.domain.next_deadline_ns()
        finally:
            world.free = was_free
        if self.doom_s is not None:
            world.crash(self, self.doom_s)
        elif deadline_ns is not None and deadline_ns < self.armed_ns:
            self._arm(deadline_ns)


class _Wire:
    """The Seam's backend: requests go through the simulated network."""

    def __init__(self, process: SimProcess) -> None:
        self._process = process
        self._network = process.world.network

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        self._network.send(self._process, number, ask, stream=stream)

    def cancel(self, number: int) -> None:
        self._network.cancel(self._process, number)
