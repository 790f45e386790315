"""A circuit breaker per API server, shared by everything in a process that talks to that server.

    closed ──5 failures in a row──> open ──its time is over──> half-open ──an answer──> closed
                                     ^                             │
                                     └────── no answer, longer ────┘

While it is open nothing is sent: the breaker itself rejects requests, as not processed, so retrying later is
safe. While it is half-open, one request at a time goes out as a probe. The time it stays open doubles, with
jitter, from one second to half a minute.

The bound: during an outage, `n` concurrent callers see at most `n + 5` failures before it opens; then there
is one probe per opening: 5 in 30 s, 7 in the first minute, 4 a minute from then on. (Half of an opening is
jitter; the sums count the other half only.) Lease renewals pass even when it is open, one per retry period:
the process depends on them, and they are the first to notice that the outage is over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Literal

import msgspec

from fathom.client.api import Transport
from fathom.model.backoff import Backoff
from fathom.seams.loop_clock import loop_now_ns
from fathom.seams.seam import Ask, Reply, Stream

State = Literal["closed", "open", "half-open"]

FAILURES_TO_OPEN = 5
OPEN = Backoff(1.0, 30.0)
# If it opens again this soon after it closed, the outage was not over: it stays open longer still.
CALM_S = 30.0
# While half-open, one worker in this time may begin; its first request is the probe.
SCOUT_S = 1.0
# No answer, or an answer that means that the server (or its store) is unwell.
UNWELL = frozenset({0, 500, 502, 503, 504})
REASON = "CircuitOpen"


class BreakerView(msgspec.Struct, frozen=True):
    """For people and metrics."""

    target: str
    state: State
    since_ns: int
    until_ns: int  # When an open breaker lets a probe through; 0 otherwise.
    failures: int  # In a row.
    opened: int  # How often, in total.
    refused: int  # How many requests were not sent, in total.
    last_failure: str


class BreakerPass(msgspec.Struct, frozen=True):
    """Permission to send one request. `term` tells a late answer from one about the current state."""

    term: int
    vital: bool = False


class Breaker:
    def __init__(
        self,
        target: str,
        rng: random.Random,
        *,
        on_change: Callable[[BreakerView], None] = lambda view: None,
        answered: Callable[[int], None] = lambda status: None,
    ) -> None:
        self._answered = answered
        self._target = target
        self._rng = rng
        self._on_change = on_change
        self._state: State = "closed"
        self._term = 0  # Grows with every change of state.
        self._since_ns = 0
        self._until_ns = 0
        self._failures = 0  # In a row, while closed.
        self._strikes = 0  # Openings without a calm period between them.
        self._probing = False  # While half-open: a request is out. At most one.
        self._scout_ns = 0  # While not closed: when the next worker may begin.
        self._waiters: list[asyncio.Future[None]] = []
        self._opened = 0
        self._refused = 0
        self._last_failure = ""

    @property
    def view(self) -> BreakerView:
        return BreakerView(
            self._target, self._state, self._since_ns, self._until_ns, self._failures, self._opened,
            self._refused, self._last_failure,
        )  # fmt: skip

    def admit(self, *, vital: bool = False) -> BreakerPass | float:
        """A pass, or the number of seconds after which to try again."""
        now_ns = loop_now_ns()
        if self._state == "open" and now_ns >= self._until_ns:
            self._become("half-open")
        if self._state == "closed" or vital:
            return BreakerPass(self._term, vital)
        if self._state == "half-open" and not self._probing:
            self._probing = True
            return BreakerPass(self._term)
        self._refused += 1
        return max(self._until_ns - now_ns, round(SCOUT_S * 1e9)) / 1e9

    def report(self, breaker_pass: BreakerPass, reply: Reply | None) -> None:
        """Reports the outcome of a request; None if the caller did not wait for the answer."""
        if reply is not None:
            self._answered(reply.status)
        if breaker_pass.term != self._term:
            return
        if self._state == "half-open" and not breaker_pass.vital:
            self._probing = False
        if reply is None:
            return
        if reply.status not in UNWELL:
            self._went_well()
        elif not breaker_pass.vital or self._state == "closed":
            self._went_wrong(reply)

    async def passable(self) -> None:
        """Waits until work may begin: at once while closed; otherwise one worker at a time, as a scout."""
        while (wait_s := self._scout_in_s()) > 0:
            await self._changed_or_after(wait_s)

    def _went_well(self) -> None:
        if self._state == "open":  # A vital request came through: look at once.
            self._scout_ns = loop_now_ns()
            self._become("half-open")
        elif self._state == "half-open":
            self._become("closed")
        self._failures = 0

    def _went_wrong(self, reply: Reply) -> None:
        self._last_failure = f"{reply.status or 'no answer'}: {_excerpt(reply.body)}"
        self._failures += 1
        if self._state == "half-open" or self._failures >= FAILURES_TO_OPEN:
            self._open()

    def _open(self) -> None:
        now_ns = loop_now_ns()
        calm = self._state == "closed" and now_ns - self._since_ns > CALM_S * 1e9
        self._strikes = 1 if calm or not self._opened else self._strikes + 1
        self._until_ns = self._scout_ns = now_ns + round(OPEN.jittered_s(self._strikes, self._rng) * 1e9)
        self._opened += 1
        self._become("open")

    def _become(self, state: State) -> None:
        self._state = state
        self._term += 1
        self._since_ns = loop_now_ns()
        self._probing = False
        if state != "open":
            self._until_ns = 0
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            _wake(waiter)
        self._on_change(self.view)

    def _scout_in_s(self) -> float:
        now_ns = loop_now_ns()
        if self._state == "closed":
            return 0.0
        if now_ns >= self._scout_ns:
            self._scout_ns = now_ns + round(SCOUT_S * 1e9)
            return 0.0
        return (self._scout_ns - now_ns) / 1e9

    async def _changed_or_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters.append(waiter)
        timer = loop.call_later(seconds, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)


class Guarded:
    """A transport behind a breaker."""

    def __init__(self, inner: Transport, breaker: Breaker, *, vital: bool = False) -> None:
        self._inner = inner
        self._breaker = breaker
        self._vital = vital

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        admission = self._breaker.admit(vital=self._vital)
        if not isinstance(admission, BreakerPass):
            return turned_away(admission, self._breaker.view)
        reply: Reply | None = None
        try:
            reply = await self._inner.request(ask, timeout_s=timeout_s)
        finally:
            self._breaker.report(admission, reply)
        return reply

    async def open(self, ask: Ask, *, timeout_s: float) -> Stream | Reply:
        admission = self._breaker.admit(vital=self._vital)
        if not isinstance(admission, BreakerPass):
            return turned_away(admission, self._breaker.view)
        reply: Reply | None = None
        try:
            opened = await self._inner.open(ask, timeout_s=timeout_s)
            reply = opened if isinstance(opened, Reply) else Reply(200)
        finally:
            self._breaker.report(admission, reply)
        return opened


def turned_away(retry_after_s: float, view: BreakerView) -> Reply:
    """The reply of a server that did not process the request: nothing happened, retry later."""
    message = f"not sent: {view.target} seems to be down; last failure: {view.last_failure}"
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": REASON,
        "message": message,
        "details": {"retryAfterSeconds": retry_after_s},
        "code": 429,
    }
    return Reply(429, status)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _excerpt(body: object) -> str:
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    return text[:200]
