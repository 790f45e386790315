"""Runs a Domain live: on the host's event loop, with inputs from the real world.

    backend ──post──> inbox ──pump──> stamp the time, record, deliver ──> new asks ──> record ──> backend

One input at a time, each recorded before it is delivered, and each request (`Ask`) before it is sent, so that
the process can be replayed from the tape even after `kill -9`. One host timer is set to the Domain's next
deadline. Garbage is collected between inputs, as an input itself, with automatic collection off: the moment
when finalizers run must be on the tape too. (For two hosts in one interpreter, turn it off before both.)
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from fathom.seams.domain import Domain
from fathom.seams.log import Log, NoLog
from fathom.seams.outside import Clock
from fathom.seams.process import Process, clock_payload, timers_at_tick
from fathom.seams.seam import Ask, Input, Seam

# After so many inputs the host's loop runs: its sockets must not wait for a long queue of inputs.
INPUTS_PER_PUMP_MAX = 256

# Young objects often, old ones seldom: a whole collection of a large cache takes tenths of a second.
INPUTS_PER_COLLECTION = 1_000
OLDER_EVERY = 10  # Every tenth collection looks at the next older generation too.

# A wall clock that is off by less is left alone: reading two clocks takes a moment, and machines pause.
CLOCK_OFF_NS_MAX = 100_000_000

# From an ask's target to the function that redacts its answers' payloads; None leaves them unchanged.
Redact = Callable[[str], Callable[[bytes], bytes] | None]

ANSWERS = frozenset({Input.REPLY, Input.OPENED, Input.CHUNK, Input.ENDED})


class Tape(Protocol):
    """Where inputs and asks are recorded. When `append` returns, the record is in the page cache, which
    outlives the process. Never raises: a full disk loses the record and does not stop the process."""

    def append(
        self, kind: Input, number: int, *, now_ns: int, status: int, checksum: int, payload: bytes
    ) -> None: ...

    def asked(self, number: int, ask: Ask, *, now_ns: int, checksum: int) -> None: ...


class NoTape:
    def append(
        self, kind: Input, number: int, *, now_ns: int, status: int, checksum: int, payload: bytes
    ) -> None: ...

    def asked(self, number: int, ask: Ask, *, now_ns: int, checksum: int) -> None: ...


class Host:
    """Runs on the host's loop; call its methods from there only. `done` completes with `stop`, or with the
    error after which the process could not continue."""

    def __init__(
        self,
        domain: Domain,
        clock: Clock,
        tape: Tape,
        *,
        log: Log | None = None,
        redact: Redact | None = None,
    ) -> None:
        self._domain = domain
        self._clock = clock
        self._tape = tape
        self._log = log or NoLog()
        # Redacted parts are neither recorded nor delivered: a decision cannot depend on what the tape lacks.
        self._redact = redact
        self._redactors: dict[int, Callable[[bytes], bytes]] = {}  # By ask; swept with each collection.
        self._process: Process | None = None
        self._loop = asyncio.get_running_loop()
        self._started_ns = clock.monotonic_ns()
        self._inbox: deque[tuple[Input, int, int, bytes]] = deque()
        self._pumping = False  # A pump is scheduled or running.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ns = 0
        self._collections = 0
        self._uncollected = 0  # Inputs since the last collection.
        self._failed = 0  # How many of the Domain's failures have been logged.
        self._resume_gc = False
        self.done: asyncio.Future[None] = self._loop.create_future()

    def start(self, seam: Seam, begin: Callable[[], object], description: bytes = b"") -> None:
        """The first input, delivered soon, calls `begin` inside the Domain, to create the process's tasks."""
        self._process = Process(self._domain, seam, begin)
        seam.on_ask = self._record_ask
        self._resume_gc = gc.isenabled()
        gc.disable()
        self.post(Input.START, 0, 0, description)

    def post(self, kind: Input, number: int, status: int = 0, payload: bytes = b"") -> None:
        """Queue an input from outside."""
        if self.done.done():
            return
        self._inbox.append((kind, number, status, payload))
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def stop(self, error: BaseException | None = None) -> None:
        """Deliver no further input: the tape then holds everything that happened."""
        if self.done.done():
            return
        self._inbox.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._resume_gc:
            gc.enable()
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)

    def _pump(self) -> None:
        inputs_left = INPUTS_PER_PUMP_MAX
        while self._inbox and inputs_left and not self.done.done():
            self._take(*self._inbox.popleft())
            inputs_left -= 1
        self._do_chores()
        self._pumping = bool(self._inbox)
        if self._pumping:
            self._loop.call_soon(self._pump)
        self._arm()

    def _take(self, kind: Input, number: int, status: int, payload: bytes) -> None:
        try:
            self._record_and_deliver(kind, number, status, payload)
        except BaseException as error:  # The process's state is undefined: `done` carries the error.
            self.stop(error)
            if not isinstance(error, Exception):
                raise

    def _record_and_deliver(self, kind: Input, number: int, status: int, payload: bytes) -> None:
        process = self._process
        assert process is not None
        if kind in ANSWERS and not process.seam.expects(number):
            return  # The answer came too late and would change nothing: not an input.
        if number in self._redactors:
            payload = self._redactors[number](payload)
        now_ns = self._now_ns()
        checksum = process.seam.asked.get(number, 0)
        self._tape.append(kind, number, now_ns=now_ns, status=status, checksum=checksum, payload=payload)
        self._uncollected += 1
        process.take(kind, number, now_ns, status, payload)

    def _record_ask(self, number: int, ask: Ask, checksum: int) -> None:
        self._tape.asked(number, ask, now_ns=self._domain.now_ns, checksum=checksum)
        if self._redact is not None and (redactor := self._redact(ask.target)) is not None:
            self._redactors[number] = redactor

    def _do_chores(self) -> None:
        """Regular chores: garbage, wall clock, failures to log. Those that deciding code can notice are
        inputs."""
        if self._uncollected >= INPUTS_PER_COLLECTION and not self.done.done():
            self._collect()
        epoch_ns = self._clock.now_ns() - self._now_ns()
        if abs(epoch_ns - self._domain.epoch_ns) > CLOCK_OFF_NS_MAX and not self.done.done():
            self._take(Input.CLOCK, 0, 0, clock_payload(epoch_ns))
        if self._domain.failed != self._failed:
            self._log_failures()

    def _collect(self) -> None:
        assert self._process is not None
        self._uncollected = 0
        self._collections += 1
        generation = next(g for g in (2, 1, 0) if self._collections % OLDER_EVERY**g == 0)
        self._take(Input.COLLECT, 0, generation, b"")
        expects = self._process.seam.expects
        self._redactors = {
            number: redactor for number, redactor in self._redactors.items() if expects(number)
        }

    def _log_failures(self) -> None:
        for failure in self._domain.failures[self._failed :]:
            fields: dict[str, Any] = {
                "what": failure.get("message", ""),
                "error": repr(failure.get("exception")),
            }
            self._log.error("deciding code failed", **fields)
        self._failed = self._domain.failed

    def _arm(self) -> None:
        deadline_ns = self._domain.next_deadline_ns()
        if self.done.done() or deadline_ns is None:
            return
        if self._timer is not None:
            if self._timer_at_ns <= deadline_ns:
                return
            self._timer.cancel()
        self._timer_at_ns = deadline_ns
        delay_s = max(0, deadline_ns - self._now_ns()) / 1e9
        self._timer = self._loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self.done.done():
            return
        now_ns, deadline_ns = self._now_ns(), self._domain.next_deadline_ns()
        if deadline_ns is not None and deadline_ns <= now_ns:
            self._take(Input.TICK, 0, 0, timers_at_tick(self._domain).encode())
            self._do_chores()
        self._arm()

    def _now_ns(self) -> int:
        return self._clock.monotonic_ns() - self._started_ns
