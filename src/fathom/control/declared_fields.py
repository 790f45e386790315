"""Snapshots that show of each object only its identity and the fields that their reader declares.

The simulator runs controllers on these, so that no decision can rest on a field that is not declared. Live
controllers get whole objects of the declared kinds: a second copy of each, for each reader, would cost memory
and time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fathom.cache.snapshot import Objs, Snapshot
from fathom.model.declared import Reads
from fathom.model.fields import EVERYTHING, steps_of
from fathom.model.objects import Key, Obj

IDENTITY = (
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.generation",
)
KEPT_MAX = 20_000  # Objects whose declared parts are kept for the next snapshot.


class DeclaredFields:
    """Of one reader."""

    def __init__(self, reads: Iterable[Reads]) -> None:
        self._fields: dict[str, tuple[str, ...]] = {}
        for read in reads:
            if read.source == "cache":
                self._fields[read.kind] = (*self._fields.get(read.kind, IDENTITY), *read.fields)
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
        fields = self._fields.get(kind, (EVERYTHING,))
        self._parts[id(obj)] = obj, part_of(obj, fields)
        return self._parts[id(obj)][1]


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


def part_of(obj: Obj, fields: Iterable[str]) -> Obj:
    """The object with these fields alone. Lists are whole."""
    part: Obj = {}
    for field in fields:
        if field == EVERYTHING:
            return obj
        _copy(obj, part, steps_of(field))
    return part


def _copy(source: Any, into: Obj, steps: tuple[str, ...]) -> None:
    name, *rest = steps
    if not isinstance(source, dict) or name not in source:
        return
    if rest and isinstance(source[name], dict):
        _copy(source[name], into.setdefault(name, {}), tuple(rest))
    else:
        into[name] = source[name]
