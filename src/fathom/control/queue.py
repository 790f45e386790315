"""A work queue of keys: each at most once waiting, at most once in progress, and retried after a failure.

add ──> waiting ──> take ──> in progress ─> done ─┐
         ^  └ dirty while in progress ────────────┤
         ├──────── after a backoff <── failed ────┤
         └── a change only <── given up <─────────┘

Every take reports what woke the key and how long it waited. The order follows from the calls and their times
alone. Memory is bounded by the number of keys; beyond `keys_max` new keys are not accepted, and `overflowed`
stays set until every object has been looked at again.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Container, Hashable
from itertools import count
from typing import Generic, Protocol, TypeVar

import msgspec

from fathom.control.fair_queue import FairQueue, FairQueueEntry
from fathom.control.rate_limit import PaceLimit, PaceRate
from fathom.control.retry import Retry, RetryTrouble, backoff_ns, next_trouble
from fathom.model.cause import UNSTATED, WakeCause
from fathom.model.invariant import InvariantBroken
from fathom.seams.loop_clock import loop_now_ns

K = TypeVar("K", bound=Hashable)

KEYS_MAX = 1_000_000  # Some 400 bytes each.


class Taken(msgspec.Struct, Generic[K], frozen=True):
    """A key in progress, and why."""

    key: K
    cause: WakeCause  # The first cause that woke it.
    merged: int  # How many more wakes this take serves.
    waited_ns: int
    priority: int
    attempt: int  # 1 unless it failed before.


class QueueMetrics(Protocol):
    """Under client-go's names: workqueue_adds_total, _queue_duration_seconds, _retries_total, _depth."""

    def added(self, depth: int) -> None: ...

    def taken(self, depth: int, waited_s: float) -> None: ...

    def retried(self, reason: str, delay_s: float) -> None: ...

    def gave_up(self, reason: str) -> None: ...

    def overflowed(self) -> None: ...


class NoQueueMetrics:
    def added(self, depth: int) -> None: ...

    def taken(self, depth: int, waited_s: float) -> None: ...

    def retried(self, reason: str, delay_s: float) -> None: ...

    def gave_up(self, reason: str) -> None: ...

    def overflowed(self) -> None: ...


class _Later(msgspec.Struct, frozen=True):
    when_ns: int
    cause: WakeCause
    priority: int
    timer: asyncio.TimerHandle
    by_clock: bool  # Due at a time of day.


class WorkQueue(Generic[K]):
    def __init__(
        self,
        rng: random.Random,
        *,
        retry: Retry = Retry(),  # noqa: B008  # Frozen.
        rate: PaceRate | None = None,
        tenant_of: Callable[[K], str] = lambda key: "",
        metrics: QueueMetrics = NoQueueMetrics(),  # noqa: B008  # Stateless.
        keys_max: int = KEYS_MAX,
    ) -> None:
        self._rng = rng
        self._retry = retry
        self._pace = PaceLimit(rate) if rate else None
        self._tenant_of = tenant_of
        self._metrics = metrics
        self._keys_max = keys_max
        self._order = count(1).__next__
        # A waiting key is in `_lines` exactly if it is not in progress; in progress it is dirty, and joins
        # the line when it is put down. So no key is worked on twice at a time, and no wake is lost.
        self._waiting: dict[K, FairQueueEntry[K]] = {}
        self._lines: FairQueue[K] = FairQueue()
        self._in_hand: dict[K, Taken[K]] = {}
        # At most one timer of each sort per key: the earliest. A success cancels the retry, and nothing else.
        self._later: dict[K, _Later] = {}
        self._retries: dict[K, _Later] = {}
        self._troubles: dict[K, RetryTrouble] = {}  # Keys that failed and have not succeeded since.
        self._takers: deque[asyncio.Future[None]] = deque()  # Sleeping takers; each new key wakes one.
        self._pacing: asyncio.TimerHandle | None = None  # Set while keys wait for the rate limit only.
        self._closed = False
        self.overflowed = False

    def __len__(self) -> int:
        """How many keys could be taken now."""
        return len(self._lines)

    # Adding.

    def add(self, key: K, cause: WakeCause = UNSTATED, *, priority: int = 0) -> bool:
        """False if there was no room: see `overflowed`. A key that waits already keeps waiting, at the higher
        of the two priorities."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            self._merge(waiting, priority)
            return True
        if not self._has_room(key):
            return False
        entry = FairQueueEntry(
            key, tenant=self._tenant_of(key), priority=priority, order=self._order(),
            since_ns=loop_now_ns(), cause=cause,
        )  # fmt: skip
        self._waiting[key] = entry
        if key not in self._in_hand:
            self._join(entry)
        self._metrics.added(len(self._lines))
        return True

    def add_after(
        self,
        key: K,
        delay_s: float,
        cause: WakeCause = UNSTATED,
        *,
        priority: int = 0,
        by_clock: bool = False,
    ) -> bool:
        """The earliest of several delays counts. `by_clock`: it was reckoned from a time of day."""
        if delay_s <= 0:
            return self.add(key, cause, priority=priority)
        if self._closed or not self._has_room(key):
            return False
        self._arm(self._later, key, delay_s, cause, priority=priority, by_clock=by_clock)
        return True

    def look_again(self, cause: WakeCause) -> None:
        """Every key that waits for a time of day is due now; durations and backoffs stay as they are."""
        for key, later in tuple(self._later.items()):
            if later.by_clock:
                later.timer.cancel()
                del self._later[key]
                self.add(key, cause, priority=later.priority)

    # Taking keys and putting them down.

    async def take(self) -> Taken[K] | None:
        """The next key, as soon as there is one. None when the queue is closed."""
        while not self._closed:
            taken = self._pop()
            if taken is not None:
                return taken
            await self._sleep()
        return None

    def done(self, key: K) -> None:
        """The pass succeeded: earlier failures are forgotten, and so is the retry that was planned."""
        self._put_down(key)
        self._troubles.pop(key, None)
        retry = self._retries.pop(key, None)
        if retry is not None:
            retry.timer.cancel()

    def failed(
        self,
        key: K,
        *,
        reason: str = "Error",
        message: str = "",
        intent: str = "",
        not_before_s: float = 0.0,
    ) -> RetryTrouble:
        """The key is retried after a backoff, or given up. Either way `troubles` shows it until it succeeds.
        `not_before_s`: the delay that the server asked for."""
        trouble = self.judge(key, reason=reason, message=message, intent=intent, not_before_s=not_before_s)
        self.retry(key, trouble)
        return trouble

    def judge(
        self, key: K, *, reason: str, message: str, intent: str, not_before_s: float = 0.0
    ) -> RetryTrouble:
        """Counts one more failure of a key in progress and returns what follows. Nothing happens yet: the
        caller can report it before the key is put down."""
        before, now_ns = self._troubles.get(key), loop_now_ns()
        taken = self._in_hand.get(key)
        # A pass that a change woke says nothing about how often waiting was in vain: 1. Pods of a ReplicaSet
        # come and go while its quota is full. 2. Each wakes the ReplicaSet, and counts as an attempt. 3. It
        # is given up within seconds, and nothing wakes it when there is room.
        counts = taken is None or taken.cause.kind != "event"
        attempts = before.attempts + counts if before and before.intent == intent else 1
        delay_ns = max(backoff_ns(self._retry, attempts, self._rng), round(not_before_s * 1e9))
        return next_trouble(
            self._retry, before, intent=intent, reason=reason, message=message, now_ns=now_ns,
            delay_ns=delay_ns, counts=counts,
        )  # fmt: skip

    def retry(self, key: K, trouble: RetryTrouble, *, decision: str = "") -> None:
        """Puts down a failed key, as `judge` decided. `decision`: the one that failed."""
        taken = self._put_down(key)
        self._troubles[key] = trouble
        if trouble.next_ns is None:
            self._metrics.gave_up(trouble.reason)
        else:
            delay_s = max(0, trouble.next_ns - loop_now_ns()) / 1e9
            self._metrics.retried(trouble.reason, delay_s)
            cause = WakeCause("retry", trouble.reason, decision=decision)
            if delay_s <= 0:
                self.add(key, cause, priority=taken.priority)
            elif not self._closed:
                self._arm(self._retries, key, delay_s, cause, priority=taken.priority)

    def put_back(self, key: K, delay_s: float, cause: WakeCause) -> None:
        """Neither success nor failure: it could not be tried. Earlier failures stay remembered."""
        taken = self._put_down(key)
        self.add_after(key, delay_s, cause, priority=taken.priority)

    def close(self) -> None:
        """No key is taken any more; keys in progress can still be put down."""
        self._closed = True
        for timers in (self._later, self._retries):
            for later in timers.values():
                later.timer.cancel()
            timers.clear()
        while self._takers:
            self._wake()

    # Inspection.

    @property
    def room(self) -> int:
        """How many more keys it accepts."""
        timers = len(self._later) + len(self._retries)
        return self._keys_max - len(self._waiting) - timers - len(self._in_hand)

    def order(self) -> list[K]:
        """The keys in the order in which they would be taken, for people."""
        return [entry.key for entry in self._lines]

    def trouble(self, key: K) -> RetryTrouble | None:
        return self._troubles.get(key)

    @property
    def troubles(self) -> dict[K, RetryTrouble]:
        """Oldest first."""
        return dict(self._troubles)

    @property
    def in_hand(self) -> tuple[Taken[K], ...]:
        return tuple(self._in_hand.values())

    def taken(self, key: K) -> Taken[K] | None:
        """Why a key is in progress; None if it is not."""
        return self._in_hand.get(key)

    def oldest_wait_s(self) -> float:
        """How long the longest-waiting key has waited."""
        since_ns = self.waiting_since_ns
        return 0.0 if since_ns is None else (loop_now_ns() - since_ns) / 1e9

    @property
    def waiting_since_ns(self) -> int | None:
        """Since when the longest-waiting key has waited; None: no key waits."""
        first = next(iter(self._waiting.values()), None)  # Dictionaries keep insertion order.
        return None if first is None else first.since_ns

    # Internals.

    def _has_room(self, key: K) -> bool:
        known: tuple[Container[K], ...] = (self._in_hand, self._later, self._retries, self._waiting)
        if self.room > 0 or any(key in keys for keys in known):
            return True
        self.overflowed = True
        self._metrics.overflowed()
        return False

    def _merge(self, waiting: FairQueueEntry[K], priority: int) -> None:
        waiting.merged += 1
        if priority <= waiting.priority:
            return
        if waiting.key in self._in_hand:
            waiting.priority = priority
        else:
            self._lines.raise_to(waiting, priority)

    def _join(self, entry: FairQueueEntry[K]) -> None:
        self._lines.push(entry)
        self._wake()

    def _pop(self) -> Taken[K] | None:
        now_ns = loop_now_ns()
        if self._pace is not None and len(self._lines) and self._is_paced(self._pace, now_ns):
            return None
        entry = self._lines.pop()
        if entry is None:
            return None
        key = entry.key
        del self._waiting[key]
        trouble = self._troubles.get(key)
        waited_ns = now_ns - entry.since_ns
        taken = Taken(
            key, entry.cause, entry.merged, waited_ns, entry.priority, trouble.attempts + 1 if trouble else 1
        )
        self._in_hand[key] = taken
        if len(self._lines):
            self._wake()  # The takers woken for them may have been stopped by the rate limit.
        self._metrics.taken(len(self._lines), waited_ns / 1e9)
        return taken

    def _is_paced(self, pace: PaceLimit, now_ns: int) -> bool:
        """Whether the rate limit says to wait; then one timer wakes one taker when the wait is over."""
        wait_ns = pace.wait_ns(now_ns)
        if wait_ns == 0:
            pace.passed(now_ns)
            return False
        if self._pacing is None:
            self._pacing = asyncio.get_running_loop().call_later(wait_ns / 1e9, self._paced)
        return True

    def _paced(self) -> None:
        self._pacing = None
        self._wake()

    async def _sleep(self) -> None:
        """Until woken. A taker that is cancelled after it was woken passes the wake on, else it is lost."""
        taker = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        try:
            await taker
        except asyncio.CancelledError:
            if taker.done() and not taker.cancelled():
                self._wake()
            elif taker in self._takers:
                self._takers.remove(taker)
            raise

    def _wake(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _put_down(self, key: K) -> Taken[K]:
        taken = self._in_hand.pop(key, None)
        if taken is None:
            raise InvariantBroken(f"{key!r} was put down, but no worker had taken it")
        entry = self._waiting.get(key)
        if entry is not None:
            self._join(entry)
        return taken

    def _arm(
        self,
        timers: dict[K, _Later],
        key: K,
        delay_s: float,
        cause: WakeCause,
        *,
        priority: int,
        by_clock: bool = False,
    ) -> None:
        when_ns = loop_now_ns() + round(delay_s * 1e9)
        later = timers.get(key)
        if later is not None:
            if later.when_ns <= when_ns:
                return
            later.timer.cancel()
        timer = asyncio.get_running_loop().call_later(delay_s, self._due, timers, key)
        timers[key] = _Later(when_ns, cause, priority, timer, by_clock)

    def _due(self, timers: dict[K, _Later], key: K) -> None:
        later = timers.pop(key, None)
        if later is not None:
            self.add(key, later.cause, priority=later.priority)
