"""What a controller works with: a snapshot to decide from, and a way to have its plan carried out."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from fathom.cache.caches import Caches
from fathom.cache.snapshot import Snapshot, SnapshotScope
from fathom.client.api import Api
from fathom.control.commit import AppliedPlan, Commit, PlanPass
from fathom.control.declared_fields import DeclaredFields
from fathom.control.plan import Plan
from fathom.control.queue import WorkQueue
from fathom.control.watches import WatchedKind
from fathom.model.cause import WakeCause
from fathom.model.objects import Key
from fathom.model.times import timestamp
from fathom.seams.log import Log
from fathom.seams.outside import Clock


class Kit:
    """One per controller and term of leadership."""

    def __init__(
        self,
        controller: str,
        kind: WatchedKind,
        *,
        api: Api,
        caches: Caches,
        commit: Commit,
        queue: WorkQueue[Key],
        clock: Clock,
        rng: random.Random,
        log: Log,
        epoch: Callable[[], int] = lambda: 0,
        floor: int | None = None,
        own_trouble: Callable[[], Mapping[str, str]] = dict,
        scope: SnapshotScope | None = None,
        declared: DeclaredFields | None = None,
        oldest_pass: Callable[[Sequence[str]], int | None] = lambda names: None,
    ) -> None:
        self.api = api  # For objects that are not cached. Writes go through `apply`.
        self.floor = floor  # All writes of earlier terms are from before this revision; None: not known.
        # Problems of this process itself, by signal: reactions to other components are held meanwhile.
        self.own_trouble = own_trouble
        self.rng = rng
        self.log = log
        self._controller = controller
        self._kind = kind
        self._caches = caches
        self._commit = commit
        self._queue = queue
        self._clock = clock
        self._epoch = epoch
        self._oldest_pass = oldest_pass
        self._scope = scope  # The kinds that the controller declares to read; None: all.
        self._declared = declared  # The fields of these that its snapshots show; None: all.

    def snapshot(self) -> Snapshot:
        """The current snapshot, of the kinds that the controller declares to read: any other raises
        UndeclaredRead. Between here and the plan there is no `await`."""
        snapshot = self._caches.snapshot(self._scope)
        return snapshot if self._declared is None else self._declared.shown(snapshot)

    def now(self) -> str:
        """A timestamp for conditions."""
        return timestamp(self._clock.now_ns())

    def now_ns(self) -> int:
        """The wall clock, which may be set: only for comparing with timestamps in objects."""
        return self._clock.now_ns()

    def monotonic_ns(self) -> int:
        """For durations: silence, ages, pauses."""
        return self._clock.monotonic_ns()

    def oldest_pass_ns(self, controllers: Sequence[str]) -> int | None:
        """When the oldest running pass of these controllers of the process began, on the loop's clock: what
        it decides may be from an older snapshot. None if none is running."""
        return self._oldest_pass(controllers)

    @property
    def epoch(self) -> int:
        """Of this leader term; 0 without a lease."""
        return self._epoch()

    async def apply(self, key: Key, plan: Plan, *, seen: Snapshot) -> AppliedPlan:
        """`seen` is the snapshot that the plan was made from."""
        return await self._commit.apply(plan, here=self.passing(key), seen=seen)

    def wake(self, key: Key, cause: WakeCause, *, after_s: float = 0.0, priority: int = 0) -> None:
        """Queues another key too: one decision may be the cause of another."""
        self._queue.add_after(key, after_s, cause, priority=priority)

    def passing(self, key: Key) -> PlanPass:
        taken = self._queue.taken(key)
        if taken is None:
            return PlanPass(self._controller, self._kind, key, epoch=self._epoch())
        return PlanPass(
            self._controller, self._kind, key, taken.cause, taken.attempt, taken.waited_ns, self._epoch()
        )
