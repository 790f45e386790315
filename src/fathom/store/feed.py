"""Watches within one process: the newest commits, and a cursor per watch.

    commit ──publish──> Feed.tail ──cursor──> Watch ──Batch──> reader
                        (bounded)               └── history(), when the cursor fell out of the tail

A watch has no queue of its own. A slow reader costs nothing: its cursor falls out of the tail and it reads
the engine's history instead, until it has caught up or compaction has passed it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from fathom.store.protocol import Batch, Change, Compacted, FutureRevision, StoreUnavailable

# Half a second of the fastest load measured; and a ceiling for commits of huge bodies.
TAIL_CHANGES_MAX = 4096
TAIL_BYTES_MAX = 16 << 20

History = Callable[[str, int, int], Awaitable[Batch]]
"""(prefix, after, upto) -> the next changes after `after`, as far as convenient but never beyond `upto`."""


class _Stretch(msgspec.Struct, frozen=True, gc=False):
    """Consecutive whole commits: every change with a revision in (after, revision]."""

    after: int
    revision: int
    changes: tuple[Change, ...]
    size_bytes: int


class StoreFeed:
    """The newest changes. `bounded` False keeps all of them until compaction."""

    def __init__(self, *, revision: int, floor: int, bounded: bool) -> None:
        self.committed = revision  # The newest revision there is. Never below `revision`.
        self.revision = revision  # The newest revision that was published to watches.
        self.floor = floor  # History before it is gone.
        self._bounded = bounded
        self._tail: deque[_Stretch] = deque()
        self._tail_after = revision  # Every change in (_tail_after, revision] is in the tail.
        self._tail_changes = 0
        self._tail_bytes = 0
        self._moved = asyncio.Event()
        self._closed: str | None = None

    def publish(self, changes: tuple[Change, ...], revision: int, size_bytes: int = 0) -> None:
        """Changes of one or more whole commits, the last of which is `revision`."""
        self._tail.append(_Stretch(self.revision, revision, changes, size_bytes))
        self._tail_changes += len(changes)
        self._tail_bytes += size_bytes
        self.revision = revision
        self.committed = max(self.committed, revision)
        if self._bounded:
            # The newest stretch stays, however large: a watch that is up to date gets it without reading
            # history, and so before its committers continue.
            while len(self._tail) > 1 and self._is_too_long():
                self._drop_oldest()
        self._wake()

    def forget(self, upto: int) -> None:
        """Compaction: raise the floor and drop whole stretches below it."""
        self.floor = max(self.floor, upto)
        while self._tail and self._tail[0].revision <= upto:
            self._drop_oldest()

    def since(self, after: int) -> list[Change] | None:
        """Every published change after a revision, or None if the tail does not reach back so far."""
        if after < self._tail_after:
            return None
        newest_first: list[tuple[Change, ...]] = []
        for stretch in reversed(self._tail):
            if stretch.revision <= after:
                break
            if stretch.after >= after:
                newest_first.append(stretch.changes)
            else:
                newest_first.append(tuple(change for change in stretch.changes if change.revision > after))
        return [change for changes in reversed(newest_first) for change in changes]

    def close(self, why: str) -> None:
        self._closed = why
        self._wake()

    def check(self, after: int) -> None:
        """Refuse a watch that could not be complete."""
        if after < self.floor:
            raise Compacted(self.floor)
        if after > self.committed:
            raise FutureRevision(self.committed)

    async def newer_than(self, revision: int) -> None:
        while self._closed is None and self.revision <= revision:
            await self._moved.wait()
        if self._closed is not None:
            raise StoreUnavailable(self._closed)

    def _is_too_long(self) -> bool:
        return self._tail_changes > TAIL_CHANGES_MAX or self._tail_bytes > TAIL_BYTES_MAX

    def _wake(self) -> None:
        self._moved.set()  # Wakes the watches that wait now;
        self._moved.clear()  # later ones wait again.

    def _drop_oldest(self) -> None:
        oldest = self._tail.popleft()
        self._tail_after = oldest.revision
        self._tail_changes -= len(oldest.changes)
        self._tail_bytes -= oldest.size_bytes


class Watch(AsyncIterator[Batch]):
    """One reader's cursor. Dropping it is enough to end it: nothing else references it."""

    def __init__(self, feed: StoreFeed, prefix: str, after: int, history: History | None = None) -> None:
        self._feed = feed
        self._prefix = prefix
        self._position = after  # Everything up to and including this revision has been delivered.
        self._history = history
        self._checked = False

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Batch:
        if not self._checked:
            self._feed.check(self._position)
            self._checked = True
        await self._feed.newer_than(self._position)
        batch = self._recent() or await self._older()
        self._position = batch.revision
        return batch

    def _recent(self) -> Batch | None:
        changes = self._feed.since(self._position)
        if changes is None:
            return None
        prefix = self._prefix
        wanted = tuple([change for change in changes if change.key.startswith(prefix)])
        return Batch(wanted, self._feed.revision)

    async def _older(self) -> Batch:
        if self._history is None or self._position < self._feed.floor:
            raise Compacted(self._feed.floor)
        batch = await self._history(self._prefix, self._position, self._feed.revision)
        # 1. we saw that the floor is below us; 2. compaction raised it; 3. history was read with holes.
        if self._position < self._feed.floor:
            raise Compacted(self._feed.floor)
        return batch
