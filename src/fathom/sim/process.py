"""One process of the world: code on a Domain of its own, that can crash, stop, pause and start again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fathom.seams.domain import Domain
from fathom.seams.log import Log, NoLog
from fathom.seams.outside import Outside, RandomIds
from fathom.seams.seam import Ask, Input, Seam
from fathom.sim.clock import WorldClock

if TYPE_CHECKING:
    from fathom.sim.engine import Engine


class Process:
    """`begin` makes the code under test, anew for every incarnation: only the store survives a crash."""

    def __init__(
        self, world: Engine, name: str, begin: Callable[[Process], None], *, server: str = ""
    ) -> None:
        self.world = world
        self.name = name
        self.server = server  # The API server that its requests go to.
        self.begin = begin
        self.incarnation = 0
        self.alive = False
        self.paused_until_ns = 0
        self.skew_ns = 0
        self.armed_ns = -1  # The deadline that the world has an alarm for; -1: none.
        self.state: Any = None  # What `begin` wants others (tests, invariants) to find.
        self._reset()

    def _reset(self) -> None:
        self.domain = Domain(now_ns=self.world.now_ns)
        self.seam = Seam(self.domain, _Wire(self))
        clock = WorldClock(self.domain)
        clock.skew_ns = self.skew_ns
        self.clock = clock
        rng = self.world.streams.stream(f"process/{self.name}/{self.incarnation}")
        self.outside = Outside(clock=clock, ids=RandomIds(rng), rng=rng)
        self.log: Log = NoLog()

    def start(self) -> None:
        if self.alive:
            return
        self.incarnation += 1
        self.alive = True
        self.armed_ns = -1
        self._reset()
        self.world.note(self, Input.START, 0)
        self.domain.input(self.world.now_ns, self.begin, self)
        self.world.arm(self)

    def crash(self) -> None:
        """Gone between two inputs. Its tasks are kept until the world ends: dropping a suspended coroutine
        would run its `finally`, and the dead do not clean up."""
        if self.alive:
            self.alive = False
            self.world.graveyard.append(self.domain)

    def signal(self, word: str) -> None:
        """As the operating system would: 'stop' asks for a graceful end."""
        self.deliver(Input.SIGNAL, 0, 0, word.encode())

    def deliver(self, kind: Input, number: int, status: int, payload: Any) -> None:
        """An input, now; or, while the process is paused, when it runs again."""
        if not self.alive:
            return
        if self.paused_until_ns > self.world.now_ns:
            self.world.at(
                self.paused_until_ns, self._deliver_later, self.incarnation, kind, number, status, payload
            )
            return
        self.world.note(self, kind, number)
        self.domain.input(self.world.now_ns, self.seam.deliver, kind, number, status, payload)
        self.world.arm(self)

    def _deliver_later(self, incarnation: int, kind: Input, number: int, status: int, payload: Any) -> None:
        if incarnation == self.incarnation:
            self.deliver(kind, number, status, payload)

    def call(self, work: Callable[..., object], *args: Any) -> None:
        """Something that is no answer to an ask: a request that arrives at a server."""
        if not self.alive:
            return
        self.domain.input(self.world.now_ns, work, *args)
        self.world.arm(self)


class _Wire:
    """The Seam's backend: asks travel through the world."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def start(self, number: int, ask: Ask, *, stream: bool) -> None:
        self._process.world.network.send(self._process, number, ask, stream=stream)

    def cancel(self, number: int) -> None:
        self._process.world.network.cancel(self._process, number)
