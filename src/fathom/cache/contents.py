"""The objects of one kind and their indexes, as persistent maps: any number of snapshots share them.

`Contents` never changes. A `Draft` builds the next contents: changes go into an open mutation, and only
taking the contents closes it. So a burst of events without a snapshot in between costs one mutation, and a
snapshot costs the same whatever the size.

Persistent maps iterate in hash order, which differs between processes: all results are sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from immutables import Map, MapMutation

from fathom.cache.indexes import Index
from fathom.model.objects import Key, Obj

Keys = Map[Key, None]  # Used as a set: the keys under one value of an index.
Bucket = MapMutation[Key, None]  # The same, open for changes.

NAMESPACE = "namespace"  # An index that is always there, made from the keys.


class Contents:
    __slots__ = ("_indexes", "_objects", "_sorted")

    def __init__(
        self,
        objects: Map[Key, Obj],
        indexes: Mapping[str, Map[str, Keys]],
        in_order: list[tuple[Key, ...]],
    ) -> None:
        self._objects = objects
        self._indexes = indexes
        # Filled on first use; shared by all contents with the same keys.
        self._sorted = in_order

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def get(self, key: Key) -> Obj | None:
        return self._objects.get(key)

    def keys(self) -> tuple[Key, ...]:
        if not self._sorted:
            self._sorted.append(tuple(sorted(self._objects)))
        return self._sorted[0]

    def all(self) -> list[Obj]:
        return [self._objects[key] for key in self.keys()]

    def found(self, index: str, value: str) -> list[Obj]:
        """The objects under a value of an index, sorted by key."""
        keys = self._index(index).get(value)
        return [] if keys is None else [self._objects[key] for key in sorted(keys)]

    def count(self, index: str, value: str) -> int:
        keys = self._index(index).get(value)
        return 0 if keys is None else len(keys)

    def values(self, index: str) -> list[str]:
        """The values of an index that have any object, sorted."""
        return sorted(self._index(index))

    def _index(self, index: str) -> Map[str, Keys]:
        by_value = self._indexes.get(index)
        if by_value is None:
            raise KeyError(f"no index {index!r}: there are {', '.join(sorted(self._indexes))}")
        return by_value


class Draft:
    def __init__(self, indexes: Mapping[str, Index]) -> None:
        if NAMESPACE in indexes:
            raise ValueError(f"the index {NAMESPACE!r} is always there, made from the keys")
        self._functions = dict(indexes)
        empty: dict[str, Map[str, Keys]] = {name: Map() for name in (NAMESPACE, *indexes)}
        self._contents = Contents(Map(), empty, [()])
        self._open(self._contents)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Key]:
        """In no order: sort the result."""
        return iter(self.contents()._objects)

    def get(self, key: Key) -> Obj | None:
        return self._objects.get(key)

    def put(self, key: Key, old: Obj | None, obj: Obj) -> None:
        """`old` is what `get(key)` returns. Nothing is changed when an index function raises."""
        moves = []
        for name, values_of in self._functions.items():
            before = () if old is None else tuple(values_of(old))
            after = tuple(values_of(obj))
            if before != after:
                moves.append((name, before, after))
        if old is None:
            moves.append((NAMESPACE, (), (key.namespace,)))
            self._keys_changed = True
        self._objects[key] = obj
        self._changed = True
        for name, before, after in moves:
            self._move(name, key, before, after)

    def remove(self, key: Key, old: Obj) -> None:
        moves = [(name, tuple(values_of(old))) for name, values_of in self._functions.items()]
        del self._objects[key]
        self._changed = self._keys_changed = True
        for name, before in (*moves, (NAMESPACE, (key.namespace,))):
            self._move(name, key, before, ())

    def contents(self) -> Contents:
        if self._changed:
            moved = {name: self._closed(name, opened) for name, opened in self._buckets.items()}
            indexes = {**self._contents._indexes, **moved} if moved else self._contents._indexes
            in_order = [] if self._keys_changed else self._contents._sorted
            self._contents = Contents(self._objects.finish(), indexes, in_order)
            self._open(self._contents)
        return self._contents

    def _open(self, contents: Contents) -> None:
        self._objects: MapMutation[Key, Obj] = contents._objects.mutate()
        self._buckets: dict[str, dict[str, Bucket]] = {}  # By index and value; only what was touched.
        self._changed = False  # Since the contents were taken.
        self._keys_changed = False

    def _move(self, name: str, key: Key, before: Iterable[str], after: Iterable[str]) -> None:
        opened = self._buckets.get(name)
        if opened is None:
            opened = self._buckets[name] = {}
        for value in before:
            self._bucket(name, opened, value).pop(key, None)
        for value in after:
            self._bucket(name, opened, value)[key] = None

    def _bucket(self, name: str, opened: dict[str, Bucket], value: str) -> Bucket:
        bucket = opened.get(value)
        if bucket is None:
            bucket = opened[value] = self._contents._indexes[name].get(value, _NONE).mutate()
        return bucket

    def _closed(self, name: str, opened: dict[str, Bucket]) -> Map[str, Keys]:
        """The index with its touched buckets; empty ones are removed."""
        index = self._contents._indexes[name].mutate()
        for value, bucket in opened.items():
            keys = bucket.finish()
            if keys:
                index[value] = keys
            else:
                index.pop(value, None)
        return index.finish()


_NONE: Keys = Map()
