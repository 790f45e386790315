"""Snapshots that show of each object only its identity, its life and the fields that their reader declares.

The simulator runs controllers on these, so that no decision can rest on a field that is not declared. Live
controllers get whole objects of the declared kinds: a second copy of each, for each reader, would cost memory
and time.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.cache.snapshot import Objs, Snapshot
from fathom.model.declared import Reads
from fathom.model.fields import EVERYTHING, steps_of
from fathom.model.objects import Key, Obj

# Who it is, and whether it still is: nobody writes these as fields, and who deletes objects declares that.
IDENTITY = (
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
)
KEPT_MAX = 20_000  # Objects whose declared parts are kept for the next snapshot.


class DeclaredFields:
    """Of one reader."""

    def __init__(self, reads: Iterable[Reads]) -> None:
        fields: dict[str, tuple[str, ...]] = {}
        for read in reads:
            if read.source == "cache":
                fields[read.kind] = (*fields.get(read.kind, IDENTITY), *read.fields)
        self._trees = {kind: tree_of(of_kind) for kind, of_kind in fields.items()}
        # By identity of the whole object, which is kept so that no other gets its id. Objects of a cache are
        # never changed in place.
        self._parts: dict[int, tuple[Obj, Obj]] = {}

    def shown(self, snapshot: Snapshot) -> Snapshot:
        return _DeclaredSnapshot(snapshot, self)

    def part(self, kind: str, obj: Obj) -> Obj:
        kept = self._parts.get(id(obj))
        if kept is not None:
            return kept[1]
        if len(self._parts) >= KEPT_MAX:
            self._parts.clear()
        part = part_of(obj, self._trees.get(kind))
        self._parts[id(obj)] = obj, part
        return part


class _DeclaredSnapshot(Snapshot):
    __slots__ = ("_declared",)

    def __init__(self, whole: Snapshot, declared: DeclaredFields) -> None:
        super().__init__(whole._held, taken_s=whole.taken_s, reader=whole._reader)
        self._declared = declared

    def get(self, kind: str, key: Key) -> Obj | None:
        obj = super().get(kind, key)
        return None if obj is None else self._declared.part(kind, obj)

    def list(self, kind: str, namespace: str | None = None) -> Objs:
        return self._parts(kind, super().list(kind, namespace))

    def by_index(self, kind: str, index: str, value: str) -> Objs:
        return self._parts(kind, super().by_index(kind, index, value))

    def owned(self, kind: str, uid: str) -> Objs:
        return self._parts(kind, super().owned(kind, uid))

    def _parts(self, kind: str, objs: Objs) -> Objs:
        return [self._declared.part(kind, obj) for obj in objs]


class FieldTree(msgspec.Struct, frozen=True):
    """Fields by their steps, so that a level that many fields share is walked once for each object."""

    parts: dict[str, FieldTree | None] = {}  # None: the whole value.


def tree_of(fields: Iterable[str]) -> FieldTree | None:
    """None: the whole object."""
    root = FieldTree()
    for field in fields:
        if field == EVERYTHING:
            return None
        _plant(root.parts, steps_of(field))
    return root


def _plant(parts: dict[str, FieldTree | None], steps: tuple[str, ...]) -> None:
    name, *rest = steps
    if not rest:
        parts[name] = None
    else:
        tree = parts.setdefault(name, FieldTree())
        if tree is not None:  # Otherwise a field that is declared whole has it already.
            _plant(tree.parts, tuple(rest))


def part_of(obj: Obj, tree: FieldTree | None) -> Obj:
    """The object with these fields alone. Lists are whole."""
    if tree is None:
        return obj
    part: Obj = {}
    for name, inner in tree.parts.items():
        if name in obj:
            value = obj[name]
            part[name] = part_of(value, inner) if inner is not None and isinstance(value, dict) else value
    return part
