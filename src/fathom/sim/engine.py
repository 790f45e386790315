"""The engine of a world: processes, a network, a store, one clock that jumps to what happens next.

    at/after ──> the queue ──earliest first──> a process's input ──> what it asks ──> the queue

Everything that happens is an entry of one queue, ordered by time and then by the order of asking. So a run
follows from its seed, its faults and the code; two runs differ first where one of these differs.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from fathom.api.auth.jws import SigningKey
from fathom.api.auth.static_tokens import Tokens, digest
from fathom.model.audit import AuditEntry
from fathom.model.user import MASTERS, User
from fathom.seams.domain import Domain
from fathom.seams.seam import Input
from fathom.seams.streams import Streams
from fathom.sim import faults as kinds_of_fault
from fathom.sim.faults import AnyFault, Faults
from fathom.sim.network import Network
from fathom.sim.oracle import Oracle, Seeded
from fathom.sim.process import Process
from fathom.sim.servers import SimServer
from fathom.sim.storelink import WorldStore
from fathom.store.protocol import Change

SECOND_NS = 1_000_000_000

CommitWatcher = Callable[[tuple[Change, ...], int], None]


class Engine:
    def __init__(
        self, seed: str, *, signing: SigningKey, faults: Sequence[AnyFault] = (), oracle: Oracle | None = None
    ) -> None:
        self.now_ns = 0
        self.streams = Streams(seed)
        self.oracle: Oracle = oracle or Seeded(self.streams)
        self.faults = Faults(self, faults)
        self.network = Network(self)
        self.store = WorldStore(self)
        self.processes: dict[str, Process] = {}
        self.graveyard: list[Domain] = []  # Domains of the dead, with their tasks, until the world ends.
        self.inputs = 0
        self.watchers: list[CommitWatcher] = []  # Invariants: called after every commit.
        self.audit: list[tuple[int, str, AuditEntry]] = []  # (time, server, entry)
        self.happenings: dict[str, Callable[[], object]] = {}  # What the scenario can make happen, by name.
        self._signing = signing
        self._queue: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = count().__next__
        self._trace = hashlib.blake2b(digest_size=16)
        self.log: list[tuple[int, str, int, int]] | None = None  # Every input, where a run is to be kept.

    # What happens, and when.

    def at(self, when_ns: int, work: Callable[..., object], *args: Any) -> None:
        heapq.heappush(self._queue, (max(when_ns, self.now_ns), self._order(), work, args))

    def after(self, delay_ns: int, work: Callable[..., object], *args: Any) -> None:
        heapq.heappush(self._queue, (self.now_ns + delay_ns, self._order(), work, args))

    def run(self, until: Callable[[], bool], *, deadline_s: float) -> bool:
        """Let things happen until something is so; False if it is not by then, or if nothing happens any
        more."""
        deadline_ns = int(deadline_s * SECOND_NS)
        queue = self._queue
        while not until():
            if not queue or queue[0][0] > deadline_ns:
                self.now_ns = max(self.now_ns, deadline_ns)
                return until()
            self.now_ns, _, work, args = heapq.heappop(queue)
            work(*args)
        return True

    def arm(self, process: Process) -> None:
        """See to it that the process is woken at its next deadline."""
        deadline_ns = process.domain.next_deadline_ns()
        if deadline_ns is None or 0 <= process.armed_ns <= deadline_ns:
            return
        process.armed_ns = deadline_ns
        self.at(deadline_ns, self._alarm, process, process.incarnation, deadline_ns)

    def _alarm(self, process: Process, incarnation: int, armed_ns: int) -> None:
        if process.armed_ns != armed_ns or process.incarnation != incarnation:
            return  # An earlier one took its place, or the process is another.
        process.armed_ns = -1
        if not process.alive:
            return
        if process.paused_until_ns > self.now_ns:
            process.armed_ns = armed_ns
            self.at(process.paused_until_ns, self._alarm, process, incarnation, armed_ns)
            return
        self.note(process, Input.TICK, 0)
        process.domain.input(self.now_ns)
        self.arm(process)

    # Who is there.

    def add(self, name: str, begin: Callable[[Process], None], *, server: str = "") -> Process:
        process = self.processes[name] = Process(self, name, begin, server=server)
        return process

    def add_server(self, name: str) -> Process:
        def begin(process: Process) -> None:
            process.state = SimServer(process, self.store, signing=self._signing, tokens=self._tokens())
            process.state.begin()

        return self.add(name, begin)

    def _tokens(self) -> Tokens:
        """Every process is known by its name; what it may do is RBAC's business where a scenario cares."""
        return {digest(name): User(name, (MASTERS, "system:authenticated")) for name in self.processes}

    def crash(self, process: Process, restart_after_s: float) -> None:
        process.crash()
        if isinstance(process.state, SimServer):
            self.network.server_died(process.name)
        if restart_after_s >= 0:
            self.after(int(restart_after_s * SECOND_NS), process.start)

    def happen(self, fault: AnyFault) -> None:
        """A fault whose moment has come."""
        process = self.processes.get(fault.target)
        match fault:
            case kinds_of_fault.Compact():
                self.store.compact_now()
            case kinds_of_fault.DropWatch():
                self.network.drop_watches(fault.target, fault.match)
            case kinds_of_fault.Happening():
                self.happenings[fault.name]()
            case kinds_of_fault.Crash() if process is not None:
                self.crash(process, fault.for_s)
            case kinds_of_fault.Stop() if process is not None:
                process.signal("stop")
                self.after(int(fault.for_s * SECOND_NS), self._stopped, process)
            case kinds_of_fault.Pause() if process is not None:
                process.paused_until_ns = self.now_ns + int(fault.for_s * SECOND_NS)
            case kinds_of_fault.Skew() if process is not None:
                process.skew_ns = process.clock.skew_ns = int(fault.skew_s * SECOND_NS)

    def _stopped(self, process: Process) -> None:
        """It had its time to stop gracefully."""
        process.crash()
        process.start()

    # What is remembered.

    def note(self, process: Process, kind: Input, number: int) -> None:
        self.inputs += 1
        if self.log is not None:
            self.log.append((self.now_ns, process.name, int(kind), number))
        self._trace.update(b"%d %s %d %d\n" % (self.now_ns, process.name.encode(), kind, number))

    def committed(self, changes: tuple[Change, ...], revision: int) -> None:
        for change in changes:
            self._trace.update(b"%d %d %s\n" % (self.now_ns, revision, change.key.encode()))
        for watcher in self.watchers:
            watcher(changes, revision)

    def audited(self, process: Process, entry: AuditEntry) -> None:
        self.audit.append((self.now_ns, process.name, entry))

    @property
    def trace(self) -> str:
        """A digest of all that happened so far."""
        return self._trace.copy().hexdigest()
