"""The store protocol: its types, and what every engine guarantees.

One global revision grows by one with every commit that changes something; all keys of a commit share it. An
empty store is at revision 1. A commit is atomic: all its preconditions hold and all its writes happen, or
nothing does. No acknowledged commit is ever lost; no unacknowledged commit appears in part.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from fathom.model.body import Body

# `gc=False`, below: no cycle of references goes through these values, so the garbage collector skips them.


class Entry(msgspec.Struct, frozen=True, gc=False):
    key: str
    body: Body
    revision: int  # Of the commit that wrote it last.
    created: int  # Of the commit that created it; a key deleted and created again gets a new one.


class Expect(msgspec.Struct, frozen=True, gc=False):
    """The key was last written at this revision; 0 means that it does not exist."""

    key: str
    revision: int


class Put(msgspec.Struct, frozen=True, gc=False):
    key: str
    body: Body


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Deleting an absent key changes nothing and is not an error."""

    key: str


Write = Put | Delete


class Committed(msgspec.Struct, frozen=True, gc=False):
    revision: int


class Conflict(msgspec.Struct, frozen=True, gc=False):
    """Nothing was written. `current` has every precondition key with its current entry; None means absent."""

    current: dict[str, Entry | None]
    revision: int


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """The commit may or may not have happened. Only a read can tell; the store never tries again."""

    cause: str


Outcome = Committed | Conflict | Unknown


class Page(msgspec.Struct, frozen=True, gc=False):
    entries: tuple[Entry, ...]  # In key order.
    revision: int  # The revision the page was read at.
    more: bool  # Further keys follow the last one.
    remaining: int = 0  # How many, where the engine knows.


class Change(msgspec.Struct, frozen=True, gc=False):
    """One key's change. `entry` None is a deletion. `previous` is the entry before it, None at creation or
    where the engine no longer has it."""

    key: str
    revision: int
    entry: Entry | None
    previous: Entry | None


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Changes in revision order, whole commits only. Everything under the prefix up to and including
    `revision` has now been delivered; an empty batch is progress alone."""

    changes: tuple[Change, ...]
    revision: int


class Compacted(Exception):
    """History before `floor` was compacted: range again, then watch from there."""

    def __init__(self, floor: int) -> None:
        super().__init__(f"history before revision {floor} has been compacted")
        self.floor = floor


class FutureRevision(Exception):
    """The requested revision is newer than the store's."""

    def __init__(self, current: int) -> None:
        super().__init__(f"the store is only at revision {current}")
        self.current = current


class StoreUnavailable(Exception):
    """The engine did not answer or could not write (down, disk full). Nothing was changed by the call."""


class WentBack(StoreUnavailable):
    """The store answers at an older revision than it did before: its members disagree, or it was replaced by
    an older copy. Nothing was changed by the call."""

    def __init__(self, current: int, seen: int) -> None:
        super().__init__(went_back_text(current, seen))
        self.current = current
        self.seen = seen


def went_back_text(current: int, seen: int) -> str:
    return (
        f"the store answers at revision {current}, but this server has read revision {seen}: its members"
        " disagree, or it was replaced by an older copy"
    )


class BadCommit(ValueError):
    """The commit itself is wrong: a key written twice, an empty key, more operations or bytes than the engine
    takes. Nothing was written; trying again cannot help."""


class Store(Protocol):
    async def revision(self) -> int:
        """The newest committed revision, linearizable."""
        ...

    async def range(
        self, prefix: str, *, revision: int | None = None, limit: int = 0, after: str = ""
    ) -> Page:
        """Entries whose key starts with `prefix` and is greater than `after`, in key order, at one revision
        (by default the newest). `limit` 0 means all. Raises `Compacted`, `FutureRevision`,
        `StoreUnavailable`."""
        ...

    async def get(self, key: str) -> Entry | None:
        """One key, linearizable."""
        ...

    async def commit(self, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Outcome:
        """All or nothing. A key may be written once. A commit that changes nothing keeps the revision. Raises
        `BadCommit`, and `StoreUnavailable` where it certainly did not happen."""
        ...

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[Batch]:
        """Every change under the prefix with a revision greater than `after`, exactly once, in order, for
        ever. Raises `Compacted` at once if `after` lies below the floor, `FutureRevision` if the store has
        not reached it. Progress (an empty batch) comes when the store moved on without touching the prefix.
        """
        ...

    async def request_progress(self) -> bool:
        """Make every watch soon deliver a revision at least as new as the newest one now. False where the
        engine cannot: a reader that must not miss anything then reads the store itself."""
        ...

    def problem(self) -> str:
        """What prevents commits, as far as is known without trying one; '' if nothing does. Names no file and
        no address."""
        ...

    def accept_past(self) -> None:
        """Called after `FutureRevision` by the reader that now reads everything again: from now on, answer at
        whatever revision the store has. Until then an engine that notices `WentBack` keeps answering so."""
        ...

    async def compact(self, revision: int) -> None:
        """Delete entries superseded at or before `revision`. Reads at `revision` and later still work, as
        does a watch with `after >= revision`."""
        ...

    async def close(self) -> None: ...
