"""Own writes that must be visible before their owner decides again (read-your-writes).

    1. A controller creates a pod. 2. Its next pass reads a cache without it. 3. It creates another one.

So every write is recorded under the owner it was made for, and the owner's next decision waits until its
cache shows all of them. Writes that have been seen are dropped.
"""

from __future__ import annotations

import msgspec

from fathom.cache.snapshot import Snapshot
from fathom.model.objects import Key, metadata, uid_of

# Per owner and kind: beyond it only the highest revision is kept, which implies all of them.
WRITES_MAX = 64
# Beyond it the oldest owner's writes count for all owners: none may decide too early.
OWNERS_MAX = 10_000
EVERYONE = ""


class OwnWrite(msgspec.Struct, frozen=True):
    """`key` None: everything up to the revision. `gone`: the UID of an object that was deleted."""

    kind: str
    revision: int
    key: Key | None = None
    gone: str = ""


class WriteLog:
    def __init__(self) -> None:
        self._writes: dict[str, list[OwnWrite]] = {}  # By owner, oldest owner first; no list is empty.

    def record(self, owner: str, kind: str, revision: int, key: Key | None = None) -> None:
        """A create, update or patch that was answered with this revision. With a key it counts as seen as
        soon as the object is in the cache; without, once the cache has reached the revision."""
        self._add(owner, OwnWrite(kind, revision, key))

    def record_delete(self, owner: str, kind: str, key: Key, uid: str) -> None:
        """A delete that was answered. Seen once the object is gone or has a deletion timestamp."""
        self._add(owner, OwnWrite(kind, 0, key, uid))

    def unseen(self, owner: str, snapshot: Snapshot) -> list[OwnWrite]:
        """Writes that a snapshot does not show yet: the owner's, and those that count for all owners."""
        writes = (*self._writes.get(owner, ()), *self._writes.get(EVERYONE, ()))
        return [write for write in writes if not is_seen(write, snapshot)]

    def forget_seen(self, owner: str, snapshot: Snapshot) -> None:
        """Drop the writes that were seen: they stay visible, because caches never go back."""
        for recorded_owner in (owner, EVERYONE):
            unseen = [write for write in self._writes.get(recorded_owner, ()) if not is_seen(write, snapshot)]
            if unseen:
                self._writes[recorded_owner] = unseen
            else:
                self._writes.pop(recorded_owner, None)

    def __len__(self) -> int:
        return len(self._writes)

    def _add(self, owner: str, write: OwnWrite) -> None:
        writes = self._writes.setdefault(owner, [])
        writes.append(write)
        if len(writes) > WRITES_MAX:
            self._writes[owner] = _condensed(writes)
        if len(self._writes) > OWNERS_MAX:
            oldest = next(recorded_owner for recorded_owner in self._writes if recorded_owner != EVERYONE)
            for moved_write in self._writes.pop(oldest):
                self._add(EVERYONE, moved_write)


def is_seen(write: OwnWrite, snapshot: Snapshot) -> bool:
    if not snapshot.shows(write.kind):
        return True  # Who does not read the kind decides the same without the write.
    if not snapshot.synced(write.kind):
        return False
    if write.key is None:
        return snapshot.revision(write.kind) >= write.revision
    cached = snapshot.get(write.kind, write.key)
    if write.gone:
        return cached is None or uid_of(cached) != write.gone or "deletionTimestamp" in metadata(cached)
    if snapshot.revision(write.kind) >= write.revision:
        return True
    return cached is not None and int(metadata(cached).get("resourceVersion") or 0) >= write.revision


def _condensed(writes: list[OwnWrite]) -> list[OwnWrite]:
    """One write a kind, at its highest revision, replaces all with a revision. Deletes have none."""
    highest: dict[str, int] = {}
    for write in writes:
        if not write.gone:
            highest[write.kind] = max(write.revision, highest.get(write.kind, 0))
    deletes = [write for write in writes if write.gone]
    return [*(OwnWrite(kind, revision) for kind, revision in highest.items()), *deletes]
