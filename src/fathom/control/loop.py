"""The reconcile loop: take a key, run one pass, put the key down. The only place where anything is retried.

A retry has seven properties, and this is where each of them lives:

    idempotent, stable identity     plans name what they create after their intent        plan, ownership
    bounded attempts, deadline      then the key is given up, and a condition says so     retry
    backoff and jitter              per key, from the seeded stream                       retry
    fresh read before commitment    each pass decides anew, from a view that shows all
                                    own writes; an unknown one is asked about first       here, commit
    reasoned status                 a condition on the object says what it waits for      progress

One key cannot harm another: an exception is recorded with its stack and the key backs off, a pass that hangs
is cut off, and a full queue of one tenant does not hold up the next tenant's.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from typing import Protocol

import msgspec

from fathom.cache.caches import Caches
from fathom.cache.freshness import Probes, unmet
from fathom.cache.needs import OwnWrites
from fathom.cache.own_writes import WriteLog
from fathom.control.breaker import Breaker
from fathom.control.commit import Commit, held
from fathom.control.kit import Kit
from fathom.control.plan import Plan, WriteStatus, target
from fathom.control.progress import differs_in_words_only, progress
from fathom.control.queue import Taken, WorkQueue
from fathom.control.reconcile_result import Failure, ReconcileResult
from fathom.control.waking import Waker
from fathom.control.watches import Primary
from fathom.model.cause import Kind, WakeCause
from fathom.model.conditions import NUMBERS_EVERY_S, conditions_of
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, metadata, uid_of
from fathom.seams.log import Log
from fathom.seams.loop_clock import loop_now_ns

WORKERS = 4
# Longer than a plan of many writes takes; a pass that takes longer hangs.
PASS_S_MAX = 60.0
# A single lost race is not worth a condition; a failure that lasts is.
REPORT_FROM_ATTEMPT = 2
# A quiet kind shows how new it is only by bookmarks. A key that is held for lack of one makes the loop ask
# the server, unless the watch delivers within a moment.
ASKED_FOR = frozenset({"BehindRevision", "Stale"})
ASK_AFTER_S = 0.03
# Longer than a change or a bookmark takes to arrive. A key that is still held, for whatever reason, gets a
# condition and makes the loop ask: the server may be silent because the connection died.
HELD_LONG_S = 1.0
# A change or an answer wakes a held key. This is for when none comes.
HELD_S_MIN, HELD_S_MAX = 0.2, 2.0
ASKING_S_MIN = 0.05


class Reconciler(Protocol):
    async def reconcile(self, key: Key) -> ReconcileResult: ...


class Passed(msgspec.Struct, frozen=True):
    """One pass, for metrics."""

    controller: str
    key: Key
    result: str  # ok, requeued, failed, gave-up, held, not-sent
    reason: str
    took_s: float
    waited_s: float


class LoopObserver(Protocol):
    def passed(self, passed: Passed) -> None: ...


class NoLoopObserver:
    def passed(self, passed: Passed) -> None: ...


class Shared(msgspec.Struct, frozen=True):
    """What all loops of a process share."""

    caches: Caches
    probes: Probes
    written: WriteLog
    breaker: Breaker
    log: Log
    observer: LoopObserver = NoLoopObserver()
    workers: int = WORKERS  # Of each loop.
    pass_s_max: float = PASS_S_MAX


class HeldKey(msgspec.Struct):
    """A key that waits until the cache is fresh enough."""

    since_ns: int
    decision: str = ""  # The last recorded one that was held.
    lacks: set[str] = set()  # Kinds that the server has not been asked for successfully since the last pass.


class Loop:
    """Runs one controller for as long as its process leads."""

    def __init__(
        self,
        name: str,
        controller: Reconciler,
        *,
        primary: Primary,
        kit: Kit,
        queue: WorkQueue[Key],
        waker: Waker,
        commit: Commit,
        rng: random.Random,
        shared: Shared,
    ) -> None:
        self.name = name
        self.queue = queue
        self._controller = controller
        self._primary = primary
        self._kit = kit
        self._waker = waker
        self._commit = commit
        self._rng = rng
        self._shared = shared
        self._workers: list[asyncio.Task[None]] = []
        self._busy: dict[asyncio.Task[None], int] = {}  # Those of them that are in a pass, and since when.
        # Held keys; and when each key's trouble was last reported. Both end with the first success.
        self._held: dict[Key, HeldKey] = {}
        self._reported_ns: dict[Key, int] = {}
        shared.probes.answered.append(self._answered)

    def start(self) -> None:
        self._waker.queue = self.queue
        self._waker.look_at_all(WakeCause("start"))
        loop = asyncio.get_running_loop()
        self._workers = [
            loop.create_task(self._work(), name=f"{self.name} {number}")
            for number in range(1, self._shared.workers + 1)
        ]

    @property
    def oldest_pass_ns(self) -> int | None:
        """When the oldest of the running passes began, on the loop's clock; None if none is running."""
        return min(self._busy.values(), default=None)

    async def drain(self, within_s: float) -> bool:
        """Starts no new pass and lets running ones finish. False if one had to be cut off."""
        self.close()
        busy = [worker for worker in self._workers if worker in self._busy]
        late: set[asyncio.Task[None]] = set()
        if busy:
            _, late = await asyncio.wait(busy, timeout=within_s)
        await self.cut_off()
        return not late

    def close(self) -> None:
        self.queue.close()
        if self._waker.queue is self.queue:
            self._waker.queue = None

    async def cut_off(self) -> None:
        """Cancels all workers at once: the lease may be lost."""
        self.close()
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            await self._shared.breaker.passable()
            taken = await self.queue.take()
            if taken is None:
                return
            began_ns = loop_now_ns()
            result, reason = await self._run_pass(taken)
            took_s, waited_s = (loop_now_ns() - began_ns) / 1e9, taken.waited_ns / 1e9
            self._shared.observer.passed(Passed(self.name, taken.key, result, reason, took_s, waited_s))
            self._catch_up()

    async def _run_pass(self, taken: Taken[Key]) -> tuple[str, str]:
        """Runs a pass and always puts the key down: not even a bug of our own may cost a worker."""
        worker = asyncio.current_task()
        assert worker is not None
        self._busy[worker] = loop_now_ns()
        try:
            return await self._pass(taken)
        except Exception as error:
            self._died(taken.key, error)
            if self.queue.taken(taken.key) is taken:
                self.queue.failed(taken.key, reason="InternalError", message=repr(error))
            return "failed", "InternalError"
        finally:
            self._busy.pop(worker, None)

    def _catch_up(self) -> None:
        """Keys were turned away while the queue was full: once it is empty, every object is looked at."""
        if self._waker.go_on():
            return
        if self.queue.overflowed and not len(self.queue):
            self.queue.overflowed = False
            self._waker.look_at_all(WakeCause("resync", "the queue was full"))

    # One pass.

    async def _pass(self, taken: Taken[Key]) -> tuple[str, str]:
        reconciled = await self._look(taken.key)
        failure = reconciled.failure
        if failure is None:
            await self._went_well(taken.key, reconciled)
            return ("ok" if reconciled.after_s is None else "requeued"), ""
        if failure.blame == "failed":
            return await self._failed(taken.key, failure), failure.reason
        await self._not_tried(taken.key, failure)
        return failure.blame.replace(" ", "-"), failure.reason

    async def _look(self, key: Key) -> ReconcileResult:
        """The controller's result; or why it could not be called, or the exception it raised."""
        owner = self._kit.passing(key).owner
        if not await self._commit.sure(owner):
            why = "the outcome of an earlier write is not known yet"
            return ReconcileResult(failure=Failure("OutcomeUnknown", why, "held"))
        view = self._shared.caches.snapshot()
        lacking = unmet((OwnWrites(owner),), view, self._shared.written, now_s=loop_now_ns() / 1e9)
        if lacking:
            return ReconcileResult(failure=held(lacking))
        self._shared.written.forget_seen(owner, view)
        return await self._reconciled(key)

    async def _reconciled(self, key: Key) -> ReconcileResult:
        try:
            async with asyncio.timeout(self._shared.pass_s_max) as limit:
                return await self._controller.reconcile(key)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # We are being stopped. Otherwise something inside the pass was cancelled.
            return self._died(key, error)
        except ApiError as error:
            return ReconcileResult(failure=_refused(error))
        except TimeoutError as error:
            if not limit.expired():
                return self._died(key, error)
            return ReconcileResult.failed(
                "PassTimedOut", f"a pass took longer than {self._shared.pass_s_max:g} s"
            )
        except Exception as error:  # A failure of one object must not stop the others.
            return self._died(key, error)

    def _died(self, key: Key, error: BaseException) -> ReconcileResult:
        stack = "".join(traceback.format_exception(error))
        id_ = self._commit.record_death(self._kit.passing(key), error, stack)
        self._shared.log.error(
            "reconcile raised an exception",
            controller=self.name,
            key="/".join(key),
            error=repr(error),
            stack=stack,
            decision=id_,
        )
        return ReconcileResult.failed("InternalError", f"{type(error).__name__}: {error}")

    # Results.

    async def _went_well(self, key: Key, reconciled: ReconcileResult) -> None:
        obj = self._primary_of(key)
        if obj is None:
            self._commit.forget(self._kit.passing(key).owner)
        else:
            await self._report(key, obj, None, given_up=False)
        self._held.pop(key, None)
        self._reported_ns.pop(key, None)
        self.queue.done(key)
        if reconciled.after_s is not None:
            cause = WakeCause("timer", reconciled.why)
            self.queue.add_after(key, reconciled.after_s, cause, by_clock=reconciled.by_clock)

    async def _failed(self, key: Key, failure: Failure) -> str:
        self._held.pop(key, None)
        obj = self._primary_of(key)
        trouble = self.queue.judge(
            key,
            reason=failure.reason,
            message=failure.message,
            intent=_intent(obj),
            not_before_s=failure.retry_after_s,
        )
        if trouble.given_up:
            self._shared.log.warn("gave up retrying", controller=self.name, key="/".join(key),
                                  reason=failure.reason, message=failure.message,
                                  attempts=trouble.attempts, decision=failure.decision)  # fmt: skip
        if obj is not None and (trouble.given_up or trouble.attempts >= REPORT_FROM_ATTEMPT):
            await self._report(key, obj, failure, given_up=trouble.given_up)
        self.queue.retry(key, trouble, decision=failure.decision)
        return "gave-up" if trouble.given_up else "failed"

    async def _not_tried(self, key: Key, failure: Failure) -> None:
        """Held, or not sent: no attempt was made, and none is counted."""
        held_key = self._held.setdefault(key, HeldKey(loop_now_ns()))
        held_key.lacks = set(failure.lacks)
        held_key.decision = failure.decision or held_key.decision
        held_s = (loop_now_ns() - held_key.since_ns) / 1e9
        asks = failure.reason in ASKED_FOR
        if held_s >= (ASK_AFTER_S if asks else HELD_LONG_S):
            # A kind that fits on a page is read in full: even if its watch is dead, held keys go on.
            for kind in failure.lacks:
                self._shared.probes.ask(kind)
        obj = self._primary_of(key)
        if obj is not None and failure.blame == "held" and held_s >= HELD_LONG_S:
            await self._report(key, obj, failure, given_up=False)
        least_s = ASKING_S_MIN if asks else HELD_S_MIN
        pause_s = max(failure.retry_after_s, min(HELD_S_MAX, max(least_s, held_s)))
        woken_by: Kind = "freshness" if failure.blame == "held" else "retry"
        cause = WakeCause(woken_by, failure.reason, decision=held_key.decision)
        self.queue.put_back(key, pause_s * (0.75 + self._rng.random() / 2), cause)

    def _answered(self, kind: str) -> None:
        """The cache of a kind has caught up with the server. Keys that lack no other kind are queued."""
        for key, held_key in self._held.items():
            if kind in held_key.lacks:
                held_key.lacks.remove(kind)
                if not held_key.lacks:
                    detail = f"the {kind} cache has caught up"
                    self.queue.add(key, WakeCause("freshness", detail, decision=held_key.decision))

    async def _report(self, key: Key, obj: Obj, failure: Failure | None, *, given_up: bool) -> None:
        """Writes the object's conditions. A failed report needs no retry: the next pass reports again."""
        if not self._primary.conditions:
            return
        before = conditions_of(obj)
        after = progress(obj, failure, given_up=given_up, now=self._kit.now())
        if after == before:
            return
        now_ns = loop_now_ns()
        recently = now_ns - self._reported_ns.get(key, -(2**62)) < NUMBERS_EVERY_S * 1e9
        if recently and differs_in_words_only(before, after):
            return
        self._reported_ns[key] = now_ns
        write = WriteStatus(target(self._primary.kind.name, obj), {"conditions": after})
        why = "reconciled" if failure is None else f"{failure.reason}: {failure.message}"
        await self._kit.apply(key, Plan(statuses=(write,), why=why), seen=self._kit.snapshot())

    def _primary_of(self, key: Key) -> Obj | None:
        return self._shared.caches.snapshot().get(self._primary.kind.name, key)


def _refused(error: ApiError) -> Failure:
    """A read that the server refused, or that the breaker turned away."""
    retry_after_s = float(error.details.get("retryAfterSeconds") or error.retry_after_s or 0)
    if error.reason == "CircuitOpen":
        return Failure(error.reason, error.message, "not sent", retry_after_s)
    return Failure(error.reason or f"HTTP{error.code}", error.message, "failed", retry_after_s)


def _intent(obj: Obj | None) -> str:
    """A new generation is a new intent, and gets its own attempts."""
    return "" if obj is None else f"{uid_of(obj)}/{metadata(obj).get('generation') or ''}"
