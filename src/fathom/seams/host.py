"""A Domain alive: on the host's event loop, fed with what really happens.

    backend's tasks ──post──> inbox ──pump──> stamp the time, record, Domain.input ──> new asks ──> backend

One input at a time, each recorded before it is delivered, so that what the process did can be replayed from
the record even after `kill -9`. One host timer stands at the Domain's next deadline.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

from fathom.seams.domain import Domain
from fathom.seams.outside import Clock
from fathom.seams.seam import Input, Seam


class Tape(Protocol):
    """Where inputs are recorded. Must be as good as on disk when `append` returns: the page cache will do,
    since it outlives the process."""

    def append(
        self, kind: Input, number: int, *, now_ns: int, status: int, checksum: int, payload: bytes
    ) -> None: ...


class NoTape:
    def append(
        self, kind: Input, number: int, *, now_ns: int, status: int, checksum: int, payload: bytes
    ) -> None: ...


class Host:
    """Lives on the host's loop; call its methods from there only."""

    def __init__(self, domain: Domain, clock: Clock, tape: Tape) -> None:
        self._domain = domain
        self._clock = clock
        self._tape = tape
        self._seam: Seam | None = None
        self._loop = asyncio.get_running_loop()
        self._started_ns = clock.monotonic_ns()
        self._inbox: deque[tuple[Input, int, int, bytes]] = deque()
        self._pumping = False  # A pump is scheduled or running.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ns = 0
        self._stopped = False

    def start(self, seam: Seam, begin: Any, description: bytes = b"") -> None:
        """`begin` is called inside the Domain as its first input: it creates the process's tasks."""
        self._seam = seam
        now_ns = self._now_ns()
        self._tape.append(Input.START, 0, now_ns=now_ns, status=0, checksum=0, payload=description)
        self._domain.input(now_ns, begin)
        self._arm()

    def post(self, kind: Input, number: int, status: int = 0, payload: bytes = b"") -> None:
        """Something happened outside."""
        if self._stopped:
            return
        self._inbox.append((kind, number, status, payload))
        if not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def stop(self) -> None:
        """No further input is delivered. What was recorded is all that happened."""
        self._stopped = True
        self._inbox.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _pump(self) -> None:
        seam = self._seam
        while self._inbox and seam is not None and not self._stopped:
            kind, number, status, payload = self._inbox.popleft()
            now_ns = self._now_ns()
            checksum = seam.asked.get(number, 0)
            self._tape.append(kind, number, now_ns=now_ns, status=status, checksum=checksum, payload=payload)
            self._domain.input(now_ns, seam.deliver, kind, number, status, payload)
        self._pumping = False
        self._arm()

    def _arm(self) -> None:
        deadline_ns = self._domain.next_deadline_ns()
        if self._stopped or deadline_ns is None:
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
        if self._stopped:
            return
        now_ns, deadline_ns = self._now_ns(), self._domain.next_deadline_ns()
        if deadline_ns is not None and deadline_ns <= now_ns:
            self._tape.append(Input.TICK, 0, now_ns=now_ns, status=0, checksum=0, payload=b"")
            self._domain.input(now_ns)
        self._arm()

    def _now_ns(self) -> int:
        return self._clock.monotonic_ns() - self._started_ns
