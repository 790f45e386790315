"""The engine of a world: processes, a network, a store, one clock that jumps to the next event.

    at/after ──> the queue ──earliest first──> a process's input ──> its requests ──> the queue

Every event is an entry of one queue, ordered by time and then by the order of scheduling. So a run
follows from its seed, its faults and the code; two runs differ first where one of these differs.
"""

from __future__ import annotations

import gc
import heapq
import traceback
from asyncio import events
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from fathom.api.auth.jws import SigningKey
from fathom.api.auth.static_tokens import Tokens, digest
from fathom.model.audit import AuditEntry
from fathom.model.decision import Journal
from fathom.model.times import SECOND_NS
from fathom.model.user import AUTHENTICATED, MASTERS, User
from fathom.seams.domain import Domain, driving
from fathom.seams.process import Entry, Inside
from fathom.seams.streams import Streams
from fathom.sim.report.chronicle import Chronicle
from fathom.sim.world import faults as world_faults
from fathom.sim.world import outside_guard
from fathom.sim.world.active_faults import ActiveFaults
from fathom.sim.world.faults import AnyFault
from fathom.sim.world.initial_cluster import Genesis, genesis_of, puts
from fathom.sim.world.journals import WorldJournals
from fathom.sim.world.network import Exchange, Network, RequestListener, StreamListener
from fathom.sim.world.oracle import Oracle, Seeded
from fathom.sim.world.process import EPOCH_NS, SimProcess
from fathom.sim.world.record_readers import ReadJournal, RecordReader
from fathom.sim.world.servers import SimServer
from fathom.sim.world.shared_objects_guard import changed_in_place
from fathom.sim.world.store_link import Committer, WorldStore
from fathom.sim.world.trace import Trace
from fathom.sim.world.violation import Violation
from fathom.store.contents import StoreContents
from fathom.store.protocol import Change

# A run that takes more makes no progress: some process retries without waiting.
INPUTS_MAX = 1_000_000

CommitWatcher = Callable[[tuple[Change, ...]], None]


class Engine:
    def __init__(
        self,
        seed: str,
        *,
        signing: SigningKey,
        faults: Sequence[AnyFault] = (),
        oracle: Oracle | None = None,
        chronicle: Chronicle | None = None,
        genesis: Genesis | None = None,
        contents: StoreContents | None = None,
        epoch_ns: int = EPOCH_NS,
    ) -> None:
        """`genesis`: the objects that the store begins with; by default those of `initial_cluster`.
        `contents`: instead of them, a whole store, with its revisions. `epoch_ns`: the wall clock's time at
        the beginning."""
        self.now_ns = 0
        self.epoch_ns = epoch_ns
        self.began_ns = 0  # When the scenario began: faults and reports count from here.
        self.streams = Streams(seed)
        self.oracle: Oracle = oracle or Seeded(self.streams)
        self.trace = Trace()
        self.chronicle = chronicle
        self.journals = WorldJournals()
        self.faults = ActiveFaults(self, faults)
        self.network = Network(self)
        if contents is not None:
            self.store = WorldStore(self, contents=contents)
        else:
            self.store = WorldStore(self, puts(genesis_of(Engine) if genesis is None else genesis))
        self.processes: dict[str, SimProcess] = {}
        self.clock_errors_ns = {0}  # How wrong any wall clock has been.
        self.graveyard: list[Domain] = []  # Domains of ended processes, with their tasks, until `end`.
        self.watchers: list[CommitWatcher] = []  # Invariants: called after every commit.
        self.listeners: list[RequestListener] = []  # Invariants: get the requests and answers of API servers.
        # And the chunks of their streams. Apart: half of all inputs are bookmarks, and few care for them.
        self.stream_listeners: list[StreamListener] = []
        self.record_readers: list[RecordReader] = []  # Invariants: get what processes record.
        self.committer: Committer | None = None  # Which request or server made the newest commit.
        self.usage_of: Callable[[str], dict[str, Any]] | None = None  # What an agent reports of its node.
        self.happenings: dict[str, Callable[[], object]] = {}  # Events that the scenario defines, by name.
        self.violation: Violation | None = None  # The first one; ends the run.
        self.aftermath_s = 0.0  # How long the run goes on after a violation, to record its consequences.
        self.detect_fights = False  # API servers name fights; a checker of `checkers/fights.py` turns it on.
        self.error: BaseException | None = None  # What a checker raised; ends the run.
        self._signing = signing
        self._tokens: Tokens = {}  # Shared by all API servers: each accepts every process, by its name.
        self._queue: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = count().__next__
        self._halted = False
        self.free = False  # The engine runs, and no process is handling an input.
        self.codec = False  # Answers and events travel as bytes: slower, but no process shares objects.
        self.inputs_max = INPUTS_MAX
        self.drip_s = 0.0  # How long a connection takes for one chunk of a stream before the next.

    # The event queue.

    def at(self, when_ns: int, work: Callable[..., object], *args: Any) -> None:
        now_ns = self.now_ns
        heapq.heappush(self._queue, (when_ns if when_ns > now_ns else now_ns, self._order(), work, args))

    def after(self, delay_ns: int, work: Callable[..., object], *args: Any) -> None:
        heapq.heappush(self._queue, (self.now_ns + delay_ns, self._order(), work, args))

    def run(self, *, until_s: float) -> None:
        """Process the queue until the world is halted, the time is up, or the queue is empty."""
        until_ns, queue, pop = round(until_s * SECOND_NS), self._queue, heapq.heappop
        self._halted = self.violation is not None or self.error is not None
        with undisturbed(), outside_guard.shut(self._outside_call), self._driving():
            while not self._halted:
                if not queue or queue[0][0] > until_ns:
                    self.now_ns = max(self.now_ns, until_ns)
                    return
                self.now_ns, _, work, args = pop(queue)
                work(*args)

    @contextmanager
    def _driving(self) -> Iterator[None]:
        with driving():
            self.free = True
            try:
                yield
            finally:
                self.free = False

    def halt(self) -> None:
        """Stop `run` after the current event."""
        self._halted = True

    # Processes and servers.

    def add(
        self, name: str, entry: Entry, *, server: str = "", account: User | None = None, **options: Any
    ) -> SimProcess:
        """`account`: the user of its requests, with that user's rights; without one it may do everything."""
        if name in self.processes:
            raise ValueError(f"process {name} already exists")
        process = SimProcess(self, name, entry, index=len(self.processes), server=server, options=options)
        self.processes[name] = process
        process.user = user = account or User(name, (MASTERS,))
        self._tokens[digest(name)] = User(user.name, (*user.groups, AUTHENTICATED))
        return process

    def add_server(self, name: str, *, alone: bool = True) -> SimProcess:
        """`alone`: no other server writes to the store."""

        def entry(inside: Inside) -> SimServer:
            return SimServer(
                process, inside, self.store, signing=self._signing, tokens=self._tokens, alone=alone
            )

        process = self.add(name, entry)
        return process

    def server_ready(self) -> None:
        """Halt before the scenario begins, so that `World` checks again whether all servers are ready."""
        if self.began_ns == 0:
            self.halt()

    def journal_of(self, process: SimProcess) -> Journal:
        chronicled = None if self.chronicle is None else self.chronicle.journal(process)
        return ReadJournal(process, self.journals.journal(process.name, chronicled))

    def recorded(self, read: Callable[[RecordReader], None]) -> None:
        """Pass a record of a process to the readers."""
        try:
            for reader in self.record_readers:
                read(reader)
        except Exception as error:  # As with commits: it must not look like the process's error.
            self.checker_raised(error)

    # Faults.

    def state_of(self, process: str) -> str:
        running = self.processes.get(process)
        if running is None or not running.alive:
            return "anywhere" if running is None else "dead"
        return f"{'restarted' if running.incarnation > 1 else 'first life'}, {_work_of(running)}"

    def happen(self, fault: AnyFault) -> None:
        """Apply a momentary fault whose time has come."""
        match fault:
            case world_faults.Compact():
                self.tell(f"the store compacts its history before revision {self.store.newest}")
                self.store.compact_now()
            case world_faults.DropWatch():
                self.network.drop_watches(fault.target, fault.match)
            case world_faults.Happening():
                self.tell(fault.name)
                self.happenings[fault.name]()
            case _:
                process = self.processes.get(fault.target)
                if process is not None:
                    self._happen_to(process, fault)

    def _happen_to(self, process: SimProcess, fault: AnyFault) -> None:
        match fault:
            case world_faults.Crash():
                self.crash(process, fault.for_s)
            case world_faults.Stop():
                self.stop(process, fault.for_s)
            case world_faults.Rebase():
                self.stop(process, fault.for_s, word="rebase")
            case world_faults.Pause():
                self.pause(process, fault.for_s)
            case world_faults.Skew():
                self.process_changed(process, f"gets a clock that is wrong by {fault.skew_s:g} s")
                process.set_clock(round(fault.skew_s * SECOND_NS))

    def struck_at_write(self, process: SimProcess, fault: world_faults.CrashAtWrite) -> None:
        """The process has just sent a write: crash it with this input, or stop it while it waits."""
        if isinstance(fault, world_faults.StopAtWrite):
            self.after(0, self.stop, process, fault.for_s)
        else:
            process.doom_s = fault.for_s

    def crash(self, process: SimProcess, restart_after_s: float | None) -> None:
        """`restart_after_s` None: it never restarts. One that is dead already stays so for that long."""
        if process.alive:
            self.process_changed(process, f"dies{process.last_write if process.machines else ''}")
            self._end(process)
        if restart_after_s is None:
            process.wanted = False
            return
        restart_ns = self.now_ns + round(restart_after_s * SECOND_NS)
        process.dead_until_ns = max(process.dead_until_ns, restart_ns)
        self.at(restart_ns, self._restart, process, process.incarnation, None)

    def stop(self, process: SimProcess, grace_s: float, *, word: str = "stop") -> None:
        """Signal the process to stop; end it after the grace period; then start it again."""
        if process.alive:
            self.process_changed(process, f"is asked to {word}")
            process.signal(word)
            self.after(round(grace_s * SECOND_NS), self._stopped, process, process.incarnation, word)

    def _stopped(self, process: SimProcess, incarnation: int, word: str) -> None:
        if process.alive and process.incarnation == incarnation:
            self._end(process)
            self._restart(process, incarnation, process.inside if word == "rebase" else None)

    def _end(self, process: SimProcess) -> None:
        process.end()
        self.network.client_ended(process)
        if isinstance(process.state, SimServer):
            process.state.link.cut()
            self.network.server_ended(process.name)

    def _restart(self, process: SimProcess, incarnation: int, predecessor: Inside | None) -> None:
        is_due = self.now_ns >= process.dead_until_ns
        if process.wanted and is_due and process.incarnation == incarnation:
            process.start(predecessor=predecessor)

    def pause(self, process: SimProcess, for_s: float) -> None:
        if process.alive:
            self.process_changed(process, "is paused")
            until_ns = self.now_ns + round(for_s * SECOND_NS)
            process.paused_until_ns = max(process.paused_until_ns, until_ns)
            process.pause()
            self.at(until_ns, self._resume, process, process.incarnation)

    def _resume(self, process: SimProcess, incarnation: int) -> None:
        paused = process.paused and process.incarnation == incarnation
        if paused and self.now_ns >= process.paused_until_ns:
            self.process_changed(process, "resumes")
            process.resume()

    def heal(self) -> None:
        """End all faults: every process runs, with a correct clock and a working network."""
        self.faults.heal()
        self.oracle.heal()
        self.network.heal()
        for link in tuple(self.store.links):
            link.heal()
        for process in tuple(self.processes.values()):
            if process.skew_ns:
                process.set_clock(0)
            process.paused_until_ns = process.dead_until_ns = 0
            self.after(0, self._resume, process, process.incarnation)
            if process.wanted and not process.alive:
                self.after(0, self._restart, process, process.incarnation, None)

    # Recording and invariants.

    def too_many(self, process: SimProcess) -> None:
        message = f"more than {self.inputs_max:,} inputs; the last was for {process.name}"
        self.broken(Violation("the scenario ends", message, self.since_s))

    def committed(self, changes: tuple[Change, ...], revision: int) -> None:
        self.trace.commit(self.now_ns, changes)
        if self.chronicle is not None:
            assert self.committer is not None
            self.chronicle.committed(self.committer, changes, revision)
        try:
            for watcher in self.watchers:
                watcher(changes)
        except Exception as error:  # A checker's own bug must not look like the store's answer.
            self.checker_raised(error)

    def overheard(self, hear: Callable[[RequestListener], None]) -> None:
        """Pass a server's request or answer to the listeners."""
        try:
            for listener in self.listeners:
                hear(listener)
        except Exception as error:  # As with commits: it must not look like the server's error.
            self.checker_raised(error)

    def overheard_chunk(self, exchange: Exchange, chunk: Any) -> None:
        """Pass a chunk of a server's stream to the listeners."""
        try:
            for listener in self.stream_listeners:
                listener.told(exchange, chunk)
        except Exception as error:  # As with commits: it must not look like the server's error.
            self.checker_raised(error)

    def checker_raised(self, error: Exception) -> None:
        """End the run: what follows would not be checked."""
        self.error = error
        self.halt()

    def broken(self, violation: Violation) -> None:
        """Record a broken invariant and end the run. Only the first one counts."""
        if self.violation is None:
            self.violation = violation
            if self.aftermath_s:
                self.after(round(self.aftermath_s * SECOND_NS), self.halt)
        if not self.aftermath_s:
            self.halt()

    def process_changed(self, process: SimProcess, what: str) -> None:
        if self.chronicle is not None:
            self.chronicle.process_changed(process, what)

    def tell(self, what: str) -> None:
        """Record an event of the world that belongs to no process."""
        if self.chronicle is not None:
            self.chronicle.world(self.now_ns, what)

    def audited(self, process: SimProcess, entry: AuditEntry) -> None:
        if self.chronicle is not None:
            self.chronicle.audited(process, entry)

    def could_not_go_on(self, process: SimProcess, error: Exception) -> None:
        message = "".join(traceback.format_exception_only(error)).strip()
        self.broken(Violation("every process keeps running", f"{process.name}: {message}", self.since_s))

    def _outside_call(self, name: str, stack: str) -> None:
        self.broken(
            Violation(
                "code reaches the outside only through its seam", f"{name} was called:\n{stack}", self.since_s
            )
        )

    @property
    def since_s(self) -> float:
        """Seconds since the scenario began."""
        return (self.now_ns - self.began_ns) / SECOND_NS

    def check_what_is_shared(self) -> None:
        """At the end of a run: check that no process changed a shared object in place."""
        servers = [process.state for process in self.processes.values() if process.alive]
        caches = (state.parts.core.cache for state in servers if isinstance(state, SimServer))
        key = changed_in_place(self.store.entries(), caches)
        if key:
            message = f"a process changed the shared object {key} in place"
            self.broken(Violation("shared objects are not changed in place", message, self.since_s))

    def failures(self) -> list[dict[str, Any]]:
        """Exceptions of callbacks and of tasks that were never awaited, in all processes, alive or dead."""
        alive = [process.domain for process in self.processes.values() if process.alive]
        return [failure for domain in (*self.graveyard, *alive) for failure in domain.failures]

    # The end.

    def end(self) -> None:
        """Release all processes. Their coroutines are closed now, where they can do no harm, and not when the
        garbage collector finds them during another world's run."""
        for process in self.processes.values():
            if process.alive:
                process.end()
        for process in self.processes.values():
            for machine in process.machines:
                machine.bury()
        for domain in self.graveyard:
            _close_tasks(domain)
        self._queue.clear()


def _work_of(process: SimProcess) -> str:
    """What it waits for. Watches are always open, and say nothing."""
    if process.paused:
        return "paused"
    methods = {exchange.ask.method for exchange in process.asks.values() if not exchange.stream}
    return "idle" if not methods else "reading" if methods == {"GET"} else "writing"


def _close_tasks(domain: Domain) -> None:
    outer = events._get_running_loop()
    events._set_running_loop(domain)
    domain.set_exception_handler(lambda loop, context: None)
    try:
        for task in domain.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own
            with suppress(BaseException):  # No caller is left for what it raises now.
                task.get_coro().close()
    finally:
        events._set_running_loop(outer)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Disable automatic garbage collection: finalizers are behaviour, and must not depend on memory use."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
