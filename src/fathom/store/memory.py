"""The store in memory, for simulation and tests: every retained revision can be read back.

No threads, timers or I/O, and no encoding: reads return the same bodies that were written. A commit happens
between two awaits. A simulator adds faults by overriding: `commit` (answer `Unknown` before or after the
real one), `range` (compact first), `announce` (delay watches; until then only reads see the commit).
"""

from __future__ import annotations

import bisect
from collections.abc import AsyncIterator, Iterable, Sequence
from operator import itemgetter

from fathom.store.feed import StoreFeed, Watch
from fathom.store.keys import check_commit, prefix_end, range_start
from fathom.store.protocol import (
    Batch,
    Change,
    Committed,
    Compacted,
    Conflict,
    Entry,
    Expect,
    FutureRevision,
    Outcome,
    Page,
    Put,
    StoreUnavailable,
    Write,
)

# One key's past: (revision, entry), oldest first; entry None is a deletion. Never empty.
Past = list[tuple[int, Entry | None]]

_revision = itemgetter(0)


class MemoryStore:
    def __init__(self) -> None:
        self._revision = 1
        self._pasts: dict[str, Past] = {}
        self._keys: list[str] = []  # The keys of `_pasts`, sorted.
        self._feed = StoreFeed(revision=1, floor=0, bounded=False)
        self._closed = False

    def load(self, entries: Iterable[Entry], revision: int) -> None:
        """Begin with these entries, at this revision, without the history before it. For an empty store."""
        self._pasts = {entry.key: [(entry.revision, entry)] for entry in entries}
        self._keys = sorted(self._pasts)
        self._revision = revision
        self._feed = StoreFeed(revision=revision, floor=revision, bounded=False)

    async def revision(self) -> int:
        self._check_open()
        return self._revision

    async def range(
        self, prefix: str, *, revision: int | None = None, limit: int = 0, after: str = ""
    ) -> Page:
        self._check_open()
        at = self._revision if revision is None else revision
        if at > self._revision:
            raise FutureRevision(self._revision)
        if at < self._feed.floor:
            raise Compacted(self._feed.floor)
        entries = [entry for key in self._keys_in(prefix, after) if (entry := _at(self._pasts[key], at))]
        shown = entries[:limit] if limit else entries
        remaining = len(entries) - len(shown)
        return Page(tuple(shown), at, more=remaining > 0, remaining=remaining)

    async def get(self, key: str) -> Entry | None:
        self._check_open()
        return self._now(key)

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        return self.commit_now(preconditions, writes)

    def commit_now(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        self._check_open()
        check_commit(preconditions, writes)
        current = {expect.key: self._now(expect.key) for expect in preconditions}
        for expect in preconditions:
            entry = current[expect.key]
            if (entry.revision if entry else 0) != expect.revision:
                return Conflict(current, self._revision)
        next_revision = self._revision + 1
        changes = tuple([change for write in writes if (change := self._change(write, next_revision))])
        if changes:
            self._revision = self._feed.committed = next_revision
            for change in changes:
                self._record(change)
            self.announce(changes, next_revision)
        return Committed(self._revision)

    def announce(self, changes: tuple[Change, ...], revision: int) -> None:
        """Publish a commit to the watches. Overrides may delay it, but must keep the order of commits."""
        self._feed.publish(changes, revision)

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[Batch]:
        return Watch(self._feed, prefix, after)

    def problem(self) -> str:
        return ""

    def accept_past(self) -> None:
        pass  # It never goes back while it is open.

    async def request_progress(self) -> bool:
        self._check_open()
        return True  # Watches get every commit at once.

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._revision:
            raise FutureRevision(self._revision)
        if revision <= self._feed.floor:
            return
        self._feed.forget(revision)
        # Most keys have nothing to compact: one entry, still there.
        old = [key for key, past in self._pasts.items() if len(past) > 1 or past[0][1] is None]
        for key in old:
            self._pasts[key] = _compacted(self._pasts[key], revision)
        emptied = [key for key in old if not self._pasts[key]]
        for key in emptied:
            del self._pasts[key]
        if emptied:
            self._keys = sorted(self._pasts)

    async def close(self) -> None:
        self._closed = True
        self._feed.close("the store is closed")

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def _keys_in(self, prefix: str, after: str) -> list[str]:
        end = prefix_end(prefix)
        low = bisect.bisect_left(self._keys, range_start(prefix, after))
        high = len(self._keys) if end is None else bisect.bisect_left(self._keys, end)
        return self._keys[low:high]

    def _now(self, key: str) -> Entry | None:
        past = self._pasts.get(key)
        return past[-1][1] if past else None

    def _change(self, write: Write, revision: int) -> Change | None:
        """The change that the write makes; None for the deletion of an absent key."""
        previous = self._now(write.key)
        if isinstance(write, Put):
            created = previous.created if previous else revision
            return Change(write.key, revision, Entry(write.key, write.body, revision, created), previous)
        return Change(write.key, revision, None, previous) if previous else None

    def _record(self, change: Change) -> None:
        past = self._pasts.get(change.key)
        if past is None:
            self._pasts[change.key] = past = []
            bisect.insort(self._keys, change.key)
        past.append((change.revision, change.entry))


def _at(past: Past, revision: int) -> Entry | None:
    index = bisect.bisect_right(past, revision, key=_revision)
    return past[index - 1][1] if index else None


def _compacted(past: Past, revision: int) -> Past:
    """The past without entries superseded at or before the revision, nor a deletion that would come first. A
    past never begins with a deletion, so one that is first now happened at or before the revision."""
    first = max(bisect.bisect_right(past, revision, key=_revision) - 1, 0)
    return past[first:] if past[first][1] else past[first + 1 :]
