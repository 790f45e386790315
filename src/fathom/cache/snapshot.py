"""Snapshots of all caches at one moment: immutable, each kind with its own revision and age.

A snapshot is taken in microseconds whatever the size. Its kinds are not of one revision: each has its own
watch. A decision declares how fresh they must be (`freshness`), and is recorded with the revisions and ages
that it had (`revisions`, `ages`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fathom.cache.contents import NAMESPACE
from fathom.cache.indexed import HeldObject
from fathom.cache.indexes import OWNER
from fathom.model.decision import SeenVersions
from fathom.model.invariant import InvariantBroken
from fathom.model.objects import Key, Obj

AGE_S_MAX = 1e6  # Beyond it an age is infinite.

Objs = list[Obj]
Names = list[str]


class NotSynced(InvariantBroken):
    """A kind was read that has not been listed yet: an empty result would look like an empty cluster."""


class UndeclaredRead(KeyError, InvariantBroken):
    """A kind was read that its reader does not declare: nobody could tell who changes its inputs."""

    def __str__(self) -> str:
        return str(self.args[0])


class SnapshotScope(msgspec.Struct, frozen=True):
    """The kinds that a snapshot shows, because its reader declares them."""

    reader: str
    kinds: tuple[str, ...]


class Snapshot:
    __slots__ = ("_held", "_reader", "taken_s")

    def __init__(self, held: Mapping[str, HeldObject], *, taken_s: float, reader: str = "") -> None:
        self._held = held
        self._reader = reader  # Who declared the kinds that it shows; '': it shows all of them.
        self.taken_s = taken_s  # On the loop's clock.

    def get(self, kind: str, key: Key) -> Obj | None:
        return self._of(kind).contents.get(key)

    def list(self, kind: str, namespace: str | None = None) -> Objs:
        """Sorted by key. The list belongs to the caller; the objects are shared and must not be changed."""
        contents = self._of(kind).contents
        return contents.all() if namespace is None else contents.found(NAMESPACE, namespace)

    def by_index(self, kind: str, index: str, value: str) -> Objs:
        return self._of(kind).contents.found(index, value)

    def values(self, kind: str, index: str) -> Names:
        """All values of an index that have any object, sorted."""
        return self._of(kind).contents.values(index)

    def count(self, kind: str, index: str, value: str) -> int:
        return self._of(kind).contents.count(index, value)

    def owned(self, kind: str, uid: str) -> Objs:
        """The objects that name this owner, controlling or not."""
        return self._of(kind).contents.found(OWNER, uid)

    def size(self, kind: str) -> int:
        return len(self._of(kind).contents)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._held)

    def shows(self, kind: str) -> bool:
        return kind in self._held

    @property
    def revisions(self) -> dict[str, int]:
        """To be recorded with the decisions made from this snapshot."""
        return {kind: held.revision for kind, held in self._held.items()}

    def revision(self, kind: str) -> int:
        return self._known(kind).revision

    def seen(self, kind: str) -> SeenVersions:
        """How fresh the kind is, to be recorded with the decisions made from this snapshot."""
        held, age_s = self._known(kind), self.age(kind)
        age_ms = round(1000 * age_s) if age_s < AGE_S_MAX else -1  # Infinite: never read.
        return SeenVersions(held.revision, age_ms, held.applied if held.applied > held.revision else 0)

    @property
    def ages(self) -> dict[str, float]:
        return {kind: self.age(kind) for kind in self._held}

    def age(self, kind: str, *, now_s: float | None = None) -> float:
        """Seconds since the cache was last known to be as new as the server; infinite when it never was."""
        at_s = self.taken_s if now_s is None else now_s
        return max(0.0, at_s - self._known(kind).heard_s)

    @property
    def unsynced(self) -> tuple[str, ...]:
        """The kinds that have not been listed yet."""
        return tuple([kind for kind, held in self._held.items() if not held.synced])

    def synced(self, kind: str) -> bool:
        return self._known(kind).synced

    def _of(self, kind: str) -> HeldObject:
        held = self._known(kind)
        if not held.synced:
            raise NotSynced(f"{kind} has not been listed yet: wait for `Caches.until_synced`")
        return held

    def _known(self, kind: str) -> HeldObject:
        held = self._held.get(kind)
        if held is None and self._reader:
            shown = ", ".join(self._held)
            raise UndeclaredRead(f"{self._reader} does not declare to read {kind}: it declares {shown}")
        if held is None:
            raise KeyError(f"no cache of {kind}: there are {', '.join(self._held) or 'none'}")
        return held
