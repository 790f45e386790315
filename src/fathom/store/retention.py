"""How much history is kept: marks of (time, revision), and compaction at the newest mark that is old enough.

The marks are a document in the store itself. So they survive restarts, answer "which revision was current at
that time?", and of several servers on one store only one writes each mark: the other servers get a conflict
and do nothing. A mark's revision is that of the commit which wrote it, so that nothing is deleted in it: etcd
before 3.5.16 loses deletions of the very revision it is compacted at, for watches that are just catching up
(etcd-io/etcd#18274).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from fathom.model.body import Body
from fathom.seams.outside import Clock
from fathom.store.protocol import Committed, Entry, Expect, FutureRevision, Put, Store, StoreUnavailable

MARKS_KEY = "/fathom/marks"  # Beside the API's registry, not in it.

KEEP_S = 300.0  # kube-apiserver's compaction interval for etcd: clients are tuned to it.
EVERY_S = 30.0


class Mark(msgspec.Struct, frozen=True):
    time_ns: int
    revision: int  # 0 in the newest mark when written: its commit has no revision yet.


class _Marks(msgspec.Struct, frozen=True):
    marks: tuple[Mark, ...]  # Oldest first.


class CompactionPlan(msgspec.Struct, frozen=True):
    marks: tuple[Mark, ...]
    compact: int | None  # The revision to compact at.


class Retention:
    def __init__(
        self, store: Store, clock: Clock, *, keep_s: float = KEEP_S, every_s: float = EVERY_S
    ) -> None:
        self._store = store
        self._clock = clock
        self._keep_ns = int(keep_s * 1e9)
        self._every_s = every_s

    async def run(self) -> None:
        """Runs for ever. An outage of the store only delays compaction, which happens at marks alone."""
        while True:
            # FutureRevision: the store was replaced by an older one while we ran.
            with suppress(StoreUnavailable, FutureRevision):
                await self.step()
            await asyncio.sleep(self._every_s)

    async def step(self) -> None:
        entry = await self._store.get(MARKS_KEY)
        now_ns, every_ns = self._clock.now_ns(), int(self._every_s * 0.5e9)
        plan = plan_retention(_decoded(entry), now_ns, keep_ns=self._keep_ns, every_ns=every_ns)
        if plan is None:
            return
        body = Body(obj=msgspec.to_builtins(_Marks(plan.marks)))
        expected = Expect(MARKS_KEY, entry.revision if entry else 0)
        try:
            outcome = await self._store.commit((expected,), (Put(MARKS_KEY, body),))
        except StoreUnavailable:
            # A store that is full refuses the mark, and compaction is what makes room. The mark to compact at
            # is an old one: that this one was not written changes nothing about it.
            if plan.compact is not None:
                await self._store.compact(plan.compact)
            raise
        if isinstance(outcome, Committed) and plan.compact is not None:
            await self._store.compact(plan.compact)


async def revision_at(store: Store, time_ns: int) -> int | None:
    """The newest marked revision at or before the time; None if the time is before all marks."""
    marks = _decoded(await store.get(MARKS_KEY))
    return max((mark.revision for mark in marks if mark.time_ns <= time_ns), default=None)


def plan_retention(
    marks: tuple[Mark, ...], now_ns: int, *, keep_ns: int, every_ns: int
) -> CompactionPlan | None:
    """The marks to write. None if a server wrote one a moment ago. A mark from the future (a clock was set
    back) is dropped: it would never become old enough."""
    marks = tuple(mark for mark in marks if mark.time_ns <= now_ns)
    if marks and now_ns - marks[-1].time_ns < every_ns:
        return None
    old = [mark for mark in marks if mark.time_ns <= now_ns - keep_ns]
    kept = tuple(mark for mark in marks if mark not in old[:-1])
    return CompactionPlan((*kept, Mark(now_ns, 0)), old[-1].revision if old else None)


def _decoded(entry: Entry | None) -> tuple[Mark, ...]:
    if entry is None:
        return ()
    *older, newest = msgspec.convert(entry.body.obj, _Marks).marks
    return (*older, Mark(newest.time_ns, entry.revision))
